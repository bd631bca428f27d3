//! Who is in the cluster: workers, rings, and the view of both that every process shares.

use std::fmt;

/// A worker, for as long as its disks keep the identity. Random, not an address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub u64);

impl WorkerId {
    /// Reads the form that [`fmt::Display`] writes: sixteen hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let is_whole = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_whole.then(|| u64::from_str_radix(text, 16).ok().map(Self)).flatten()
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "w-{self}")
    }
}

/// Version of the ring. Rises when placement changes, and when a fence needs it to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Epoch(pub u64);

/// What a worker is to the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkerState {
    /// Registered, not ready to own anything yet.
    Joining,
    /// In the ring.
    Active,
    /// Out of the ring, still answering for what it holds.
    Draining,
    /// Out of the ring, not heard of.
    Down,
}

impl WorkerState {
    /// The word for logs, metrics and the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::Active => "active",
            Self::Draining => "draining",
            Self::Down => "down",
        }
    }
}

/// A worker as the cluster knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerInfo {
    /// Who.
    pub id: WorkerId,
    /// What it is to the ring.
    pub state: WorkerState,
    /// `host:port` of its data port, for other workers.
    pub data_addr: String,
    /// `host:port` of its S3 port, for clients.
    pub s3_addr: String,
    /// The failure domain that the operator named; empty without one.
    pub zone: String,
    /// What its disks may hold.
    pub capacity_bytes: u64,
}

/// How keys are spread: the same for every process that computes an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingConfig {
    /// Points on the ring of a member of weight [`RingConfig::UNIT_WEIGHT`].
    pub virtual_nodes: u32,
    /// Of the hash of both members and keys.
    pub seed: u64,
}

impl RingConfig {
    /// The weight of a member with exactly `virtual_nodes` points.
    pub const UNIT_WEIGHT: u32 = 100;
}

impl Default for RingConfig {
    /// 500 points: at 16 workers the fullest has 1.06-1.08 of the mean (DEPENDENCIES, measured).
    fn default() -> Self {
        Self { virtual_nodes: 500, seed: 0 }
    }
}

/// A worker's share of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingMember {
    /// Who.
    pub id: WorkerId,
    /// In hundredths of the weight of an average worker: [`RingConfig::UNIT_WEIGHT`].
    pub weight: u32,
}

/// The ring of one epoch, in the order in which it is built.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RingSpec {
    /// Which.
    pub epoch: Epoch,
    /// How.
    pub config: RingConfig,
    /// Who, by id.
    pub members: Vec<RingMember>,
}

/// Rings before the present one whose owners may still hold what moved.
pub const PREVIOUS_RINGS: usize = 4;

/// What every process knows of the cluster. Views are totally ordered by `revision`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    /// Rises with every change of anything in here.
    pub revision: u64,
    /// The present ring.
    pub ring: RingSpec,
    /// Rings with other members before it, newest first, at most [`PREVIOUS_RINGS`].
    pub previous: Vec<RingSpec>,
    /// All workers, also those that are not in the ring, by id.
    pub workers: Vec<WorkerInfo>,
    /// Bucket rules and grants, as the operator wrote them; `None` where each worker has its own.
    pub rules: Option<Rules>,
}

impl View {
    /// The worker `id`, if the cluster knows it.
    pub fn worker(&self, id: WorkerId) -> Option<&WorkerInfo> {
        self.workers.iter().find(|worker| worker.id == id)
    }
}

/// The replicated part of the configuration: text in the syntax of the config file, with
/// `[[bucket]]` and `[auth]` tables only. Secrets are named by file, never contained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Rises with every change.
    pub version: u64,
    /// The text.
    pub toml: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_id_survives_being_written_down() {
        for id in [0, 1, u64::MAX, 0x00ab_cdef] {
            assert_eq!(WorkerId::parse(&WorkerId(id).to_string()), Some(WorkerId(id)));
        }
        for wrong in ["", "1", "+000000000000001", "000000000000000g", "00000000000000000"] {
            assert_eq!(WorkerId::parse(wrong), None, "{wrong}");
        }
    }
}
