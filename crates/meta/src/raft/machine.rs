//! openraft's state machine: the state in memory, on disk, and as a snapshot.

use std::sync::Arc;

use forebay_types::View;
use openraft::storage::RaftStateMachine;
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder, StorageIOError};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::db::{Batch, Db, DbError, Durability, Family};
use super::{Entry, LogId, Snapshot, SnapshotMeta, StorageError, StoredMembership, Types};
use crate::state::{Outcome, State};

const APPLIED: &[u8] = b"applied";
const STATE: &[u8] = b"state";
const SNAPSHOT: &[u8] = b"current";

/// Up to where the log has been applied.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Applied {
    pub(crate) last: Option<LogId>,
    pub(crate) membership: StoredMembership,
}

/// What the rest of the voter sees of the state. It never goes back, not by a crash either:
/// applying syncs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Published {
    pub(crate) state: Arc<State>,
    pub(crate) view: Arc<View>,
}

/// The state machine of one voter.
pub(crate) struct Machine {
    db: Arc<Db>,
    applied: Applied,
    state: Arc<State>,
    published: watch::Sender<Published>,
    keeping: Arc<Mutex<()>>,
}

/// Builds a snapshot of the state as it was when this was made.
pub(crate) struct SnapshotBuilder {
    db: Arc<Db>,
    applied: Applied,
    state: Arc<State>,
    /// Held while the stored snapshot is replaced: one from the leader may arrive while an older
    /// one is being built.
    keeping: Arc<Mutex<()>>,
}

impl Machine {
    /// Reads what `db` has, which may be nothing.
    pub(crate) fn open(db: Arc<Db>) -> Result<Self, DbError> {
        let (applied, state) = read(&db)?;
        let (state, published) = (Arc::new(state), watch::Sender::default());
        let machine = Self { db, applied, state, published, keeping: Arc::default() };
        machine.publish();
        Ok(machine)
    }

    /// The state from now on.
    pub(crate) fn watch(&self) -> watch::Receiver<Published> {
        self.published.subscribe()
    }

    fn publish(&self) {
        let view = Arc::new(self.state.view());
        self.published.send_replace(Published { state: self.state.clone(), view });
    }

    /// Makes it so on disk, then in memory, then for everybody to see.
    async fn turn_to(
        &mut self,
        applied: Applied,
        state: Arc<State>,
        snapshot: Option<SnapshotMeta>,
    ) -> Result<(), DbError> {
        let to_write = (applied.clone(), state.clone());
        let (is_same, keeping) = (*state == *self.state, self.keeping.clone());
        let written = self.db.run(move |db| {
            let _keeping = snapshot.is_some().then(|| keeping.lock());
            db.write(Durability::Synced, |batch| {
                let (applied, state) = &to_write;
                batch.put(Family::Machine, APPLIED, applied)?;
                if let Some(meta) = snapshot {
                    batch.put(Family::Snapshot, SNAPSHOT, &(meta, &**state))?;
                }
                if is_same {
                    return Ok(());
                }
                batch.put(Family::Machine, STATE, &**state)
            })
        });
        written.await?;
        (self.applied, self.state) = (applied, state);
        if !is_same {
            self.publish();
        }
        Ok(())
    }
}

/// What a directory holds of the state, and up to where.
pub(crate) fn read(db: &Db) -> Result<(Applied, State), DbError> {
    let applied = db.get(Family::Machine, APPLIED)?.unwrap_or_default();
    let state = db.get(Family::Machine, STATE)?.unwrap_or_default();
    Ok((applied, state))
}

/// Puts a state into an empty directory.
pub(crate) fn write(
    batch: &mut Batch<'_>,
    applied: &Applied,
    state: &State,
) -> Result<(), DbError> {
    batch.put(Family::Machine, APPLIED, applied)?;
    batch.put(Family::Machine, STATE, state)
}

/// Stores a snapshot, unless a newer one is there.
fn keep(db: &Db, meta: &SnapshotMeta, state: &State) -> Result<(), DbError> {
    let there: Option<(SnapshotMeta, State)> = db.get(Family::Snapshot, SNAPSHOT)?;
    if there.is_some_and(|(there, _)| there.last_log_id > meta.last_log_id) {
        return Ok(());
    }
    db.write(Durability::Ordered, |batch| batch.put(Family::Snapshot, SNAPSHOT, &(meta, state)))
}

/// Applies one entry.
pub(crate) fn apply(state: &mut State, applied: &mut Applied, entry: Entry) -> Outcome {
    applied.last = Some(entry.log_id);
    match entry.payload {
        EntryPayload::Blank => Ok(state.unchanged()),
        EntryPayload::Normal(command) => state.apply(command),
        EntryPayload::Membership(membership) => {
            applied.membership = StoredMembership::new(Some(entry.log_id), membership);
            Ok(state.unchanged())
        }
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), StorageError> {
        Ok((self.applied.last, self.applied.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Outcome>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let (mut applied, mut state) = (self.applied.clone(), State::clone(&self.state));
        let entries = entries.into_iter();
        let outcomes = entries.map(|entry| apply(&mut state, &mut applied, entry)).collect();
        let turned = self.turn_to(applied, Arc::new(state), None).await;
        turned.map_err(|error| StorageIOError::write_state_machine(&error))?;
        Ok(outcomes)
    }

    async fn get_snapshot_builder(&mut self) -> Self::SnapshotBuilder {
        SnapshotBuilder {
            db: self.db.clone(),
            applied: self.applied.clone(),
            state: self.state.clone(),
            keeping: self.keeping.clone(),
        }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Arc<State>>, StorageError> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: Box<Arc<State>>,
    ) -> Result<(), StorageError> {
        let applied = Applied { last: meta.last_log_id, membership: meta.last_membership.clone() };
        let turned = self.turn_to(applied, *snapshot, Some(meta.clone())).await;
        turned
            .map_err(|error| StorageIOError::write_snapshot(Some(meta.signature()), &error).into())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, StorageError> {
        let read = self.db.run(|db| db.get::<(SnapshotMeta, State)>(Family::Snapshot, SNAPSHOT));
        let stored = read.await.map_err(|error| StorageIOError::read_snapshot(None, &error))?;
        Ok(stored.map(|(meta, state)| Snapshot { meta, snapshot: Box::new(Arc::new(state)) }))
    }
}

impl RaftSnapshotBuilder<Types> for SnapshotBuilder {
    /// Need not be synced: without it, one is built again from the state, which was.
    async fn build_snapshot(&mut self) -> Result<Snapshot, StorageError> {
        let Applied { last, membership } = self.applied.clone();
        let snapshot_id =
            format!("{}-{}", last.map_or(0, |last| last.index), self.state.revision());
        let meta = SnapshotMeta { last_log_id: last, last_membership: membership, snapshot_id };
        let (built, state, keeping) = (meta.clone(), self.state.clone(), self.keeping.clone());
        let kept = self.db.run(move |db| {
            let _keeping = keeping.lock();
            keep(db, &built, &state)
        });
        kept.await
            .map_err(|error| StorageIOError::write_snapshot(Some(meta.signature()), &error))?;
        Ok(Snapshot { meta, snapshot: Box::new(self.state.clone()) })
    }
}
