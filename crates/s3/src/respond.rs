//! Answers: the headers of GET and HEAD, errors, and what every answer carries.
//!
//! HEAD is GET without its bytes: both are built here by the same lines.

use forebay_cache::{Answer, Opened, Reader, Source};
use forebay_telemetry::RequestId;
use forebay_types::{ByteRange, ObjectHead};
use http::header::{
    ACCEPT_RANGES, AGE, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_RANGE,
    CONTENT_TYPE, ETAG, EXPIRES, LAST_MODIFIED, RETRY_AFTER, SERVER, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use crate::body::S3Body;
use crate::code::Code;
use crate::error::S3Error;
use crate::xml;

/// Where the bytes of an answer come from: `hit`, `peer` or `miss`.
pub(crate) const FOREBAY_CACHE: HeaderName = HeaderName::from_static("x-forebay-cache");

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
const HOST_ID: HeaderName = HeaderName::from_static("x-amz-id-2");
const VERSION_ID: HeaderName = HeaderName::from_static("x-amz-version-id");

/// Seconds that a client is asked to wait after `SlowDown`.
const RETRY_AFTER_S: u64 = 1;

/// The answer to a GET or HEAD that was opened.
pub(crate) fn object(opened: Opened, overrides: HeaderMap) -> Result<Response<S3Body>, S3Error> {
    let Opened { head, answer, source, age } = opened;
    let mut response = match answer {
        Answer::Whole(reader) => whole(&head, reader, overrides),
        Answer::Part { range, reader } => part(&head, range, reader, overrides),
        Answer::NotModified => not_modified(&head),
        Answer::PreconditionFailed => return Err(precondition_failed()),
        Answer::Unsatisfiable => return Err(S3Error::InvalidRange { size: head.stamp.size }),
    };
    let source = match source {
        Source::Hit => "hit",
        Source::Peer => "peer",
        Source::Miss => "miss",
    };
    let headers = response.headers_mut();
    headers.insert(FOREBAY_CACHE, HeaderValue::from_static(source));
    headers.insert(AGE, HeaderValue::from(age.as_secs()));
    Ok(response)
}

fn whole(head: &ObjectHead, reader: Option<Reader>, overrides: HeaderMap) -> Response<S3Body> {
    of_object(head, StatusCode::OK, head.stamp.size, reader, overrides)
}

fn part(
    head: &ObjectHead,
    range: ByteRange,
    reader: Option<Reader>,
    overrides: HeaderMap,
) -> Response<S3Body> {
    let mut response = of_object(head, StatusCode::PARTIAL_CONTENT, range.len(), reader, overrides);
    insert_text(response.headers_mut(), CONTENT_RANGE, &range.to_content_range(head.stamp.size));
    response
}

fn of_object(
    head: &ObjectHead,
    status: StatusCode,
    len: u64,
    reader: Option<Reader>,
    overrides: HeaderMap,
) -> Response<S3Body> {
    let mut response = Response::new(S3Body::read(reader));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.clone_from(&head.headers);
    for (name, value) in overrides {
        if let Some(name) = name {
            headers.insert(name, value);
        }
    }
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(len));
    response
}

/// RFC 9110 section 15.4.5: what a 200 would have said of the version, and nothing of the bytes.
fn not_modified(head: &ObjectHead) -> Response<S3Body> {
    let mut response = Response::new(S3Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    for name in [ETAG, LAST_MODIFIED, CACHE_CONTROL, EXPIRES, CONTENT_LOCATION, VARY, VERSION_ID] {
        if let Some(value) = head.headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

fn precondition_failed() -> S3Error {
    let why = "At least one of the pre-conditions you specified did not hold";
    S3Error::new(Code::PreconditionFailed, why)
}

/// Which request an error answers.
pub(crate) struct ErrorContext<'a> {
    pub(crate) path: &'a str,
    pub(crate) is_head: bool,
    pub(crate) request_id: RequestId,
    pub(crate) host_id: &'a str,
}

/// An error answer. To a HEAD it has the headers and no body.
pub(crate) fn error(error: &S3Error, context: &ErrorContext<'_>) -> Response<S3Body> {
    let ErrorContext { path, is_head, request_id, host_id } = context;
    let xml = xml::error_body(error, path, &request_id.to_string(), host_id);
    let len = HeaderValue::from(xml.len());
    let body = if *is_head { S3Body::empty() } else { S3Body::text(xml) };
    let mut response = Response::new(body);
    *response.status_mut() = error.status();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    if !is_head {
        headers.insert(CONTENT_LENGTH, len);
    }
    if let S3Error::InvalidRange { size } = error {
        insert_text(headers, CONTENT_RANGE, &format!("bytes */{size}"));
    }
    if error.status() == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
    }
    response
}

/// An answer of the origin, without what was meant for our connection to it.
pub(crate) fn forwarded(response: Response<forebay_cache::ForwardBody>) -> Response<S3Body> {
    let mut response = response.map(S3Body::forwarded);
    remove_hop_by_hop(response.headers_mut());
    response
}

/// What every answer carries. An answer of the origin keeps the origin's ids.
pub(crate) fn sign_off(headers: &mut HeaderMap, request_id: RequestId, host_id: &HeaderValue) {
    if let Ok(id) = HeaderValue::try_from(request_id.to_string()) {
        headers.entry(REQUEST_ID).or_insert(id);
    }
    headers.entry(HOST_ID).or_insert_with(|| host_id.clone());
    headers.entry(SERVER).or_insert(HeaderValue::from_static("Forebay"));
}

/// This answer is the connection's last.
pub(crate) fn end_connection(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
}

/// Removes what RFC 9110 section 7.6.1 says ends at a hop, and what `Connection` names.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    const HOP_BY_HOP: [&str; 9] = [
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

fn insert_text(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}
