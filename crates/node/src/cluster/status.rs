//! What a worker says of its cluster.

use forebay_meta::worker::{Membership, Standing};
use serde::{Deserialize, Serialize};

use super::handover::Handover;
use super::placement::RingPlacement;

/// The cluster, as one worker sees it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// This worker's identity.
    pub worker: String,
    /// Version of the ring.
    pub epoch: u64,
    /// Version of the view.
    pub revision: u64,
    /// The control address of the leader that answered last.
    pub leader: Option<String>,
    /// Whether a leader has answered within the time of a lease.
    pub has_voters: bool,
    /// Whether this worker answers for its names from memory: `yes`, `not yet` or `lapsed`.
    pub vouches: String,
    /// This worker's share of all blocks.
    pub owned_ratio: f64,
    /// How far a worker that leaves has handed over what it holds; `None` for one that stays.
    pub handed_over: Option<HandedOver>,
    /// All workers.
    pub workers: Vec<WorkerStatus>,
}

/// One worker of the cluster.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// Its identity.
    pub id: String,
    /// `joining`, `active`, `draining` or `down`.
    pub state: String,
    /// Its data port.
    pub data: String,
    /// Its S3 port.
    pub s3: String,
    /// Its zone.
    pub zone: String,
    /// Its share of all blocks.
    pub owned_ratio: f64,
}

/// How far a hand-over is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedOver {
    /// Whether everything has been offered.
    pub done: bool,
    /// Extents that others have taken.
    pub taken: u64,
    /// Extents that nobody took.
    pub left: u64,
}

pub(super) fn status(
    membership: &Membership,
    placement: &RingPlacement,
    handover: &Handover,
) -> ClusterStatus {
    let rings = placement.rings();
    let shares = rings.present.owner_share();
    let share =
        |id| shares.iter().find(|(worker, _)| *worker == id).map_or(0.0, |(_, share)| *share);
    let workers = rings.view.workers.iter().map(|worker| WorkerStatus {
        id: worker.id.to_string(),
        state: worker.state.as_str().into(),
        data: worker.data_addr.clone(),
        s3: worker.s3_addr.clone(),
        zone: worker.zone.clone(),
        owned_ratio: share(worker.id),
    });
    ClusterStatus {
        worker: placement.me().to_string(),
        epoch: rings.epoch().0,
        revision: rings.view.revision,
        leader: membership.contact().leader,
        has_voters: membership.has_voters(),
        vouches: match membership.standing(rings.epoch()) {
            Standing::Vouches { .. } => "yes".into(),
            Standing::NotYet(_) => "not yet".into(),
            Standing::Lapsed => "lapsed".into(),
        },
        owned_ratio: share(placement.me()),
        handed_over: handover.progress(),
        workers: workers.collect(),
    }
}
