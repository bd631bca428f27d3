//! What goes wrong, as what to do about it.

use forebay_types::NameError;
use http::StatusCode;

/// There is no client.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ConnectError {
    /// The configuration has this mistake: mend it.
    #[error("{0}")]
    Config(String),
    /// A worker answered, and refused: mend the access key.
    #[error("the cluster refuses to tell its ring: {status} {code}")]
    Refused {
        /// The status.
        status: StatusCode,
        /// The S3 error code.
        code: String,
    },
    /// No worker answers and no origin is known: try later.
    #[error("no worker answers: {0}")]
    Unavailable(String),
}

/// There are no bytes, or no more of them. What was handed out before is right.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// No object can have this name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The answer is no, whoever is asked: 404, 403, 416.
    #[error("{status} {code}")]
    Refused {
        /// The status.
        status: StatusCode,
        /// The S3 error code; empty where the answer names none.
        code: String,
    },
    /// The object got other bytes while it was being read: begin anew.
    #[error("the object changed while it was being read")]
    VersionMoved,
    /// The answer broke off, and cannot go on elsewhere because the object has no strong ETag:
    /// begin anew.
    #[error("the answer broke off: {0}")]
    Broken(String),
    /// Every server that could be asked was, several times: try later.
    #[error("neither a worker nor the origin gives the bytes: {0}")]
    Unavailable(String),
}

/// What became of asking one server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// It gives no sign of life: ask the next, and this one no more until it answers.
    #[error("{0}")]
    Silent(String),
    /// It answers, but not this: ask the next.
    #[error("{0}")]
    Unfit(String),
    /// Asking another would change nothing.
    #[error(transparent)]
    Last(ReadError),
}
