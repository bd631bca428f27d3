//! The judgement: is this body a byte range of exactly one version, the one that the answer
//! names, and the range that was asked for?

use std::time::Duration;

use forebay_types::ByteRange;
use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG};

use super::{Answer, ReadError};
use crate::pattern::{Mismatch, Pattern};

/// Which versions of an object there can be.
pub trait Versions: Send + Sync {
    /// The version that carries `etag`, with its pattern.
    fn named(&self, bucket: &str, key: &str, etag: &str) -> Option<(u64, Pattern)>;
}

/// Every version from the first to this one.
#[derive(Debug, Clone, Copy)]
pub struct UpTo(pub u64);

impl Versions for UpTo {
    fn named(&self, bucket: &str, key: &str, etag: &str) -> Option<(u64, Pattern)> {
        Pattern::find(bucket, key, etag, 1..=self.0)
    }
}

/// A read that was right in every byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Bytes of the body.
    pub bytes: u64,
    /// The version that they are of.
    pub version: u64,
    /// From the request to the first byte of the body.
    pub first_byte: Duration,
    /// From the request to the last.
    pub total: Duration,
    /// The `x-forebay-cache` header.
    pub cache: Option<String>,
}

/// What is wrong with a read. Only [`VerifyError::Failed`] and [`VerifyError::Status`] are
/// honest failures; the others mean that a reader was lied to.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The connection failed before the declared end: nobody was deceived.
    #[error(transparent)]
    Failed(#[from] ReadError),
    /// An error answer.
    #[error("status {status}: {code}")]
    Status {
        /// The status.
        status: StatusCode,
        /// The S3 error code, where the body has one.
        code: String,
    },
    /// The ETag is missing, or of no version that there can be.
    #[error("ETag {0:?} is of no known version")]
    UnknownVersion(String),
    /// Status and Content-Range are not those of the range that was asked for.
    #[error("asked for {asked}, answered {status} {content_range:?} with {length} bytes")]
    WrongRange {
        /// The Range header.
        asked: String,
        /// The status.
        status: StatusCode,
        /// The Content-Range header.
        content_range: String,
        /// The Content-Length header.
        length: u64,
    },
    /// The body has a byte that the version has not.
    #[error("version {version}: {mismatch}")]
    WrongByte {
        /// The version that the ETag names.
        version: u64,
        /// The byte.
        #[source]
        mismatch: Mismatch,
    },
    /// The body ended in good order, but not at its declared length.
    #[error("declared {declared} bytes, sent {sent}")]
    WrongLength {
        /// Content-Length.
        declared: u64,
        /// What came.
        sent: u64,
    },
}

impl VerifyError {
    /// Whether bytes or headers were wrong, not merely absent.
    pub fn is_wrong(&self) -> bool {
        match self {
            Self::Failed(_) | Self::Status { .. } => false,
            Self::UnknownVersion(_)
            | Self::WrongRange { .. }
            | Self::WrongByte { .. }
            | Self::WrongLength { .. } => true,
        }
    }
}

pub(super) async fn verify(
    mut answer: Answer,
    (bucket, key): (&str, &str),
    asked: Option<ByteRange>,
    versions: &dyn Versions,
) -> Result<Verified, VerifyError> {
    if !answer.status.is_success() {
        return Err(refusal(answer).await);
    }
    let etag = answer.header(ETAG.as_str()).unwrap_or_default();
    let (version, pattern) = versions
        .named(bucket, key, etag)
        .ok_or_else(|| VerifyError::UnknownVersion(etag.to_owned()))?;
    let (start, declared) = declared_range(&answer, asked)?;

    let mut first_byte = None;
    let mut sent = 0;
    while let Some(chunk) = answer.chunk().await? {
        first_byte.get_or_insert_with(|| answer.elapsed());
        pattern
            .verify(start + sent, &chunk)
            .map_err(|mismatch| VerifyError::WrongByte { version, mismatch })?;
        sent += chunk.len() as u64;
    }
    if sent != declared {
        return Err(VerifyError::WrongLength { declared, sent });
    }
    let total = answer.elapsed();
    let cache = answer.header("x-forebay-cache").map(str::to_owned);
    let first_byte = first_byte.unwrap_or(total);
    Ok(Verified { bytes: sent, version, first_byte, total, cache })
}

async fn refusal(answer: Answer) -> VerifyError {
    let status = answer.status;
    match answer.bytes().await {
        Ok(body) => match ReadError::of_status(status, &body) {
            ReadError::Status { status, code } => VerifyError::Status { status, code },
            other => VerifyError::Failed(other),
        },
        Err(error) => VerifyError::Failed(error),
    }
}

/// Where the body begins and how long it is, if that is what was asked for.
fn declared_range(answer: &Answer, asked: Option<ByteRange>) -> Result<(u64, u64), VerifyError> {
    let length = answer.header(CONTENT_LENGTH.as_str()).and_then(|text| text.parse().ok());
    let content_range = answer.header(CONTENT_RANGE.as_str());
    let declared = match (asked, content_range, length) {
        (None, None, Some(length)) if answer.status == StatusCode::OK => Some((0, length)),
        (Some(asked), Some(text), Some(length)) if answer.status == StatusCode::PARTIAL_CONTENT => {
            clamped(asked, text).filter(|part| part.len() == length).map(|p| (p.start(), length))
        }
        _ => None,
    };
    declared.ok_or_else(|| VerifyError::WrongRange {
        asked: asked.map_or_else(|| "everything".into(), ByteRange::to_range_header),
        status: answer.status,
        content_range: content_range.unwrap_or_default().into(),
        length: length.unwrap_or(0),
    })
}

/// The range of a Content-Range, if it is `asked` clamped to the size that it names.
fn clamped(asked: ByteRange, content_range: &str) -> Option<ByteRange> {
    let (_, size) = content_range.split_once('/')?;
    let part = ByteRange::new(asked.start(), asked.end().min(size.parse().ok()?))?;
    (part.to_content_range(size.parse().ok()?) == content_range).then_some(part)
}
