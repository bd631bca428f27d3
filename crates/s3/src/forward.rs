//! Everything that is not a plain read: authorized, written anew for the origin, answered
//! verbatim, and forgotten about where it changed something.
//!
//! Nothing of the client's request line reaches the origin as it came: path and query are
//! escaped again from what was authorized, and the origin's side signs anew.

use bytes::Bytes;
use forebay_cache::ForwardBody;
use forebay_types::{BucketName, Freshness, ObjectKey, ObjectName};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};

use crate::authenticate::Authenticated;
use crate::authorize::{Deletions, authorize};
use crate::aws_chunked;
use crate::body::S3Body;
use crate::checksum;
use crate::code::Code;
use crate::copy_source::{COPY_SOURCE, CopySource};
use crate::edge::{Edge, Trace};
use crate::error::S3Error;
use crate::overrides;
use crate::received::{Received, read_all};
use crate::respond;
use crate::route::{Call, Operation};
use crate::rules::BucketRule;
use crate::trailing;
use crate::upload;
use crate::xml;

/// Largest body of a DeleteObjects call: a thousand keys of the longest kind, and markup.
const MAX_DELETE_BODY_BYTES: usize = 2 << 20;

/// Largest error of an origin that is looked into.
const MAX_ERROR_BODY_BYTES: usize = 16 << 10;

/// Headers that speak of the client's signature or connection, or to Forebay itself.
const NOT_FORWARDED: [&str; 8] = [
    "authorization",
    "date",
    "x-amz-date",
    "x-amz-security-token",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "forwarded",
];

/// Authorizes and forwards a request that the cache does not answer.
pub(crate) async fn forward(
    edge: &Edge,
    trace: &mut Trace,
    mut sender: Authenticated,
    call: Call,
) -> Result<Response<S3Body>, S3Error> {
    let call = authorize(&sender.caller, call)?.into_op();
    overrides::refuse_unsigned(&call.query, sender.signed)?;
    let rule = match call.address.bucket() {
        Some(bucket) => Some(edge.rule_of(bucket, trace)?),
        None => None,
    };
    let changed = match (&call.operation, &rule) {
        (Operation::DeleteObjects(bucket), Some(rule)) => {
            let deletions = read_deletions(&mut sender.request, bucket).await?;
            let deletions = authorize(&sender.caller, deletions)?.into_op();
            names_deleted(&deletions, rule)?
        }
        (operation, Some(rule)) => names_changed(operation, rule),
        (_, None) => Vec::new(),
    };
    if let Some(rule) = &rule {
        warn_of_immutable(rule, &changed);
    }
    send(edge, trace, sender.request, &call, changed).await
}

/// Sends on what is already authorized.
pub(crate) async fn send(
    edge: &Edge,
    trace: &Trace,
    request: Received,
    call: &Call,
    changed: Vec<ObjectName>,
) -> Result<Response<S3Body>, S3Error> {
    let bucket = call.address.bucket().cloned();
    let trailing = aws_chunked::has_trailer(&request.parts.headers);
    let trailing = trailing && trace.rule().is_some_and(BucketRule::takes_trailers);
    let (parts, body) = upstream(request, call, trailing)?.into_parts();
    let (body, fault) = upload::noted(body);
    let request = Request::from_parts(parts, body);
    let answer = edge.cache.forward(&trace.ctx(), bucket, request, changed).await;
    // Where the client's body went wrong, no origin is to blame.
    let failed = |error| fault.take().unwrap_or_else(|| trace.failed(error));
    let answer = answer.map_err(failed)?;
    match trace.rule().filter(|_| trailing) {
        Some(rule) => refused_trailers(rule, answer).await.map(respond::forwarded),
        None => Ok(respond::forwarded(answer)),
    }
}

/// Looks whether the origin does not know what follows a body. The client, which could send it
/// another time only, is asked to; from then on what follows a body ends here.
async fn refused_trailers(
    rule: &BucketRule,
    answer: Response<ForwardBody>,
) -> Result<Response<ForwardBody>, S3Error> {
    const CODES: [&str; 4] = [
        "MissingContentLength",
        "NotImplemented",
        "SignatureDoesNotMatch",
        "XAmzContentSHA256Mismatch",
    ];
    if !answer.status().is_client_error() && answer.status() != StatusCode::NOT_IMPLEMENTED {
        return Ok(answer);
    }
    let (parts, body) = answer.into_parts();
    let body = read_all(body, MAX_ERROR_BODY_BYTES).await.ok().flatten().unwrap_or_default();
    let code = std::str::from_utf8(&body).ok().and_then(xml::parse_error).map(|(code, _)| code);
    if code.is_none_or(|code| !CODES.contains(&code.as_str())) {
        return Ok(Response::from_parts(parts, whole(body)));
    }
    tracing::warn!(bucket = %rule.label, "the origin takes no checksum after a body: it is checked here alone");
    rule.refuses_trailers();
    let why = "The origin takes no checksum that follows a body. Please try again: it will be \
               checked on the way.";
    Err(S3Error::new(Code::ServiceUnavailable, why))
}

/// The request as the origin's side gets it: path style and unsigned.
fn upstream(
    mut request: Received,
    call: &Call,
    trailing: bool,
) -> Result<Request<ForwardBody>, S3Error> {
    let body = request.take_body();
    let headers = &mut request.parts.headers;
    let body = if trailing { frame(headers, body)? } else { unframe(headers, body)? };
    let mut upstream = Request::new(body);
    *upstream.method_mut() = request.parts.method;
    *upstream.uri_mut() = upstream_uri(call)?;
    let headers = upstream.headers_mut();
    *headers = request.parts.headers;
    clean(headers);
    if let Operation::WriteObject(write) = &call.operation
        && let Some(source) = &write.source
    {
        headers.insert(COPY_SOURCE, CopySource::to_header(source)?);
    }
    Ok(upstream)
}

fn upstream_uri(call: &Call) -> Result<Uri, S3Error> {
    let mut target = call.address.path();
    if !call.query.is_empty() {
        target.push('?');
        target.push_str(&call.query.encode());
    }
    Uri::try_from(target)
        .map_err(|_| S3Error::new(Code::InvalidUri, "The path cannot be forwarded."))
}

fn clean(headers: &mut HeaderMap) {
    respond::remove_hop_by_hop(headers);
    for name in [HOST, EXPECT] {
        headers.remove(name);
    }
    for name in NOT_FORWARDED {
        headers.remove(name);
    }
    let ours: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("x-forebay-")).cloned().collect();
    for name in ours {
        headers.remove(name);
    }
}

/// The body as the origin gets it with its trailers, and headers that say so.
fn frame(headers: &mut HeaderMap, body: ForwardBody) -> Result<ForwardBody, S3Error> {
    let trailers = checksum::announced(headers)?;
    let body_bytes = aws_chunked::decoded_length(headers)?;
    let framed_bytes = trailing::framed_len(body_bytes, &trailers);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(framed_bytes));
    headers.remove(crate::sigv4::CONTENT_SHA256);
    set_encodings(headers, Some("aws-chunked"));
    Ok(trailing::framed(body, body_bytes, &trailers))
}

/// The body as the origin gets it alone. It has been unwrapped, and the checksum that follows it
/// is checked: the headers must not speak of either any more.
fn unframe(headers: &mut HeaderMap, body: ForwardBody) -> Result<ForwardBody, S3Error> {
    if !aws_chunked::is_chunked(headers) {
        return Ok(body);
    }
    let len = aws_chunked::decoded_length(headers)?;
    headers.insert(CONTENT_LENGTH, HeaderValue::from(len));
    for name in [
        aws_chunked::DECODED_LENGTH,
        crate::sigv4::CONTENT_SHA256,
        checksum::TRAILER,
        "x-amz-sdk-checksum-algorithm",
    ] {
        headers.remove(name);
    }
    set_encodings(headers, None);
    Ok(trailing::dropped(body))
}

/// Puts `first` before the encodings of the object itself, instead of the client's framing.
fn set_encodings(headers: &mut HeaderMap, first: Option<&str>) {
    let own: Vec<String> = headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .map(str::trim)
        .filter(|encoding| !encoding.is_empty() && !encoding.eq_ignore_ascii_case("aws-chunked"))
        .map(str::to_owned)
        .collect();
    headers.remove(CONTENT_ENCODING);
    let all: Vec<&str> = first.into_iter().chain(own.iter().map(String::as_str)).collect();
    if let Ok(value) = HeaderValue::try_from(all.join(","))
        && !all.is_empty()
    {
        headers.insert(CONTENT_ENCODING, value);
    }
}

fn names_changed(operation: &Operation, rule: &BucketRule) -> Vec<ObjectName> {
    match operation {
        Operation::WriteObject(write) if write.visible => {
            names_of(rule, &write.bucket, &write.key, write.version_id.as_deref())
        }
        Operation::WriteObject(_)
        | Operation::ReadObject(_)
        | Operation::AskObject(..)
        | Operation::ListBucket { .. }
        | Operation::ProbeBucket(_)
        | Operation::ListBuckets
        | Operation::DeleteObjects(_)
        | Operation::WriteBucket(_) => Vec::new(),
    }
}

/// The key, the version that the request names if it names one, and `null`, which is a name
/// for whatever was written while versioning was off.
fn names_of(
    rule: &BucketRule,
    bucket: &BucketName,
    key: &ObjectKey,
    version_id: Option<&str>,
) -> Vec<ObjectName> {
    let name = |version_id: Option<&str>| ObjectName {
        rule: rule.rule,
        bucket: bucket.clone(),
        key: key.clone(),
        version_id: version_id.map(Into::into),
    };
    let mut names = vec![name(None), name(Some("null"))];
    names.extend(version_id.filter(|id| *id != "null").map(|id| name(Some(id))));
    names
}

/// Reads which objects a DeleteObjects call names, and puts the body back as it came: its
/// checksum is the client's.
async fn read_deletions(request: &mut Received, bucket: &BucketName) -> Result<Deletions, S3Error> {
    let body = read_all(request.take_body(), MAX_DELETE_BODY_BYTES).await;
    let body = body.map_err(|error| upload::meaning(&error))?;
    let body = body.ok_or_else(|| {
        let why = format!("The list of objects has more than {MAX_DELETE_BODY_BYTES} bytes.");
        S3Error::new(Code::EntityTooLarge, why)
    })?;
    let xml = std::str::from_utf8(&body)
        .map_err(|_| S3Error::new(Code::MalformedXml, "The body is not UTF-8."))?;
    let entries = xml::parse_delete(xml)?;
    request.body = Some(unframe(&mut request.parts.headers, whole(body))?);
    Ok(Deletions { bucket: bucket.clone(), entries })
}

fn whole(bytes: Bytes) -> ForwardBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

fn names_deleted(deletions: &Deletions, rule: &BucketRule) -> Result<Vec<ObjectName>, S3Error> {
    let mut names = Vec::with_capacity(deletions.entries.len());
    for entry in &deletions.entries {
        let key = ObjectKey::new(&entry.key)?;
        names.extend(names_of(rule, &deletions.bucket, &key, entry.version_id.as_deref()));
    }
    Ok(names)
}

/// The operator promised that these keys never change: readers may go on seeing the old bytes.
fn warn_of_immutable(rule: &BucketRule, changed: &[ObjectName]) {
    let immutable = |name: &&ObjectName| rule.freshness_of(&name.key) == Freshness::Immutable;
    if let Some(name) = changed.iter().find(immutable) {
        tracing::warn!(
            %name,
            names = changed.len(),
            "a write to a key under an immutable rule: other workers may serve the old version"
        );
    }
}
