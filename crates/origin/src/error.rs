//! What can go wrong with an origin, said as what the caller should do about it.

/// Why the origin did not give what was asked. No text in it holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// A definite answer for the client: pass it on.
    #[error("origin refused with {} {}: {}", .0.status, .0.code, .0.message)]
    Refused(OriginReply),
    /// The range begins past the end of the object, or the object is empty: ask for its head.
    #[error("range not satisfiable at the origin")]
    Unsatisfiable,
    /// The object is no longer the pinned version, or the answer is of other bytes than were
    /// asked: forget the version and begin anew.
    #[error("object changed at the origin")]
    Moved,
    /// The answer does not say which version it is of: forward the request, keep nothing.
    #[error("answer cannot be cached: {0}")]
    Uncacheable(&'static str),
    /// The origin, or our own limit before it, is at its limit: ask again later.
    #[error("origin asks to slow down")]
    SlowDown,
    /// No answer, a broken one, or a server error, after all retries: ask again later.
    #[error("origin unavailable: {0}")]
    Unavailable(String),
}

/// An error answer of the origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginReply {
    /// HTTP status.
    pub status: u16,
    /// S3 error code, such as `NoSuchKey`.
    pub code: String,
    /// The origin's message.
    pub message: String,
}

/// Why an origin cannot be used as it is configured: what is wrong, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The endpoint is not a URL of a server.
    #[error("origin endpoint {endpoint:?}: {reason}; write it as http://host:port or https://host")]
    Endpoint {
        /// What was configured.
        endpoint: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// No answer from the endpoint.
    #[error(
        "origin {endpoint} does not answer: {reason}; check that it runs and that this machine \
         can reach it"
    )]
    Unreachable {
        /// Where it was looked for.
        endpoint: String,
        /// What happened.
        reason: String,
    },
    /// The credentials source has none.
    #[error(
        "no credentials for origin {endpoint}: {reason}; set AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY, give the worker a role, or configure keys in the bucket rule"
    )]
    NoCredentials {
        /// The origin.
        endpoint: String,
        /// What the source said.
        reason: String,
    },
    /// The origin does not know our identity, or not with this secret.
    #[error(
        "origin {endpoint} does not accept our credentials for bucket {bucket} ({code}); check \
         the access key, its secret and, for temporary keys, the session token"
    )]
    WrongCredentials {
        /// The origin.
        endpoint: String,
        /// The bucket asked for.
        bucket: String,
        /// The origin's error code.
        code: String,
    },
    /// Our identity is known, and may not see the bucket.
    #[error(
        "origin {endpoint} denies access to bucket {bucket} ({code}); grant s3:ListBucket and \
         s3:GetObject on it to the identity that the bucket rule names"
    )]
    Denied {
        /// The origin.
        endpoint: String,
        /// The bucket asked for.
        bucket: String,
        /// The origin's error code.
        code: String,
    },
    /// Our clock and the origin's are too far apart for a signature.
    #[error("origin {endpoint} says that our clock is wrong; set this machine's time (NTP)")]
    ClockSkew {
        /// The origin.
        endpoint: String,
    },
    /// There is no such bucket.
    #[error("origin {endpoint} has no bucket {bucket}; create it or correct its name")]
    NoSuchBucket {
        /// The origin.
        endpoint: String,
        /// The bucket asked for.
        bucket: String,
    },
    /// The bucket is served from elsewhere.
    #[error(
        "bucket {bucket} is not in region {region} of origin {endpoint}; set the region to \
         {actual}"
    )]
    WrongRegion {
        /// The origin.
        endpoint: String,
        /// The bucket asked for.
        bucket: String,
        /// The region that we sign for.
        region: String,
        /// The region that the origin names, as far as it names one.
        actual: String,
    },
    /// An answer that no S3 server should give.
    #[error("origin {endpoint} answers for bucket {bucket} with {reason}; check that it is S3")]
    Unexpected {
        /// The origin.
        endpoint: String,
        /// The bucket asked for.
        bucket: String,
        /// The answer.
        reason: String,
    },
}

impl OriginError {
    /// A refusal of our own making, in the origin's form.
    pub(crate) fn refused(status: u16, code: &str, message: &str) -> Self {
        Self::Refused(OriginReply { status, code: code.into(), message: message.into() })
    }
}

/// One failed try: what it means if it was the last one, and whether another may help.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) error: OriginError,
    pub(crate) retry: Option<RetryReason>,
}

/// Why trying again may help; the label of the retry metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryReason {
    Throttled,
    ServerError,
    Timeout,
    Connection,
    Credentials,
}

impl RetryReason {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Throttled => "503",
            Self::ServerError => "5xx",
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::Credentials => "credentials",
        }
    }
}

impl Failure {
    /// The origin's 403: our identity may not do this.
    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(&self.error, OriginError::Refused(reply) if reply.status == 403)
    }

    /// Another try may help.
    pub(crate) fn again(retry: RetryReason, detail: impl Into<String>) -> Self {
        let error = match retry {
            RetryReason::Throttled => OriginError::SlowDown,
            _ => OriginError::Unavailable(detail.into()),
        };
        Self { error, retry: Some(retry) }
    }

    /// The answer would be the same.
    pub(crate) fn last(error: OriginError) -> Self {
        Self { error, retry: None }
    }

    /// The label of this try in the request metric.
    pub(crate) fn outcome(&self) -> &'static str {
        match (&self.error, self.retry) {
            (_, Some(reason)) => reason.as_str(),
            (OriginError::Refused(_) | OriginError::Unsatisfiable, None) => "4xx",
            (OriginError::Moved, None) => "mismatch",
            (OriginError::Uncacheable(_), None) => "uncacheable",
            (OriginError::SlowDown | OriginError::Unavailable(_), None) => "error",
        }
    }
}
