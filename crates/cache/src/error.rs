//! Why a read did not succeed, as what the caller should do.

use std::borrow::Cow;

use forebay_types::ErrorCode;

use crate::traits::{OriginFailure, OriginReply};

/// A read that cannot be served from here.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// The origin's own definite answer: hand it on.
    #[error("origin answered {} {}", .0.status, .0.code)]
    Refused(OriginReply),
    /// The object cannot be cached: forward the request as it is.
    #[error("not cacheable: {0}")]
    PassThrough(Cow<'static, str>),
    /// A write may have been applied, but another worker may still answer with what was there
    /// before: say so, and do not acknowledge it.
    #[error("the write may have been applied; not every worker could be told")]
    Unannounced,
    /// Anything else.
    #[error("{code:?}: {detail}")]
    Failed {
        /// What the caller should do.
        code: ErrorCode,
        /// For the log.
        detail: String,
    },
}

impl ReadError {
    /// The object is no longer the version that was being read.
    pub(crate) fn moved() -> Self {
        Self::Failed {
            code: ErrorCode::VersionMoved,
            detail: "the object changed at the origin while it was read".into(),
        }
    }

    /// A limit was reached.
    pub(crate) fn slow_down(detail: &str) -> Self {
        Self::Failed { code: ErrorCode::SlowDown, detail: detail.into() }
    }

    /// A mistake of ours.
    pub(crate) fn internal(detail: &str) -> Self {
        Self::Failed { code: ErrorCode::Internal, detail: detail.into() }
    }

    pub(crate) fn is_moved(&self) -> bool {
        matches!(self, Self::Failed { code: ErrorCode::VersionMoved, .. })
    }
}

impl From<OriginFailure> for ReadError {
    fn from(failure: OriginFailure) -> Self {
        let failed = |code| Self::Failed { code, detail: failure.to_string() };
        match &failure {
            OriginFailure::Refused(reply) => Self::Refused(reply.clone()),
            OriginFailure::Uncacheable(why) => Self::PassThrough(why.clone()),
            // A pinned range lies inside the version by construction, so only another version
            // can fail to satisfy it.
            OriginFailure::Moved | OriginFailure::Unsatisfiable => Self::moved(),
            OriginFailure::SlowDown => failed(ErrorCode::SlowDown),
            OriginFailure::Unavailable(_) => failed(ErrorCode::OriginUnavailable),
        }
    }
}
