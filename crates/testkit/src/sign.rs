//! SigV4 header signatures, as a client makes them.
//!
//! Written apart from the fault origin's check (which signs again with the AWS crate) and from
//! Forebay's own: three implementations that must agree. The signing key of a day is kept, so
//! that a load generator spends its time on bytes.

use std::fmt;
use std::time::SystemTime;

use http::header::{AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ring::{digest, hmac};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::macros::format_description;

/// Everything but the characters that S3 leaves as they are in a query.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The same for a path, where slashes stand.
const PATH: &AsciiSet = &QUERY.remove(b'/');

/// Stands for the hash of a body that is not hashed.
pub const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";

/// An access key and its secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessKey {
    /// The public id.
    pub id: String,
    /// The secret.
    pub secret: String,
}

impl AccessKey {
    /// A key from its two halves.
    pub fn new(id: &str, secret: &str) -> Self {
        Self { id: id.into(), secret: secret.into() }
    }
}

impl fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Signs requests with one access key.
#[derive(Debug)]
pub struct Signer {
    key: AccessKey,
    region: String,
    today: Mutex<Option<(String, hmac::Key)>>,
}

/// What of a request is signed.
#[derive(Debug)]
pub struct Signable<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path as it is sent, encoded.
    pub path: &'a str,
    /// The query as it is sent: sorted and encoded; empty for none.
    pub query: &'a str,
    /// `x-amz-content-sha256`: a hex hash or one of S3's words for none.
    pub payload: &'a str,
}

impl Signer {
    /// A signer for the service `s3` in `region`.
    pub fn new(key: AccessKey, region: &str) -> Self {
        Self { key, region: region.into(), today: Mutex::new(None) }
    }

    /// Adds `x-amz-date`, `x-amz-content-sha256` and `authorization`; signs every header that
    /// is present (Host must be) but User-Agent, which proxies rewrite.
    pub fn sign(&self, request: &Signable<'_>, at: SystemTime, headers: &mut HeaderMap) {
        let stamp = amz_date(at);
        headers.insert("x-amz-date", header_value(&stamp));
        headers.insert("x-amz-content-sha256", header_value(request.payload));

        let (canonical, signed) = canonical_headers(headers);
        let Signable { method, path, query, payload } = request;
        let canonical = format!("{method}\n{path}\n{query}\n{canonical}\n{signed}\n{payload}");

        let day = &stamp[..8];
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let to_sign =
            format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", sha256_hex(canonical.as_bytes()));
        let signature = hex::encode(hmac::sign(&self.signing_key(day), to_sign.as_bytes()));
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={signed}, Signature={signature}",
            self.key.id
        );
        headers.insert(AUTHORIZATION, header_value(&authorization));
    }

    fn signing_key(&self, day: &str) -> hmac::Key {
        let mut today = self.today.lock();
        match &*today {
            Some((of, key)) if of == day => key.clone(),
            _ => {
                let key = derive_key(&self.key.secret, day, &self.region);
                *today = Some((day.into(), key.clone()));
                key
            }
        }
    }
}

/// The lower-case hex SHA-256 of `bytes`.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, bytes))
}

/// A bucket and a key as a path-style request path.
pub fn encode_path(path: &str) -> String {
    utf8_percent_encode(path, PATH).to_string()
}

/// A name or a value of a query.
pub fn encode_query(text: &str) -> String {
    utf8_percent_encode(text, QUERY).to_string()
}

fn derive_key(secret: &str, day: &str, region: &str) -> hmac::Key {
    let mut key = format!("AWS4{secret}").into_bytes();
    for step in [day, region, "s3", "aws4_request"] {
        let hmac_key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        key = hmac::sign(&hmac_key, step.as_bytes()).as_ref().to_vec();
    }
    hmac::Key::new(hmac::HMAC_SHA256, &key)
}

/// The canonical header lines, each ended by a line break, and the list of their names.
fn canonical_headers(headers: &HeaderMap) -> (String, String) {
    let mut names: Vec<&str> = headers.keys().map(http::HeaderName::as_str).collect();
    names.retain(|name| *name != USER_AGENT && *name != AUTHORIZATION);
    names.sort_unstable();
    let mut lines = String::new();
    for name in &names {
        let values: Vec<_> = headers
            .get_all(*name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
            .collect();
        lines.extend([*name, ":", &values.join(","), "\n"]);
    }
    (lines, names.join(";"))
}

fn amz_date(at: SystemTime) -> String {
    let form = format_description!("[year][month][day]T[hour][minute][second]Z");
    // The form has no component that a date can lack.
    OffsetDateTime::from(at).format(&form).unwrap_or_default()
}

fn header_value(text: &str) -> HeaderValue {
    // Dates, hashes and ids are printable ASCII; an id that is not fails at the server instead.
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}
