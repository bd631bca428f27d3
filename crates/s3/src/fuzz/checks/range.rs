//! A range lies within its object, and is the one that AWS would send.

use forebay_types::RangeAsk;
use forebay_types::range::Resolved;
use http::header::RANGE;
use http::{HeaderMap, HeaderValue};

use crate::range::range_ask;

/// What is sent of an object.
#[derive(Debug, PartialEq)]
enum Sent {
    Whole,
    /// From the first of these up to the second.
    Part(u64, u64),
    /// A 416.
    Nothing,
}

/// Checks a Range header against an object of `size` bytes.
pub(crate) fn check(value: &str, size: u64) {
    let Ok(header) = HeaderValue::from_bytes(value.as_bytes()) else { return };
    let ask = range_ask(&HeaderMap::from_iter([(RANGE, header)]));
    let sent = match ask.resolve(size) {
        Resolved::Part(part) => Sent::Part(part.start(), part.end()),
        Resolved::Whole(_) => Sent::Whole,
        Resolved::Unsatisfiable => Sent::Nothing,
    };
    assert_eq!(sent == Sent::Whole, ask == RangeAsk::Whole);
    if let Sent::Part(start, end) = sent {
        assert!(start < end && end <= size, "{start}..{end} of {size}");
    }
    // White space makes it a matter of taste.
    let plain = value.strip_prefix("bytes=").filter(|rest| !rest.contains(char::is_whitespace));
    if let Some(plain) = plain {
        assert_eq!(sent, sent_by_aws(plain, size), "{value:?} of {size} bytes");
    }
}

/// What AWS makes of what follows `bytes=`.
fn sent_by_aws(plain: &str, size: u64) -> Sent {
    let number = |digits: &str| {
        let all_digits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        // What does not fit is more than any object has.
        all_digits.then(|| digits.parse().unwrap_or(u64::MAX))
    };
    let mut ends = plain.split('-');
    let (Some(first), Some(last), None) = (ends.next(), ends.next(), ends.next()) else {
        return Sent::Whole;
    };
    let (start, end) = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => (first, size.min(last.saturating_add(1))),
        (Some(first), None) if last.is_empty() => (first, size),
        (None, Some(len)) if first.is_empty() => (size.saturating_sub(len), size),
        _ => return Sent::Whole,
    };
    if start < end { Sent::Part(start, end) } else { Sent::Nothing }
}
