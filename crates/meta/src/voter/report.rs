//! Raft's figures as metrics, and what went wrong with it as a log line.

use std::sync::Arc;

use forebay_rt::timeout;
use openraft::ServerState;

use super::Group;
use crate::limits::METRICS_INTERVAL;
use crate::metrics::Progress;
use crate::raft::{LogId, RaftMetrics};

/// Runs until raft has ended.
pub(super) async fn run(group: Arc<Group>) {
    let mut metrics = group.raft.server_metrics();
    let mut leader = None;
    let mut snapshot = (None, group.clock.now());
    loop {
        let raft = group.raft.metrics().borrow().clone();
        if let Err(fatal) = &raft.running_state {
            tracing::error!(%fatal, "this voter takes no part any more");
            return;
        }
        if raft.current_leader.is_some() && raft.current_leader != leader {
            leader = raft.current_leader;
            group.metrics.leader_changed();
            tracing::info!(leader, term = raft.current_term, "the voters have a leader");
        }
        if raft.snapshot != snapshot.0 {
            snapshot = (raft.snapshot, group.clock.now());
        }
        let snapshot_age = group.clock.now().saturating_duration_since(snapshot.1);
        report(&group, &raft, snapshot_age).await;
        let changed = timeout(&*group.clock, METRICS_INTERVAL, metrics.changed()).await;
        if changed.is_ok_and(|changed| changed.is_err()) {
            return;
        }
    }
}

async fn report(group: &Group, raft: &RaftMetrics, snapshot_age: std::time::Duration) {
    let voters = raft.membership_config.voter_ids().count();
    let is_leader = raft.state == ServerState::Leader;
    group.metrics.role(is_leader, raft.current_leader.is_some(), raft.current_term, voters);
    group.metrics.saw(&group.view());
    let committed = group.raft.with_raft_state(|state| state.committed).await.ok().flatten();
    group.metrics.progressed(Progress {
        last_log_index: raft.last_log_index.unwrap_or(0),
        committed_index: index(committed),
        applied_index: index(raft.last_applied),
        snapshot_index: index(raft.snapshot),
        snapshot_age,
        disk_bytes: group.db.bytes_on_disk(),
    });
}

fn index(log_id: Option<LogId>) -> u64 {
    log_id.map_or(0, |log_id| log_id.index)
}
