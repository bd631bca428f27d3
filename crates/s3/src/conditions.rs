//! The conditional headers of a read. What they mean for a version is the cache's to say.
//!
//! A date that cannot be read is ignored, as RFC 9110 wants it.

use std::time::SystemTime;

use forebay_cache::{Conditions, TagList};
use http::HeaderMap;
use http::header::{
    HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
};

/// Reads If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since and If-Range.
pub(crate) fn conditions(headers: &HeaderMap) -> Conditions {
    Conditions {
        if_match: tags(headers, &IF_MATCH),
        if_none_match: tags(headers, &IF_NONE_MATCH),
        if_modified_since: date(headers, &IF_MODIFIED_SINCE),
        if_unmodified_since: date(headers, &IF_UNMODIFIED_SINCE),
        // An If-Range that is a date is kept too: it equals no tag, so the answer is the whole
        // object, which is always right.
        if_range: headers.get(IF_RANGE).and_then(|value| value.to_str().ok()).map(str::to_owned),
    }
}

fn tags(headers: &HeaderMap, name: &HeaderName) -> Option<TagList> {
    if !headers.contains_key(name) {
        return None;
    }
    let mut tags = Vec::new();
    for value in headers.get_all(name) {
        // A tag that is not text equals none of ours, but the condition still stands.
        split_tags(value.to_str().unwrap_or_default(), &mut tags);
    }
    if tags.iter().any(|tag| tag == "*") {
        return Some(TagList::Any);
    }
    Some(TagList::Tags(tags))
}

/// Splits at commas outside quotes: an entity tag may hold one.
fn split_tags(list: &str, tags: &mut Vec<String>) {
    let mut quoted = false;
    let parts = list.split(|c: char| {
        quoted ^= c == '"';
        c == ',' && !quoted
    });
    tags.extend(parts.map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned));
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;
    use std::time::Duration;

    fn of(pairs: &[(HeaderName, &str)]) -> Conditions {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        conditions(&headers)
    }

    #[test]
    fn tags_are_kept_verbatim() {
        let read = of(&[(IF_MATCH, "\"a,b-2\", W/\"c\" ,bare"), (IF_NONE_MATCH, "*")]);
        let tags = ["\"a,b-2\"", "W/\"c\"", "bare"].map(str::to_owned).to_vec();
        assert_eq!(read.if_match, Some(TagList::Tags(tags)));
        assert_eq!(read.if_none_match, Some(TagList::Any));
    }

    #[test]
    fn all_three_date_formats_name_the_same_second() {
        let second = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(of(&[(IF_MODIFIED_SINCE, text)]).if_modified_since, Some(second), "{text}");
        }
        assert_eq!(of(&[(IF_UNMODIFIED_SINCE, "yesterday")]).if_unmodified_since, None);
    }

    #[test]
    fn a_condition_without_a_readable_tag_is_still_a_condition() {
        assert_eq!(of(&[(IF_MATCH, "")]).if_match, Some(TagList::Tags(vec![])));
        assert_eq!(of(&[]), Conditions::default());
    }

    proptest! {
        #[test]
        fn no_header_makes_the_parser_panic(value in "(\"|,|\\*|W/|[ -~]){0,40}") {
            let _ = of(&[(IF_MATCH, &value), (IF_MODIFIED_SINCE, &value), (IF_RANGE, &value)]);
        }
    }
}
