//! The Range header.
//!
//! S3 serves one range. A header that names several, or that is no range at all, is ignored
//! as AWS ignores it: the answer is the whole object with status 200.

use forebay_types::RangeAsk;
use http::HeaderMap;
use http::header::RANGE;

/// What the Range header of a request asks for.
pub(crate) fn range_ask(headers: &HeaderMap) -> RangeAsk {
    let mut values = headers.get_all(RANGE).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok().and_then(parse).unwrap_or(RangeAsk::Whole),
        _ => RangeAsk::Whole,
    }
}

fn parse(value: &str) -> Option<RangeAsk> {
    let (unit, spec) = value.trim().split_once('=')?;
    if !unit.trim_end().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = spec.trim().split_once('-')?;
    match (first.trim_end(), last.trim_start()) {
        ("", len) => Some(RangeAsk::Suffix { len: number(len)? }),
        (first, "") => Some(RangeAsk::From { first: number(first)? }),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(RangeAsk::FromTo { first, last })
        }
    }
}

/// A run of digits. One too large for 64 bits is larger than any object: it saturates.
fn number(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn ask(value: &str) -> RangeAsk {
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, HeaderValue::from_str(value).unwrap());
        range_ask(&headers)
    }

    #[test]
    fn the_three_forms_that_clients_send_are_read() {
        assert_eq!(ask("bytes=0-8388607"), RangeAsk::FromTo { first: 0, last: 8_388_607 });
        assert_eq!(ask("bytes=7-"), RangeAsk::From { first: 7 });
        assert_eq!(ask("bytes=-65536"), RangeAsk::Suffix { len: 65_536 });
        assert_eq!(ask("Bytes = 1-2"), RangeAsk::FromTo { first: 1, last: 2 });
        assert_eq!(
            ask("bytes=0-99999999999999999999"),
            RangeAsk::FromTo { first: 0, last: u64::MAX }
        );
        assert_eq!(ask("bytes=99999999999999999999-"), RangeAsk::From { first: u64::MAX });
    }

    #[test]
    fn several_ranges_and_malformed_ones_are_ignored() {
        for value in [
            "bytes=0-1,3-4",
            "bytes=5-4",
            "bytes=-",
            "bytes=",
            "bytes",
            "items=0-1",
            "0-1",
            "bytes=a-b",
            "bytes=+1-2",
            "bytes=1--2",
            "bytes=-1-2",
            "bytes=1 2-3",
            "bytes=0x1-2",
        ] {
            assert_eq!(ask(value), RangeAsk::Whole, "{value}");
        }
        let mut twice = HeaderMap::new();
        twice.append(RANGE, HeaderValue::from_static("bytes=0-1"));
        twice.append(RANGE, HeaderValue::from_static("bytes=2-3"));
        assert_eq!(range_ask(&twice), RangeAsk::Whole);
    }

    proptest! {
        #[test]
        fn well_formed_ranges_survive(first in any::<u64>(), len in any::<u64>()) {
            let last = first.saturating_add(len);
            prop_assert_eq!(ask(&format!("bytes={first}-{last}")), RangeAsk::FromTo { first, last });
            prop_assert_eq!(ask(&format!("bytes={first}-")), RangeAsk::From { first });
            prop_assert_eq!(ask(&format!("bytes=-{len}")), RangeAsk::Suffix { len });
        }

        #[test]
        fn no_header_makes_the_parser_panic(value in "(bytes|=|-|,|[0-9]| |[ -~]){0,40}") {
            let _ = parse(&value);
        }
    }
}
