//! What is asked of an S3 endpoint, before it is signed.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::sign::{UNSIGNED_PAYLOAD, encode_path, encode_query, sha256_hex};

/// SHA-256 of nothing.
const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// What a signature says of the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// Its hash.
    Hashed,
    /// Nothing.
    Unsigned,
    /// This, verbatim: a wrong hash, or one of the `STREAMING-` words.
    Said(String),
}

/// A request.
#[derive(Debug, Clone)]
pub struct Ask {
    pub(super) method: Method,
    bucket: String,
    key: String,
    query: Vec<(String, String)>,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    payload: Payload,
}

impl Ask {
    /// Names an object; a bucket, with an empty key; or the service, with both empty.
    pub fn new(method: Method, bucket: &str, key: &str) -> Self {
        Self {
            method,
            bucket: bucket.into(),
            key: key.into(),
            query: Vec::new(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            payload: Payload::Hashed,
        }
    }

    /// Adds a query parameter.
    pub fn query(mut self, name: &str, value: &str) -> Self {
        self.query.push((name.into(), value.into()));
        self
    }

    /// Sets a header. One that HTTP does not allow is left out.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
        {
            self.headers.insert(name, value);
        }
        self
    }

    /// Sends a body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Says something else of the body than its hash.
    pub fn payload(mut self, payload: Payload) -> Self {
        self.payload = payload;
        self
    }

    pub(super) fn path(&self) -> String {
        match (self.bucket.as_str(), self.key.as_str()) {
            ("", _) => "/".into(),
            (bucket, "") => format!("/{}", encode_path(bucket)),
            (bucket, key) => format!("/{}/{}", encode_path(bucket), encode_path(key)),
        }
    }

    /// Sorted and encoded, as it is sent and signed.
    pub(super) fn query_string(&self) -> String {
        let encode = |(name, value): &(String, String)| (encode_query(name), encode_query(value));
        let mut pairs: Vec<_> = self.query.iter().map(encode).collect();
        pairs.sort();
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        pairs.join("&")
    }

    pub(super) fn payload_hash(&self) -> String {
        match &self.payload {
            Payload::Hashed if self.body.is_empty() => EMPTY_SHA256.into(),
            Payload::Hashed => sha256_hex(&self.body),
            Payload::Unsigned => UNSIGNED_PAYLOAD.into(),
            Payload::Said(word) => word.clone(),
        }
    }
}
