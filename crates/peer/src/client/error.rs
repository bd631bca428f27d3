//! Why another worker did not give what was asked, as what the asker can do about it.

use forebay_wire::WireError;
use forebay_wire::peer::Failure;

/// Why another worker did not give what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// Nothing listens at its address: the process has ended, and with it what it remembered.
    #[error("no process listens at the worker's address")]
    Gone,
    /// It is not known, does not answer, breaks off, or says what cannot be understood. Ask
    /// another worker.
    #[error("the worker does not answer: {0}")]
    Unreachable(String),
    /// Its answer. [`Failure::SlowDown`] also stands for too many requests from here to it.
    #[error("the worker's answer: {0:?}")]
    Failed(Failure),
}

impl From<WireError> for PeerError {
    fn from(error: WireError) -> Self {
        Self::Unreachable(format!("its answer cannot be read: {error}"))
    }
}
