//! What a server answered, held against what was asked: the version, and exactly which bytes.

use std::sync::Arc;

use bytes::Bytes;
use forebay_rt::{Clock, timeout};
use forebay_types::range::Resolved;
use forebay_types::{ByteRange, ETag, ObjectHead, Stamp};
use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, LAST_MODIFIED, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderName, Method, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use crate::ask::Ask;
use crate::error::{Failure, ReadError};
use crate::limits::ERROR_BYTES;
use crate::servers::Server;

const VERSION_ID: HeaderName = HeaderName::from_static("x-amz-version-id");

/// Headers that say nothing of the object.
const OF_THE_ANSWER: [HeaderName; 7] = [
    CONTENT_LENGTH,
    CONTENT_RANGE,
    DATE,
    CONNECTION,
    TRANSFER_ENCODING,
    HeaderName::from_static("x-amz-request-id"),
    HeaderName::from_static("x-amz-id-2"),
];

/// An answer that counts.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Who gave it.
    pub(crate) server: Server,
    pub(crate) head: ObjectHead,
    /// The bytes that `body` holds; `None` where there are none.
    pub(crate) range: Option<ByteRange>,
    pub(crate) body: Incoming,
}

impl Answer {
    /// Reads an answer. With `pin`, one of another version means that the object moved.
    pub(crate) async fn parse(
        server: &Server,
        ask: &Ask,
        pin: Option<&Stamp>,
        response: Response<Incoming>,
        clock: &dyn Clock,
    ) -> Result<Self, Failure> {
        if !response.status().is_success() {
            return Err(refusal(server, pin.is_some(), response, clock).await);
        }
        let (parts, body) = response.into_parts();
        let unfit = |why: &str| Failure::Unfit(format!("{server}: {why}"));
        let (range, size) = range_and_size(ask, parts.status, &parts.headers).map_err(unfit)?;
        let head = head(parts.headers, size);
        if pin.is_some_and(|pin| *pin != head.stamp) {
            return Err(Failure::Last(ReadError::VersionMoved));
        }
        Ok(Self { server: server.clone(), head, range, body })
    }
}

/// Whether a read of this version can go on elsewhere: only a strong tag names bytes.
pub(crate) fn is_pinnable(stamp: &Stamp) -> bool {
    stamp.etag.is_strong() && !stamp.last_modified.is_empty()
}

/// The bytes of a body and the size of the object, if they are what was asked.
fn range_and_size(
    ask: &Ask,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<(Option<ByteRange>, u64), &'static str> {
    let length: Option<u64> = text(headers, &CONTENT_LENGTH).parse().ok();
    if ask.method == Method::HEAD {
        return Ok((None, length.ok_or("no length")?));
    }
    if status == StatusCode::PARTIAL_CONTENT {
        let said = content_range(text(headers, &CONTENT_RANGE));
        let (range, size) = said.ok_or("a Content-Range that cannot be read")?;
        let is_asked = ask.range.resolve(size) == Resolved::Part(range);
        let is_whole = length.is_none_or(|length| length == range.len());
        return if is_asked && is_whole { Ok((Some(range), size)) } else { Err("another range") };
    }
    let size = length.ok_or("no length")?;
    let whole = ByteRange::new(0, size);
    match ask.range.resolve(size) {
        Resolved::Whole(range) => Ok((range, size)),
        // A server may answer a range that happens to be the whole as such.
        Resolved::Part(range) if Some(range) == whole => Ok((whole, size)),
        Resolved::Part(_) | Resolved::Unsatisfiable => Err("the whole instead of a range"),
    }
}

/// `bytes a-b/size`.
fn content_range(value: &str) -> Option<(ByteRange, u64)> {
    let (range, size) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last, size) = (first.parse().ok()?, last.parse::<u64>().ok()?, size.parse().ok()?);
    let range = ByteRange::new(first, last.checked_add(1)?)?;
    (range.end() <= size).then_some((range, size))
}

fn head(mut headers: HeaderMap, size: u64) -> ObjectHead {
    let version_id = headers.get(&VERSION_ID).and_then(|value| value.to_str().ok());
    let stamp = Stamp {
        etag: ETag::new(text(&headers, &ETAG)),
        size,
        last_modified: text(&headers, &LAST_MODIFIED).into(),
        version_id: version_id.map(Arc::from),
    };
    for name in OF_THE_ANSWER {
        headers.remove(name);
    }
    ObjectHead { stamp, headers }
}

/// The header's value; nothing where it is missing or no text.
fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// What to do about an answer that is not a success.
async fn refusal(
    server: &Server,
    is_pinned: bool,
    response: Response<Incoming>,
    clock: &dyn Clock,
) -> Failure {
    let status = response.status();
    match status {
        StatusCode::PRECONDITION_FAILED
        | StatusCode::NOT_FOUND
        | StatusCode::RANGE_NOT_SATISFIABLE
            if is_pinned =>
        {
            Failure::Last(ReadError::VersionMoved)
        }
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => unfit(server, status),
        _ if status.is_client_error() => {
            let body = error_body(server, response.into_body(), clock).await;
            Failure::Last(ReadError::Refused { status, code: error_code(&body) })
        }
        _ => unfit(server, status),
    }
}

fn unfit(server: &Server, status: StatusCode) -> Failure {
    Failure::Unfit(format!("{server}: {status}"))
}

/// As much of an error's body as comes: its code is a courtesy, the status is what counts.
async fn error_body(server: &Server, body: Incoming, clock: &dyn Clock) -> Bytes {
    let body = Limited::new(body, ERROR_BYTES).collect();
    match timeout(clock, server.patience(), body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_)) | Err(_) => Bytes::new(),
    }
}

/// What stands in `<Code>`: codes are letters, so that nothing in them is escaped.
pub(crate) fn error_code(xml: &[u8]) -> String {
    let xml = String::from_utf8_lossy(xml);
    let code = xml.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    code.map(|(code, _)| code.to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use forebay_types::RangeAsk;

    use super::*;
    use crate::ask::Name;

    fn judge(
        asked: RangeAsk,
        status: u16,
        headers: &[(HeaderName, &str)],
    ) -> Result<Option<ByteRange>, &'static str> {
        let ask = Name::new("b", "k").unwrap().get().range(asked);
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
        let status = StatusCode::from_u16(status).unwrap();
        range_and_size(&ask, status, &headers.collect()).map(|(range, _)| range)
    }

    #[test]
    fn only_exactly_the_bytes_asked_for_are_an_answer() {
        let asked = RangeAsk::FromTo { first: 0, last: 9 };
        let part =
            |said, length| judge(asked, 206, &[(CONTENT_RANGE, said), (CONTENT_LENGTH, length)]);
        assert_eq!(part("bytes 0-9/20", "10"), Ok(ByteRange::new(0, 10)));
        assert_eq!(part("bytes 0-4/5", "5"), Ok(ByteRange::new(0, 5)));
        for (said, length) in [
            ("bytes 0-4/20", "5"),
            ("bytes 1-9/20", "9"),
            ("bytes 0-10/20", "11"),
            ("bytes 0-9/20", "9"),
            ("bytes 0-9/9", "10"),
            ("bytes 0-18446744073709551615/20", "10"),
            ("bytes */20", "0"),
            ("", "10"),
        ] {
            assert!(part(said, length).is_err(), "{said} {length}");
        }
        let whole = |length| judge(asked, 200, &[(CONTENT_LENGTH, length)]);
        assert_eq!(whole("10"), Ok(ByteRange::new(0, 10)));
        assert_eq!(whole("7"), Ok(ByteRange::new(0, 7)));
        assert!(whole("11").is_err() && whole("x").is_err());
        assert_eq!(judge(RangeAsk::Whole, 200, &[(CONTENT_LENGTH, "0")]), Ok(None));
        assert!(judge(RangeAsk::Whole, 206, &[(CONTENT_RANGE, "bytes 0-4/5")]).is_err());
    }

    #[test]
    fn an_error_without_a_code_has_none() {
        assert_eq!(error_code(b"<Error><Code>NoSuchKey</Code></Error>"), "NoSuchKey");
        assert_eq!(error_code(b"<html>"), "");
    }
}
