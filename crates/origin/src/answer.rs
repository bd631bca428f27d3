//! What an answer of the origin says, and whether it is the answer to what was asked.
//!
//! Pure: headers in, an [`ObjectHead`] out. Nothing is believed that the headers do not say.

use forebay_types::{ByteRange, ETag, ObjectHead, Stamp};
use http::HeaderMap;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderName, LAST_MODIFIED};

use crate::error::OriginError;

const VERSION_ID: &str = "x-amz-version-id";

/// Headers that speak of one connection, not of the message.
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

/// Headers that speak of one answer, not of the object.
const OF_ONE_ANSWER: [&str; 11] = [
    "accept-ranges",
    "age",
    "content-length",
    "content-range",
    "date",
    "server",
    "set-cookie",
    "via",
    "x-amz-id-2",
    "x-amz-request-id",
    "x-amzn-requestid",
];

/// The head of an answer, byte for byte.
#[derive(Debug, Clone)]
pub(crate) struct RawHead {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
}

impl RawHead {
    /// The version that the answer to a HEAD is about.
    pub(crate) fn whole(self) -> Result<ObjectHead, OriginError> {
        let size = self.content_length().ok_or(OriginError::Uncacheable("no Content-Length"))?;
        object_head(self.headers, size)
    }

    /// The version and the bytes that the answer to a ranged GET holds: exactly those that were
    /// asked, of the pinned version if one was.
    pub(crate) fn part(
        self,
        asked: ByteRange,
        pin: Option<&Stamp>,
    ) -> Result<(ObjectHead, ByteRange), OriginError> {
        let Some(pin) = pin else { return self.any_part(asked) };
        // Whatever a pinned request finds besides its bytes, they are not to be had any more.
        match self.any_part(asked) {
            Ok((head, range)) if head.stamp == *pin && range == asked => Ok((head, range)),
            _ => Err(OriginError::Moved),
        }
    }

    fn any_part(self, asked: ByteRange) -> Result<(ObjectHead, ByteRange), OriginError> {
        match (self.status, self.content_length()) {
            (206, _) => {}
            // Some servers answer a range of an empty object with all of it.
            (200, Some(0)) => return Err(OriginError::Unsatisfiable),
            // The whole object where a part was asked is not taken even if the part would be in
            // it: who ignores Range may ignore If-Match too.
            _ => return Err(OriginError::Uncacheable("the origin ignores Range")),
        }
        let (range, size) =
            self.content_range().ok_or(OriginError::Uncacheable("no size in Content-Range"))?;
        let length = self.content_length().ok_or(OriginError::Uncacheable("no Content-Length"))?;
        let head = object_head(self.headers, size)?;
        let clamped = ByteRange::new(asked.start(), asked.end().min(size));
        if clamped != Some(range) || length != range.len() {
            return Err(OriginError::Moved);
        }
        Ok((head, range))
    }

    fn content_length(&self) -> Option<u64> {
        text(&self.headers, CONTENT_LENGTH)?.parse().ok()
    }

    /// `bytes first-last/size`.
    fn content_range(&self) -> Option<(ByteRange, u64)> {
        let value = text(&self.headers, CONTENT_RANGE)?.strip_prefix("bytes ")?;
        let (range, size) = value.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let end = last.parse::<u64>().ok()?.checked_add(1)?;
        Some((ByteRange::new(first.parse().ok()?, end)?, size.parse().ok()?))
    }
}

/// Removes what must not travel on to the next connection: the fixed list, and what the sender
/// itself names in `Connection`.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().map(HeaderName::as_str).chain(HOP_BY_HOP) {
        headers.remove(name);
    }
}

fn object_head(mut headers: HeaderMap, size: u64) -> Result<ObjectHead, OriginError> {
    let etag = text(&headers, ETAG).map(ETag::new).filter(ETag::is_strong);
    let etag = etag.ok_or(OriginError::Uncacheable("no strong ETag"))?;
    let last_modified =
        text(&headers, LAST_MODIFIED).ok_or(OriginError::Uncacheable("no Last-Modified"))?.into();
    let version_id = headers.get(VERSION_ID).and_then(|id| id.to_str().ok());
    let version_id = version_id.filter(|id| *id != "null").map(Into::into);
    keep_object_headers(&mut headers);
    Ok(ObjectHead { stamp: Stamp { etag, size, last_modified, version_id }, headers })
}

fn keep_object_headers(headers: &mut HeaderMap) {
    strip_hop_by_hop(headers);
    let passing: Vec<HeaderName> = headers
        .keys()
        .filter(|name| {
            OF_ONE_ANSWER.contains(&name.as_str()) || name.as_str().starts_with("x-amz-checksum-")
        })
        .cloned()
        .collect();
    for name in passing {
        headers.remove(name);
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn answer(status: u16, pairs: &[(&'static str, &str)]) -> RawHead {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        RawHead { status, headers }
    }

    fn part(content_range: &str, content_length: &str) -> RawHead {
        answer(
            206,
            &[
                ("etag", "\"abc-2\""),
                ("last-modified", "Tue, 01 Sep 2026 10:00:00 GMT"),
                ("content-range", content_range),
                ("content-length", content_length),
            ],
        )
    }

    fn range(start: u64, end: u64) -> ByteRange {
        ByteRange::new(start, end).unwrap()
    }

    #[test]
    fn the_exact_part_is_taken_and_one_past_the_end_is_clamped() {
        let (head, got) = part("bytes 0-9/100", "10").part(range(0, 10), None).unwrap();
        assert_eq!((head.stamp.size, got), (100, range(0, 10)));
        let (_, got) = part("bytes 90-99/100", "10").part(range(90, 500), None).unwrap();
        assert_eq!(got, range(90, 100));
    }

    #[test]
    fn any_other_part_than_the_one_asked_means_moved() {
        for wrong in [
            part("bytes 1-10/100", "10"),
            part("bytes 0-8/100", "9"),
            part("bytes 0-9/100", "11"),
            part("bytes 0-9/9", "10"),
        ] {
            assert_eq!(wrong.part(range(0, 10), None).unwrap_err(), OriginError::Moved);
        }
    }

    #[test]
    fn a_pinned_part_is_of_that_stamp_in_every_field_or_moved() {
        let asked = range(0, 10);
        let good = || part("bytes 0-9/100", "10");
        let (head, _) = good().part(asked, None).unwrap();
        let pin = head.stamp;
        assert_eq!(good().part(asked, Some(&pin)).unwrap().1, asked);
        let others = [
            Stamp { etag: ETag::new("\"abc\""), ..pin.clone() },
            Stamp { size: 101, ..pin.clone() },
            Stamp { last_modified: "Tue, 01 Sep 2026 10:00:01 GMT".into(), ..pin.clone() },
            Stamp { version_id: Some("v1".into()), ..pin.clone() },
        ];
        for other in others {
            assert_eq!(good().part(asked, Some(&other)).unwrap_err(), OriginError::Moved);
        }
        let longer = range(0, 200);
        let clamped = part("bytes 0-99/100", "100").part(longer, Some(&pin));
        assert_eq!(clamped.unwrap_err(), OriginError::Moved, "a pin asks for all of the range");
    }

    #[test]
    fn a_whole_answer_to_a_part_is_not_kept_and_an_empty_one_says_that_the_object_is() {
        let whole = |length| {
            answer(200, &[("etag", "\"a\""), ("last-modified", "x"), ("content-length", length)])
        };
        let error = whole("10").part(range(0, 10), None).unwrap_err();
        assert_eq!(error, OriginError::Uncacheable("the origin ignores Range"));
        assert_eq!(whole("0").part(range(0, 10), None).unwrap_err(), OriginError::Unsatisfiable);
    }

    #[test]
    fn an_answer_without_strong_etag_size_or_date_is_not_kept() {
        let all = [("etag", "\"a\""), ("last-modified", "x"), ("content-length", "1")];
        assert!(answer(200, &all).whole().is_ok());
        for missing in 0..3 {
            let mut some = all.to_vec();
            some.remove(missing);
            assert!(matches!(answer(200, &some).whole(), Err(OriginError::Uncacheable(_))));
        }
        let weak = [("etag", "W/\"a\""), all[1], all[2]];
        assert!(matches!(answer(200, &weak).whole(), Err(OriginError::Uncacheable(_))));
    }

    #[test]
    fn headers_of_the_object_stay_and_those_of_the_answer_go() {
        let kept = [
            ("etag", "\"a\""),
            ("last-modified", "x"),
            ("content-type", "image/jpeg"),
            ("x-amz-meta-Label", "7"),
            ("content-encoding", "gzip"),
            ("x-amz-version-id", "null"),
        ];
        let gone = [
            ("content-length", "1"),
            ("date", "y"),
            ("x-amz-request-id", "r"),
            ("x-amz-id-2", "s"),
            ("x-amz-checksum-crc32", "z"),
            ("connection", "close, x-hop"),
            ("x-hop", "h"),
            ("accept-ranges", "bytes"),
        ];
        let kept = kept.map(|(name, value)| (&*name.to_lowercase().leak(), value));
        let head = answer(200, &[&kept[..], &gone[..]].concat()).whole().unwrap();
        assert_eq!(head.headers.len(), kept.len());
        for (name, value) in kept {
            assert_eq!(head.headers[name], value);
        }
        assert_eq!(head.stamp.version_id, None);
    }
}
