//! The state machine under openraft: what is replicated, stored and sent.
//!
//! The only part of the crate that knows openraft's storage and network traits. A later openraft
//! is to change nothing outside this folder but names.

mod db;
mod identity;
mod log;
mod machine;
mod network;
mod service;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use openraft::SnapshotPolicy;
use serde::{Deserialize, Serialize};

use crate::limits::{PAYLOAD_ENTRIES_MAX, SNAPSHOT_SEND_TIME_MAX};
use crate::state::{Command, Outcome, State};
use crate::voter::Timings;

pub(crate) use db::Db;
pub use db::DbError;
pub(crate) use identity::Identity;
pub(crate) use log::LogStore;
pub(crate) use machine::{Applied, Machine, Published, apply, read as read_machine};
pub(crate) use network::Network;
pub(crate) use service::RaftService;

openraft::declare_raft_types!(
    /// The types of our Raft group.
    pub(crate) Types:
        D = Command,
        R = Outcome,
        NodeId = u64,
        Node = Member,
        Entry = openraft::Entry<Types>,
        SnapshotData = Arc<State>,
        AsyncRuntime = openraft::TokioRuntime,
);

pub(crate) type Raft = openraft::Raft<Types>;
pub(crate) type Entry = openraft::Entry<Types>;
pub(crate) type LogId = openraft::LogId<u64>;
pub(crate) type Vote = openraft::Vote<u64>;
pub(crate) type StorageError = openraft::StorageError<u64>;
pub(crate) type StoredMembership = openraft::StoredMembership<u64, Member>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<u64, Member>;
pub(crate) type Snapshot = openraft::Snapshot<Types>;
pub(crate) type RaftMetrics = openraft::RaftMetrics<u64, Member>;

/// A voter as the group knows it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Member {
    /// `host:port` of its control port.
    pub(crate) addr: String,
    /// Names its directory. Everything that is sent to it says so, and another directory refuses:
    /// a voter that lost its disk has forgotten how it voted, and must not vote again.
    pub(crate) disk_id: u64,
}

/// openraft's configuration.
///
/// It starts an election one `election_timeout_max` (the lease that voters grant their leader)
/// *plus* a time between the two timeouts after it last heard of the leader.
pub(crate) fn config(timings: &Timings) -> Result<openraft::Config, String> {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let config = openraft::Config {
        cluster_name: "forebay".into(),
        heartbeat_interval: millis(timings.raft_heartbeat),
        election_timeout_min: millis(timings.election_min),
        election_timeout_max: millis(timings.election_max),
        install_snapshot_timeout: millis(SNAPSHOT_SEND_TIME_MAX),
        max_payload_entries: PAYLOAD_ENTRIES_MAX,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(timings.snapshot_logs),
        max_in_snapshot_log_to_keep: timings.snapshot_logs / 5,
        // A voter that has fallen behind further than the log reaches gets the snapshot.
        replication_lag_threshold: timings.snapshot_logs + 1,
        purge_batch_size: timings.snapshot_logs / 5 + 1,
        ..openraft::Config::default()
    };
    config.validate().map_err(|error| error.to_string())
}

/// What is in a directory's log from `index` on.
pub(crate) fn read_log(db: &Db, index: u64) -> Result<Vec<Entry>, DbError> {
    log::entries(db, index, None, usize::MAX)
}

/// Fills an empty directory with a state, and with a log that was purged up to `last`.
pub(crate) fn write_machine_and_log(
    db: &Db,
    applied: &Applied,
    state: &State,
    last: LogId,
    vote: Vote,
) -> Result<(), DbError> {
    db.write(db::Durability::Synced, |batch| {
        machine::write(batch, applied, state)?;
        log::begin_after(batch, last, vote)
    })
}
