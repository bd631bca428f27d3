//! A request as it was received, taken apart into what the origin is to get.

use aws_smithy_types::body::SdkBody;
use forebay_types::BucketName;
use http::header::CONTENT_LENGTH;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Uri};
use http_body::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use super::ForwardBody;
use super::upload::{Progress, Upload};
use crate::answer::strip_hop_by_hop;
use crate::error::OriginError;

/// Headers that only held between the client and us: its name for us, its signature, its
/// question whether to go on. The length is the body's to say.
const OURS_TO_SET: [&str; 7] = [
    "authorization",
    "host",
    "expect",
    "content-length",
    "x-amz-date",
    "x-amz-security-token",
    "x-amz-content-sha256",
];

/// What S3 leaves unescaped in a path; it signs the path in this form, however it was sent.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// A request that the origin can be given.
pub(crate) struct Outgoing {
    pub(crate) head: RequestHead,
    /// `None`: it has no body, or an empty one.
    pub(crate) body: Option<SizedBody>,
}

/// All of a request but its body: what can be sent again.
#[derive(Debug, Clone)]
pub(crate) struct RequestHead {
    method: Method,
    /// `None` asks for the list of buckets.
    pub(super) bucket: Option<BucketName>,
    /// What follows the bucket, escaped: empty, or a slash and the key.
    pub(super) rest: String,
    pub(super) query: Option<String>,
    headers: HeaderMap,
}

/// A body of exactly `size_bytes`; S3 takes none of unknown length.
pub(crate) struct SizedBody {
    body: ForwardBody,
    size_bytes: u64,
}

impl Outgoing {
    /// Refuses, in the origin's form, what cannot be sent to any origin.
    pub(crate) fn parse(request: http::Request<ForwardBody>) -> Result<Self, OriginError> {
        let (parts, body) = request.into_parts();
        let (bucket, rest) = split_path(parts.uri.path())?;
        let query = parts.uri.path_and_query().and_then(PathAndQuery::query).map(ToOwned::to_owned);
        let body = SizedBody::parse(&parts.headers, body)?;
        let mut headers = parts.headers;
        strip_hop_by_hop(&mut headers);
        for name in OURS_TO_SET {
            headers.remove(name);
        }
        Ok(Self { head: RequestHead { method: parts.method, bucket, rest, query, headers }, body })
    }
}

impl RequestHead {
    /// Whether asking twice changes nothing.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.method, Method::GET | Method::HEAD)
    }

    /// The request to `url`, unsigned.
    pub(super) fn into_request(mut self, url: Uri, body: SdkBody) -> http::Request<SdkBody> {
        // hyper leaves out the length of an empty body, and S3 takes no write without one.
        if matches!(self.method, Method::PUT | Method::POST) && body.content_length() == Some(0) {
            self.headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let mut request = http::Request::new(body);
        *request.method_mut() = self.method;
        *request.uri_mut() = url;
        *request.headers_mut() = self.headers;
        request
    }
}

impl SizedBody {
    fn parse(headers: &HeaderMap, body: ForwardBody) -> Result<Option<Self>, OriginError> {
        let declared = headers.get(CONTENT_LENGTH).map(content_length).transpose()?;
        match declared.or_else(|| body.size_hint().exact()) {
            Some(0) => Ok(None),
            Some(size_bytes) => Ok(Some(Self { body, size_bytes })),
            None => Err(OriginError::refused(
                411,
                "MissingContentLength",
                "You must provide the Content-Length HTTP header.",
            )),
        }
    }

    /// The body as it is sent; what has been taken of it shows in `progress`.
    pub(super) fn into_sdk_body(self, progress: Progress) -> SdkBody {
        SdkBody::from_body_1_x(Upload::new(self.body, self.size_bytes, progress))
    }
}

fn split_path(path: &str) -> Result<(Option<BucketName>, String), OriginError> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let (bucket, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
    if bucket.is_empty() {
        return Ok((None, String::new()));
    }
    let bucket = BucketName::new(bucket)
        .map_err(|error| OriginError::refused(400, "InvalidBucketName", &error.to_string()))?;
    // Decoded and encoded again: the same key, in the form in which S3 checks the signature.
    let key: Vec<u8> = percent_decode_str(rest).collect();
    Ok((Some(bucket), percent_encode(&key, ESCAPED).to_string()))
}

fn content_length(value: &HeaderValue) -> Result<u64, OriginError> {
    let size = value.to_str().ok().and_then(|text| text.parse().ok());
    size.ok_or_else(|| OriginError::refused(400, "InvalidArgument", "Content-Length is no number."))
}
