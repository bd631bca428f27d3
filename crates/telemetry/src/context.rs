//! What a read carries with it from the edge to the origin.

use std::fmt;
use std::sync::Arc;

use crate::apps::AppCounters;

/// Identifies one request in answers and logs, as `x-amz-request-id` does at S3.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(pub u64);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}", self.0)
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Who asks, for logs and metrics; never for authorization.
#[derive(Debug, Clone)]
pub struct ReadCtx {
    /// This request.
    pub request: RequestId,
    /// The bucket as a metric label: one of the configured rules, or `other`.
    pub bucket_label: Arc<str>,
    /// Where it is counted for the client's job: at the worker that the client asked, and only
    /// where the job gave a name.
    pub app: Option<Arc<AppCounters>>,
}

/// Where a byte came from, from near to far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Resident in the page cache.
    Ram,
    /// Read from a disk of this worker.
    Nvme,
    /// Read from another worker, which had it.
    Peer,
    /// Fetched from the origin.
    Origin,
}

impl Tier {
    /// In the order in which `as usize` counts them.
    pub const ALL: [Self; 4] = [Self::Ram, Self::Nvme, Self::Peer, Self::Origin];

    /// The metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ram => "ram",
            Self::Nvme => "nvme",
            Self::Peer => "peer",
            Self::Origin => "origin",
        }
    }
}
