//! What may be asked of the state, and what comes of it.
//!
//! Commands are kept in the log and sent between voters of neighbouring releases: variants and
//! fields are only ever added, at the end.

use serde::{Deserialize, Serialize};

/// One entry of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// What the leader has learnt of workers since the last report.
    Report(Report),
    /// The operator takes a worker out of the ring, or gives it back.
    Drain {
        /// Which worker.
        worker: u64,
        /// False to give it back.
        drain: bool,
    },
    /// The operator removes a worker that is not in the ring, for good.
    Forget {
        /// Which worker.
        worker: u64,
    },
    /// Begins a new epoch with the same ring, unless one newer than `epoch` has begun.
    Fence {
        /// The epoch to end.
        epoch: u64,
    },
    /// Changes how keys are spread.
    SetRing {
        /// Points of an average worker.
        virtual_nodes: u32,
        /// Of the hash.
        seed: u64,
    },
    /// Replaces bucket rules and grants.
    SetRules {
        /// In the syntax of the config file.
        toml: String,
    },
}

/// Changes of several workers, in one epoch together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Report {
    /// Workers that are new, changed, or back.
    pub heard: Vec<Heard>,
    /// Workers that have fallen silent.
    pub lost: Vec<u64>,
    /// Workers that were silent so long that nobody waits for them.
    pub forgotten: Vec<u64>,
}

impl Report {
    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.heard.is_empty() && self.lost.is_empty() && self.forgotten.is_empty()
    }
}

/// What a worker says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// Who.
    pub id: u64,
    /// `host:port` of its data port.
    pub data_addr: String,
    /// `host:port` of its S3 port.
    pub s3_addr: String,
    /// The failure domain that the operator named; empty without one.
    pub zone: String,
    /// What its disks may hold.
    pub capacity_bytes: u64,
    /// What it wishes to be.
    pub wish: Wish,
}

/// What a worker wishes to be to the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Wish {
    /// Not ready to own anything yet. Takes nobody out of the ring who is in it: a worker that
    /// starts again keeps its place.
    Joining,
    /// In the ring.
    Active,
    /// Out of the ring, to leave.
    Draining,
}

/// What a command came to.
pub type Outcome = Result<Applied, Refusal>;

/// The state after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// Of the view.
    pub revision: u64,
    /// Of the ring.
    pub epoch: u64,
    /// Whether this command changed anything.
    pub changed: bool,
}

/// Why a command changed nothing. The state is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// Look at the list of workers.
    #[error("no such worker")]
    NoSuchWorker,
    /// Drain it first, or wait until it is down.
    #[error("the worker is in the ring or about to join it: drain it first")]
    NotOut,
    /// The asker has its epoch from another group, or from the future.
    #[error("that epoch has not begun")]
    EpochNotBegun,
    /// Choose another number.
    #[error("virtual nodes are at least 1 and at most {MAX_VIRTUAL_NODES}")]
    VirtualNodes,
}

/// More points than this cost every process memory and spread no better.
pub const MAX_VIRTUAL_NODES: u32 = 4096;
