//! An answer before it is on the wire.

use std::borrow::Cow;

use bytes::Bytes;
use forebay_types::ByteRange;
use http::header::{CONTENT_RANGE, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::error::S3Error;
use super::objects::{Object, Source};
use crate::xml;

/// Status, headers and body. Content-Length, Date and request ids are the sender's.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Body,
}

/// The bytes of an answer, made when they are sent.
#[derive(Debug, Default)]
pub(super) enum Body {
    #[default]
    Empty,
    Text(Bytes),
    Part(Source, ByteRange),
}

impl Reply {
    pub(super) fn empty(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), body: Body::Empty }
    }

    pub(super) fn xml(text: String) -> Self {
        Self::text(StatusCode::OK, "application/xml", text)
    }

    pub(super) fn json(text: String) -> Self {
        Self::text(StatusCode::OK, "application/json", text)
    }

    pub(super) fn error(error: &S3Error, resource: &str, request_id: &str) -> Self {
        let text = xml::error(&error.code, &error.message, resource, request_id);
        let mut reply = Self::text(error.status, "application/xml", text);
        if let Some(size) = error.size_bytes {
            reply.set(CONTENT_RANGE, &format!("bytes */{size}"));
        }
        reply
    }

    pub(super) fn set(&mut self, name: HeaderName, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
    }

    fn text(status: StatusCode, kind: &'static str, text: String) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        Self { status, headers, body: Body::Text(text.into()) }
    }
}

impl Body {
    pub(super) fn of(object: &Object, range: Option<ByteRange>) -> Self {
        range.map_or(Self::Empty, |range| Self::Part(object.source.clone(), range))
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Text(text) => text.len() as u64,
            Self::Part(_, range) => range.len(),
        }
    }

    /// Up to `len` bytes from `at` on; the caller stays within the body.
    pub(super) fn piece<'a>(
        &'a self,
        at: u64,
        len: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Cow<'a, [u8]> {
        let slice = |bytes: &'a Bytes, from: u64| &bytes[from as usize..from as usize + len];
        match self {
            Self::Empty => Cow::Borrowed(&[]),
            Self::Text(text) => Cow::Borrowed(slice(text, at)),
            Self::Part(Source::Stored(held), range) => {
                Cow::Borrowed(slice(&held.bytes, range.start() + at))
            }
            Self::Part(Source::Pattern(pattern), range) => {
                scratch.resize(len, 0);
                pattern.fill(range.start() + at, scratch);
                Cow::Borrowed(&scratch[..])
            }
        }
    }
}
