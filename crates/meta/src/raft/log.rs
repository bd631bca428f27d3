//! openraft's log and vote, in a directory.

use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use forebay_rt::SharedClock;
use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader, StorageIOError};

use super::db::{Batch, Db, DbError, Durability, Family};
use super::{Entry, LogId, StorageError, Types, Vote};
use crate::limits::LOG_READ_BYTES_MAX;
use crate::metrics::Metrics;

const VOTE: &[u8] = b"vote";
const COMMITTED: &[u8] = b"committed";
const PURGED: &[u8] = b"purged";

/// The log of one voter. Clones share it.
#[derive(Clone)]
pub(crate) struct LogStore {
    db: Arc<Db>,
    clock: SharedClock,
    metrics: Arc<Metrics>,
}

impl LogStore {
    pub(crate) fn new(db: Arc<Db>, clock: SharedClock, metrics: Arc<Metrics>) -> Self {
        Self { db, clock, metrics }
    }

    async fn read(
        &self,
        from: u64,
        until: Option<u64>,
        bytes_max: usize,
    ) -> Result<Vec<Entry>, StorageError> {
        let entries = self.db.run(move |db| entries(db, from, until, bytes_max)).await;
        entries.map_err(|error| StorageIOError::read_logs(&error).into())
    }

    async fn write(
        &self,
        durability: Durability,
        work: impl FnOnce(&mut Batch<'_>) -> Result<(), DbError> + Send + 'static,
    ) -> Result<(), DbError> {
        let began = self.clock.now();
        let written = self.db.run(move |db| db.write(durability, work)).await;
        if durability == Durability::Synced {
            self.metrics.synced(self.clock.now().saturating_duration_since(began));
        }
        written
    }
}

/// Entries of `from..until` that have no more than `bytes_max` together, but one at least.
pub(crate) fn entries(
    db: &Db,
    from: u64,
    until: Option<u64>,
    bytes_max: usize,
) -> Result<Vec<Entry>, DbError> {
    let (from, until) = (key(from), until.map(key));
    let (mut entries, mut bytes) = (Vec::new(), 0);
    db.scan(Family::Log, &from, until.as_ref().map(<[u8; 8]>::as_slice), |entry, size| {
        entries.push(entry);
        bytes += size;
        bytes < bytes_max
    })?;
    Ok(entries)
}

/// Makes a directory look as if the log up to `log_id` had been purged.
pub(crate) fn begin_after(batch: &mut Batch<'_>, log_id: LogId, vote: Vote) -> Result<(), DbError> {
    batch.put(Family::Meta, PURGED, &log_id)?;
    batch.put(Family::Meta, COMMITTED, &Some(log_id))?;
    batch.put(Family::Meta, VOTE, &vote)
}

/// The vote that a directory last cast.
pub(crate) fn vote(db: &Db) -> Result<Option<Vote>, DbError> {
    db.get(Family::Meta, VOTE)
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<RB>(&mut self, range: RB) -> Result<Vec<Entry>, StorageError>
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let from = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let until = match range.end_bound() {
            Bound::Included(last) => last.checked_add(1),
            Bound::Excluded(end) => Some(*end),
            Bound::Unbounded => None,
        };
        if until.is_some_and(|until| until <= from) {
            return Ok(Vec::new());
        }
        self.read(from, until, usize::MAX).await
    }

    /// What is sent to another voter at once.
    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry>, StorageError> {
        self.read(start, Some(end), LOG_READ_BYTES_MAX).await
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, StorageError> {
        let read = self.db.run(|db| {
            let last_purged_log_id: Option<LogId> = db.get(Family::Meta, PURGED)?;
            let last: Option<Entry> = db.last(Family::Log)?;
            let last_log_id = last.map(|entry| entry.log_id).or(last_purged_log_id);
            Ok(LogState { last_purged_log_id, last_log_id })
        });
        read.await.map_err(|error| StorageIOError::read_logs(&error).into())
    }

    async fn get_log_reader(&mut self) -> Self::LogReader {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        let vote = *vote;
        let written =
            self.write(Durability::Synced, move |batch| batch.put(Family::Meta, VOTE, &vote));
        written.await.map_err(|error| StorageIOError::write_vote(&error).into())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        let read = self.db.run(vote);
        read.await.map_err(|error| StorageIOError::read_vote(&error).into())
    }

    /// Ordered is enough: what was applied is synced in the next step, with this before it.
    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), StorageError> {
        let written = self.write(Durability::Ordered, move |batch| {
            batch.put(Family::Meta, COMMITTED, &committed)
        });
        written.await.map_err(|error| StorageIOError::write(&error).into())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, StorageError> {
        let read = self.db.run(|db| db.get::<Option<LogId>>(Family::Meta, COMMITTED));
        let committed = read.await.map_err(|error| StorageIOError::read(&error))?;
        Ok(committed.flatten())
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<Types>,
    ) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        let written = self.write(Durability::Synced, move |batch| {
            let mut each = entries.iter();
            each.try_for_each(|entry| batch.put(Family::Log, &key(entry.log_id.index), entry))
        });
        written.await.map_err(|error| StorageIOError::write_logs(&error))?;
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId) -> Result<(), StorageError> {
        let from = key(log_id.index);
        let written =
            self.write(Durability::Synced, move |batch| batch.delete(Family::Log, &from, None));
        written.await.map_err(|error| StorageIOError::write_logs(&error).into())
    }

    /// Ordered is enough: entries that come back after a crash are purged again.
    async fn purge(&mut self, log_id: LogId) -> Result<(), StorageError> {
        let purged = self.db.run(move |db| {
            // Starts where the last purge ended: what was deleted there is still in the way.
            let last: Option<LogId> = db.get(Family::Meta, PURGED)?;
            let from = key(last.map_or(0, |last| last.index));
            let until = log_id.index.checked_add(1).map(key);
            db.write(Durability::Ordered, |batch| {
                batch.delete(Family::Log, &from, until.as_ref().map(<[u8; 8]>::as_slice))?;
                batch.put(Family::Meta, PURGED, &log_id)
            })
        });
        purged.await.map_err(|error| StorageIOError::write_logs(&error).into())
    }
}

const fn key(index: u64) -> [u8; 8] {
    index.to_be_bytes()
}
