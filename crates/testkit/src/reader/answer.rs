//! An answer, streamed.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use super::pool::Lease;
use super::{ReadError, Timing};
use crate::xml;

/// A status, headers, and a body that is still on its way.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    body: Incoming,
    lease: Option<Lease>,
    timing: Timing,
}

/// One page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The objects.
    pub objects: Vec<Listed>,
    /// The common prefixes.
    pub prefixes: Vec<String>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// An object in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The key, as the listing writes it.
    pub key: String,
    /// The size.
    pub size_bytes: u64,
    /// The ETag.
    pub etag: String,
}

impl Answer {
    pub(super) fn new(response: Response<Incoming>, lease: Lease, timing: Timing) -> Self {
        let (parts, body) = response.into_parts();
        let lease = Some(lease);
        let mut answer = Self { status: parts.status, headers: parts.headers, body, lease, timing };
        answer.release_if_done();
        answer
    }

    /// A header that is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Time since the request was made.
    pub fn elapsed(&self) -> Duration {
        self.timing.elapsed()
    }

    /// The next bytes of the body; `None` at its proper end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ReadError> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(ReadError::Broken)?;
            if let Ok(data) = frame.into_data() {
                self.release_if_done();
                return Ok(Some(data));
            }
        }
        self.release();
        Ok(None)
    }

    /// The whole body in memory.
    pub async fn bytes(mut self) -> Result<Bytes, ReadError> {
        let mut whole = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.freeze())
    }

    /// The whole body of a 2xx; any other status as an error with its S3 code.
    pub async fn success(self) -> Result<Bytes, ReadError> {
        let status = self.status;
        let body = self.bytes().await?;
        if status.is_success() { Ok(body) } else { Err(ReadError::of_status(status, &body)) }
    }

    /// An end that is already known needs no further look at the connection.
    fn release_if_done(&mut self) {
        if self.body.is_end_stream() {
            self.release();
        }
    }

    fn release(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
    }
}

impl ReadError {
    pub(super) fn of_status(status: StatusCode, body: &[u8]) -> Self {
        let leaves = xml::children(body, "Error").unwrap_or_default();
        let code = leaves.first().and_then(|fields| leaf(fields, "Code"));
        Self::Status { status, code: code.unwrap_or_default() }
    }
}

impl Listing {
    pub(super) fn parse(body: &[u8]) -> Result<Self, ReadError> {
        let elements = |name| xml::children(body, name).map_err(|_| ReadError::Listing);
        let objects = elements("Contents")?;
        let objects = objects.iter().map(|fields| Listed::parse(fields));
        let prefixes = elements("CommonPrefixes")?;
        let root = elements("ListBucketResult")?;
        let root = root.first().ok_or(ReadError::Listing)?;
        Ok(Self {
            objects: objects.collect::<Option<_>>().ok_or(ReadError::Listing)?,
            prefixes: prefixes.iter().filter_map(|fields| leaf(fields, "Prefix")).collect(),
            next: leaf(root, "NextContinuationToken").or_else(|| leaf(root, "NextMarker")),
        })
    }
}

impl Listed {
    fn parse(fields: &[(String, String)]) -> Option<Self> {
        let size_bytes = leaf(fields, "Size")?.parse().ok()?;
        Some(Self { key: leaf(fields, "Key")?, size_bytes, etag: leaf(fields, "ETag")? })
    }
}

fn leaf(fields: &[(String, String)], name: &str) -> Option<String> {
    fields.iter().find(|(n, _)| n == name).map(|(_, text)| text.clone())
}
