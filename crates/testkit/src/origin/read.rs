//! GET and HEAD of an object.

use std::borrow::Cow;

use forebay_types::range::Resolved;
use forebay_types::{ByteRange, RangeAsk};
use http::header::{
    ACCEPT_RANGES, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, LAST_MODIFIED, RANGE,
};
use http::{HeaderValue, StatusCode};

use super::conditions::{self, Present, Verdict};
use super::error::S3Error;
use super::fault::{Armed, Fault};
use super::http::Request;
use super::objects::{Object, Objects};
use super::op::{Call, Query};
use super::reply::{Body, Reply};

/// Query parameters that replace a header of the answer.
const OVERRIDES: [&str; 6] = [
    "content-type",
    "content-language",
    "expires",
    "cache-control",
    "content-disposition",
    "content-encoding",
];

/// Answers a GET, or what a HEAD declares of it.
pub(super) fn read(
    objects: &Objects,
    call: &Call,
    request: &Request,
    mut fault: Option<&mut Armed>,
) -> Result<Reply, S3Error> {
    let object = find(objects, call)?;
    let verdict = judge(&object, request, fault.as_deref_mut());
    if verdict == Verdict::Failed {
        return Err(S3Error::precondition_failed());
    }
    let mut reply = match verdict {
        Verdict::NotModified => Reply::empty(StatusCode::NOT_MODIFIED),
        _ => with_bytes(&object, request, fault.as_deref_mut())?,
    };
    describe(&object, &mut reply);
    override_headers(&call.query, &mut reply);
    if let Some(armed) = fault {
        lie_in_headers(&object, &mut reply, armed);
    }
    Ok(reply)
}

fn find(objects: &Objects, call: &Call) -> Result<Object, S3Error> {
    if !objects.has_bucket(&call.bucket) {
        return Err(S3Error::no_such_bucket());
    }
    let asks_for_a_version = call.query.get("versionId").is_some_and(|id| id != "null");
    if asks_for_a_version {
        let message = "The specified version does not exist.";
        return Err(S3Error::new(StatusCode::NOT_FOUND, "NoSuchVersion", message));
    }
    objects.find(&call.bucket, &call.key).ok_or_else(S3Error::no_such_key)
}

fn judge(object: &Object, request: &Request, fault: Option<&mut Armed>) -> Verdict {
    let verdict = conditions::of_read(&request.headers, present(object));
    match fault {
        Some(armed) if *armed.fault() == Fault::IgnoreIfMatch => {
            let headers = conditions::without_if_match(&request.headers);
            let lenient = conditions::of_read(&headers, present(object));
            if lenient != verdict {
                armed.fired();
            }
            lenient
        }
        _ => verdict,
    }
}

fn with_bytes(
    object: &Object,
    request: &Request,
    fault: Option<&mut Armed>,
) -> Result<Reply, S3Error> {
    let size = object.size_bytes;
    let mut ask = request.header(RANGE.as_str()).map_or(RangeAsk::Whole, parse_range);
    if !conditions::range_counts(&request.headers, present(object)) {
        ask = RangeAsk::Whole;
    }
    if let Some(armed) = fault
        && *armed.fault() == Fault::WholeInsteadOfRange
        && ask != RangeAsk::Whole
    {
        armed.fired();
        ask = RangeAsk::Whole;
    }
    match ask.resolve(size) {
        Resolved::Unsatisfiable => Err(S3Error::invalid_range(size)),
        Resolved::Whole(range) => Ok(part(StatusCode::OK, object, range)),
        Resolved::Part(range) => {
            let mut reply = part(StatusCode::PARTIAL_CONTENT, object, Some(range));
            reply.set(CONTENT_RANGE, &range.to_content_range(size));
            Ok(reply)
        }
    }
}

fn part(status: StatusCode, object: &Object, range: Option<ByteRange>) -> Reply {
    let mut reply = Reply::empty(status);
    reply.body = Body::of(object, range);
    reply
}

/// What every answer says about the object, a 304 included.
fn describe(object: &Object, reply: &mut Reply) {
    for (name, value) in object.headers.iter() {
        reply.headers.insert(name.clone(), value.clone());
    }
    if !reply.headers.contains_key(CONTENT_TYPE) {
        reply.set(CONTENT_TYPE, "binary/octet-stream");
    }
    reply.set(ETAG, &object.etag);
    reply.set(LAST_MODIFIED, &httpdate::fmt_http_date(object.last_modified));
    reply.set(ACCEPT_RANGES, "bytes");
}

fn override_headers(query: &Query, reply: &mut Reply) {
    for name in OVERRIDES {
        if let Some(value) = query.get(&format!("response-{name}")) {
            reply.set(HeaderName::from_static(name), value);
        }
    }
}

fn lie_in_headers(object: &Object, reply: &mut Reply, armed: &mut Armed) {
    let lie: Option<(HeaderName, Option<Cow<'_, str>>)> = match armed.fault() {
        Fault::MissingEtag => Some((ETAG, None)),
        Fault::WrongEtag => Some((ETAG, Some("\"0badc0de0badc0de0badc0de0badc0de\"".into()))),
        Fault::WeakEtag => Some((ETAG, Some(format!("W/{}", object.etag).into()))),
        Fault::WrongContentRange { shift_bytes } => match &reply.body {
            Body::Part(_, range) if reply.status == StatusCode::PARTIAL_CONTENT => {
                let (first, last) = (range.start() + shift_bytes, range.end() - 1 + shift_bytes);
                let text = format!("bytes {first}-{last}/{}", object.size_bytes);
                Some((CONTENT_RANGE, Some(text.into())))
            }
            _ => None,
        },
        _ => None,
    };
    match lie {
        None => return,
        Some((name, None)) => drop(reply.headers.remove(name)),
        Some((name, Some(value))) => {
            let value = HeaderValue::from_str(&value).unwrap_or(HeaderValue::from_static(""));
            reply.headers.insert(name, value);
        }
    }
    armed.fired();
}

pub(super) fn present(object: &Object) -> Present<'_> {
    Present { etag: &object.etag, last_modified: object.last_modified }
}

/// A Range header as S3 takes it: several ranges or bad syntax ask for the whole object.
fn parse_range(header: &str) -> RangeAsk {
    let parse = || {
        let (first, last) = header.strip_prefix("bytes=")?.split_once('-')?;
        match (first.trim(), last.trim()) {
            ("", len) => Some(RangeAsk::Suffix { len: number(len)? }),
            (first, "") => Some(RangeAsk::From { first: number(first)? }),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(RangeAsk::FromTo { first, last })
            }
        }
    };
    parse().unwrap_or(RangeAsk::Whole)
}

/// Digits only (`u64::from_str` takes a sign); what is larger than any object counts as that.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_form_is_read_as_s3_reads_it() {
        assert_eq!(parse_range("bytes=1-2"), RangeAsk::FromTo { first: 1, last: 2 });
        assert_eq!(parse_range("bytes=5-"), RangeAsk::From { first: 5 });
        assert_eq!(parse_range("bytes=-9"), RangeAsk::Suffix { len: 9 });
        let huge = "bytes=0-99999999999999999999999";
        assert_eq!(parse_range(huge), RangeAsk::FromTo { first: 0, last: u64::MAX });
        for ignored in ["bytes=2-1", "bytes=0-1,3-4", "bytes=-", "items=0-1", "bytes=+1-2", "x"] {
            assert_eq!(parse_range(ignored), RangeAsk::Whole, "{ignored}");
        }
    }
}
