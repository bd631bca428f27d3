//! What goes wrong at the edge, said as S3 says it.
//!
//! An [`S3Error`] is everything that an error answer needs but the request it answers; how it
//! is written down is `respond`'s and `xml`'s. The one mapping from what the cache reports to
//! what a client reads is here, every arm named.

use std::borrow::Cow;

use forebay_cache::{OriginReply, ReadError};
use forebay_types::{ErrorCode, NameError};
use http::StatusCode;

use crate::code::Code;

/// An error answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum S3Error {
    /// Forebay's own answer.
    #[error("{}: {message}", code.as_str())]
    Ours {
        /// What S3 calls it.
        code: Code,
        /// What the caller should do.
        message: Cow<'static, str>,
    },
    /// The range begins past the end of an object of this many bytes.
    #[error("InvalidRange: the object has {size} bytes")]
    InvalidRange {
        /// Size of the object.
        size: u64,
    },
    /// The origin's own answer, status and code kept.
    #[error("{}: {}", .0.code, .0.message)]
    Origin(OriginReply),
}

impl S3Error {
    /// An answer of our own.
    pub(crate) fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self::Ours { code, message: message.into() }
    }

    /// The text between `<Code>` and `</Code>`.
    pub fn code(&self) -> &str {
        match self {
            Self::Ours { code, .. } => code.as_str(),
            Self::InvalidRange { .. } => Code::InvalidRange.as_str(),
            Self::Origin(reply) => &reply.code,
        }
    }

    /// The text between `<Message>` and `</Message>`.
    pub fn message(&self) -> &str {
        match self {
            Self::Ours { message, .. } => message,
            Self::InvalidRange { .. } => "The requested range is not satisfiable",
            Self::Origin(reply) => &reply.message,
        }
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Ours { code, .. } => code.status(),
            Self::InvalidRange { .. } => Code::InvalidRange.status(),
            Self::Origin(reply) => {
                StatusCode::from_u16(reply.status).unwrap_or(StatusCode::BAD_GATEWAY)
            }
        }
    }
}

/// A request that is not cacheable never gets here: it is forwarded.
impl From<ReadError> for S3Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Refused(reply) => Self::Origin(reply),
            ReadError::PassThrough(why) => {
                Self::new(Code::InternalError, format!("Neither cached nor forwarded: {why}"))
            }
            ReadError::Unannounced => Self::new(
                Code::ServiceUnavailable,
                "The write may have been applied, but not every worker could be told: some may \
                 answer with the older object for a while. Please try again.",
            ),
            ReadError::Failed { code, detail: _ } => failed(code),
        }
    }
}

/// The detail stays in our log: it may name hosts that are none of the client's business.
fn failed(code: ErrorCode) -> S3Error {
    match code {
        ErrorCode::NoSuchKey => S3Error::new(Code::NoSuchKey, "The specified key does not exist."),
        ErrorCode::NoSuchBucket => no_such_bucket(),
        ErrorCode::OriginDenied => S3Error::new(
            Code::AccessDenied,
            "The origin refuses Forebay's own identity: check the credentials of the bucket rule.",
        ),
        ErrorCode::SlowDown => S3Error::new(Code::SlowDown, "Please reduce your request rate."),
        ErrorCode::OriginUnavailable => S3Error::new(
            Code::ServiceUnavailable,
            "The origin cannot be reached. Please try again.",
        ),
        ErrorCode::VersionMoved => S3Error::new(
            Code::ServiceUnavailable,
            "The object changed while it was being read. Please try again.",
        ),
        ErrorCode::Internal => {
            S3Error::new(Code::InternalError, "We encountered an internal error. Please try again.")
        }
    }
}

impl From<NameError> for S3Error {
    fn from(error: NameError) -> Self {
        let code = match &error {
            NameError::Bucket(_) => Code::InvalidBucketName,
            NameError::EmptyKey => Code::InvalidUri,
            NameError::LongKey(_) => Code::KeyTooLongError,
        };
        Self::new(code, error.to_string())
    }
}

/// No rule, or no bucket behind the rule: a client need not know which.
pub(crate) fn no_such_bucket() -> S3Error {
    S3Error::new(Code::NoSuchBucket, "The specified bucket does not exist")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_the_origin_keeps_status_and_code() {
        let reply =
            OriginReply { status: 418, code: "Teapot".into(), message: "short and stout".into() };
        let error = S3Error::from(ReadError::Refused(reply));
        assert_eq!((error.status().as_u16(), error.code()), (418, "Teapot"));
    }

    #[test]
    fn our_own_details_do_not_reach_the_client() {
        let detail = "connect 10.0.0.7:9000 refused".to_string();
        for code in [ErrorCode::OriginUnavailable, ErrorCode::Internal, ErrorCode::SlowDown] {
            let error = S3Error::from(ReadError::Failed { code, detail: detail.clone() });
            assert!(!error.message().contains("10.0.0.7"), "{error}");
            assert!(error.status().is_server_error());
        }
    }
}
