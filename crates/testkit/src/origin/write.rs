//! PUT, copy and delete. Written objects are kept in memory, up to a limit.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, ETAG,
    EXPIRES, HeaderValue,
};
use http::{HeaderMap, HeaderName, StatusCode};
use percent_encoding::percent_decode_str;
use xxhash_rust::xxh3::xxh3_128;

use super::conditions;
use super::error::S3Error;
use super::http::Request;
use super::objects::{Budget, Held, Object, Objects, Source};
use super::op::Call;
use super::read::present;
use super::reply::Reply;
use crate::xml::{self, Document};

/// Most keys in one DeleteObjects, as at S3.
const MAX_DELETES: usize = 1000;

/// Headers of a write that come back on every read, besides `x-amz-meta-*`.
const KEPT: [HeaderName; 6] =
    [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_DISPOSITION, CACHE_CONTROL, EXPIRES];

/// What a write needs to know besides the request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) budget: &'a Arc<Budget>,
    pub(super) now: SystemTime,
}

pub(super) fn put(
    objects: &mut Objects,
    ctx: Context<'_>,
    call: &Call,
    request: &Request,
    body: Bytes,
) -> Result<Reply, S3Error> {
    check_conditions(objects, call, request)?;
    let etag = content_tag(&body);
    let held = hold(ctx.budget, body)?;
    let object = written(etag, held, kept_headers(&request.headers), ctx.now);
    let mut reply = Reply::empty(StatusCode::OK);
    reply.set(ETAG, &object.etag);
    objects.put(&call.bucket, &call.key, object);
    Ok(reply)
}

/// A copy shares its source's bytes and ETag; only its Last-Modified is new.
pub(super) fn copy(
    objects: &mut Objects,
    ctx: Context<'_>,
    call: &Call,
    request: &Request,
) -> Result<Reply, S3Error> {
    check_conditions(objects, call, request)?;
    let source = request.header("x-amz-copy-source").unwrap_or_default();
    let source = percent_decode_str(source.split('?').next().unwrap_or_default());
    let source = source.decode_utf8_lossy();
    let (bucket, key) = source.trim_start_matches('/').split_once('/').unwrap_or_default();
    let mut object = objects.find(bucket, key).ok_or_else(S3Error::no_such_key)?;
    object.last_modified = ctx.now;
    if request.header("x-amz-metadata-directive") == Some("REPLACE") {
        object.headers = Arc::new(kept_headers(&request.headers));
    }
    let mut answer = Document::new("CopyObjectResult");
    answer.leaf("ETag", &object.etag).leaf("LastModified", xml::date(ctx.now));
    objects.put(&call.bucket, &call.key, object);
    Ok(Reply::xml(answer.finish()))
}

pub(super) fn delete(objects: &mut Objects, call: &Call) -> Result<Reply, S3Error> {
    if !objects.has_bucket(&call.bucket) {
        return Err(S3Error::no_such_bucket());
    }
    objects.delete(&call.bucket, &call.key);
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

pub(super) fn delete_many(
    objects: &mut Objects,
    call: &Call,
    body: &[u8],
) -> Result<Reply, S3Error> {
    if !objects.has_bucket(&call.bucket) {
        return Err(S3Error::no_such_bucket());
    }
    let asked = xml::children(body, "Object")?;
    if asked.is_empty() || asked.len() > MAX_DELETES {
        return Err(S3Error::malformed_xml());
    }
    let mut answer = Document::new("DeleteResult");
    for fields in asked {
        let key = field(&fields, "Key").ok_or_else(S3Error::malformed_xml)?;
        objects.delete(&call.bucket, key);
        answer.group("Deleted", |deleted| {
            deleted.leaf("Key", key);
        });
    }
    Ok(Reply::xml(answer.finish()))
}

/// The value of a leaf that [`xml::children`] found.
pub(super) fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields.iter().find(|(n, _)| n == name).map(|(_, text)| text.as_str())
}

/// A quoted tag of the content: equal bytes have equal tags, as with S3's MD5.
pub(super) fn content_tag(bytes: &[u8]) -> String {
    format!("\"{:032x}\"", xxh3_128(bytes))
}

pub(super) fn written(
    etag: String,
    held: Arc<Held>,
    headers: HeaderMap,
    now: SystemTime,
) -> Object {
    Object {
        etag: etag.into(),
        size_bytes: held.bytes.len() as u64,
        last_modified: now,
        headers: Arc::new(headers),
        source: Source::Stored(held),
    }
}

pub(super) fn hold(budget: &Arc<Budget>, bytes: Bytes) -> Result<Arc<Held>, S3Error> {
    let size_bytes = bytes.len();
    budget.hold(bytes).ok_or_else(|| {
        let message = format!(
            "{size_bytes} bytes do not fit in what is left of written_limit_bytes: \
             raise it or delete objects"
        );
        S3Error::new(StatusCode::BAD_REQUEST, "EntityTooLarge", message)
    })
}

/// The bucket exists and If-Match and If-None-Match allow the write.
pub(super) fn check_conditions(
    objects: &Objects,
    call: &Call,
    request: &Request,
) -> Result<(), S3Error> {
    if !objects.has_bucket(&call.bucket) {
        return Err(S3Error::no_such_bucket());
    }
    let existing = objects.find(&call.bucket, &call.key);
    if conditions::allow_write(&request.headers, existing.as_ref().map(present)) {
        return Ok(());
    }
    Err(S3Error::precondition_failed())
}

pub(super) fn kept_headers(headers: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for (name, value) in headers {
        if KEPT.contains(name) || name.as_str().starts_with("x-amz-meta-") {
            kept.append(name, value.clone());
        }
    }
    unwrap_encoding(&mut kept);
    kept
}

/// `aws-chunked` describes the transfer and is not kept.
fn unwrap_encoding(kept: &mut HeaderMap) {
    let Some(coding) = kept.remove(CONTENT_ENCODING) else { return };
    let codings = coding.to_str().unwrap_or_default().split(',').map(str::trim);
    let rest: Vec<_> = codings.filter(|coding| *coding != "aws-chunked").collect();
    if !rest.is_empty()
        && let Ok(value) = HeaderValue::from_str(&rest.join(","))
    {
        kept.insert(CONTENT_ENCODING, value);
    }
}
