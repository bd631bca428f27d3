//! What a voter counts.

use std::time::Duration;

use forebay_telemetry::metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};
use forebay_types::{View, WorkerState};

const STATES: [WorkerState; 4] =
    [WorkerState::Joining, WorkerState::Active, WorkerState::Draining, WorkerState::Down];

/// Handles, bound once. Made after the recorder is there.
pub(crate) struct Metrics {
    is_leader: Gauge,
    has_leader: Gauge,
    term: Gauge,
    leader_changes: Counter,
    commit_seconds: Histogram,
    log_fsync_seconds: Histogram,
    committed_index: Gauge,
    applied_index: Gauge,
    last_log_index: Gauge,
    snapshot_index: Gauge,
    snapshot_age_seconds: Gauge,
    disk_bytes: Gauge,
    voters: Gauge,
    ring_members: [Gauge; 4],
    marked_down: Counter,
}

/// How far a voter's log has come.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    pub(crate) last_log_index: u64,
    pub(crate) committed_index: u64,
    pub(crate) applied_index: u64,
    pub(crate) snapshot_index: u64,
    pub(crate) snapshot_age: Duration,
    pub(crate) disk_bytes: u64,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        describe();
        describe_members();
        Self {
            is_leader: gauge!("forebay_raft_is_leader"),
            has_leader: gauge!("forebay_raft_has_leader"),
            term: gauge!("forebay_raft_term"),
            leader_changes: counter!("forebay_raft_leader_changes_total"),
            commit_seconds: histogram!("forebay_raft_commit_seconds"),
            log_fsync_seconds: histogram!("forebay_raft_log_fsync_seconds"),
            committed_index: gauge!("forebay_raft_committed_index"),
            applied_index: gauge!("forebay_raft_applied_index"),
            last_log_index: gauge!("forebay_raft_last_log_index"),
            snapshot_index: gauge!("forebay_raft_snapshot_index"),
            snapshot_age_seconds: gauge!("forebay_raft_snapshot_age_seconds"),
            disk_bytes: gauge!("forebay_raft_disk_bytes"),
            voters: gauge!("forebay_raft_voters"),
            ring_members: STATES
                .map(|state| gauge!("forebay_ring_members", "state" => state.as_str())),
            marked_down: counter!("forebay_raft_workers_marked_down_total"),
        }
    }

    /// Whether this voter leads, whether it knows who does, in which term, of how many voters.
    pub(crate) fn role(&self, is_leader: bool, has_leader: bool, term: u64, voters: usize) {
        self.is_leader.set(f64::from(u8::from(is_leader)));
        self.has_leader.set(f64::from(u8::from(has_leader)));
        self.term.set(term as f64);
        self.voters.set(voters as f64);
    }

    pub(crate) fn leader_changed(&self) {
        self.leader_changes.increment(1);
    }

    pub(crate) fn progressed(&self, progress: Progress) {
        self.last_log_index.set(progress.last_log_index as f64);
        self.committed_index.set(progress.committed_index as f64);
        self.applied_index.set(progress.applied_index as f64);
        self.snapshot_index.set(progress.snapshot_index as f64);
        self.snapshot_age_seconds.set(progress.snapshot_age.as_secs_f64());
        self.disk_bytes.set(progress.disk_bytes as f64);
    }

    /// A command was committed and applied.
    pub(crate) fn committed(&self, took: Duration) {
        self.commit_seconds.record(took.as_secs_f64());
    }

    /// The disk has confirmed a write of the log or the vote.
    pub(crate) fn synced(&self, took: Duration) {
        self.log_fsync_seconds.record(took.as_secs_f64());
    }

    pub(crate) fn saw(&self, view: &View) {
        for (state, gauge) in STATES.iter().zip(&self.ring_members) {
            gauge.set(view.workers.iter().filter(|worker| worker.state == *state).count() as f64);
        }
    }

    pub(crate) fn marked_down(&self, workers: usize) {
        self.marked_down.increment(workers as u64);
    }
}

/// What the page says of each metric.
fn describe() {
    describe_gauge!("forebay_raft_is_leader", "1 where this voter leads.");
    describe_gauge!("forebay_raft_has_leader", "1 where this voter knows who leads.");
    describe_gauge!(
        "forebay_raft_term",
        "The group's term: how often a leader has been voted for."
    );
    describe_counter!(
        "forebay_raft_leader_changes_total",
        "Times that this voter saw another leader than before."
    );
    describe_histogram!(
        "forebay_raft_commit_seconds",
        "Seconds until a command was committed and applied."
    );
    describe_histogram!(
        "forebay_raft_log_fsync_seconds",
        "Seconds until the disk confirmed a write of log or vote."
    );
    describe_gauge!(
        "forebay_raft_committed_index",
        "Number of the last entry of the log that a majority has."
    );
    describe_gauge!(
        "forebay_raft_applied_index",
        "Number of the last entry of the log that is applied here."
    );
    describe_gauge!("forebay_raft_last_log_index", "Number of the last entry of the log here.");
    describe_gauge!(
        "forebay_raft_snapshot_index",
        "Number of the last entry of the log that the snapshot here stands for."
    );
    describe_gauge!(
        "forebay_raft_snapshot_age_seconds",
        "Seconds since the snapshot here was taken."
    );
    describe_gauge!("forebay_raft_disk_bytes", "Bytes on disk of this voter's log and state.");
    describe_gauge!("forebay_raft_voters", "Voters of the group.");
    describe_counter!(
        "forebay_raft_workers_marked_down_total",
        "Workers that this voter found silent and marked down."
    );
}

/// Voters and workers both tell of the workers.
pub(crate) fn describe_members() {
    describe_gauge!("forebay_ring_members", "Workers that the voters know, by state.");
}
