//! Conditional headers held against a version, in the order of RFC 9110 section 13.2.2.

use forebay_types::{ETag, RangeAsk, Stamp};

use crate::ask::{Conditions, TagList};

/// What the conditions say of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Proceed,
    NotModified,
    PreconditionFailed,
}

impl Conditions {
    /// A tag beats a date: If-Match hides If-Unmodified-Since, and If-None-Match hides
    /// If-Modified-Since, whether or not they match.
    pub(crate) fn verdict(&self, stamp: &Stamp) -> Verdict {
        let modified = httpdate::parse_http_date(&stamp.last_modified).ok();
        let stands = match (&self.if_match, self.if_unmodified_since) {
            (Some(tags), _) => tags.has(&stamp.etag),
            (None, Some(since)) => modified.is_none_or(|at| at <= since),
            (None, None) => true,
        };
        if !stands {
            return Verdict::PreconditionFailed;
        }
        let known_to_reader = match (&self.if_none_match, self.if_modified_since) {
            (Some(tags), _) => tags.has(&stamp.etag),
            (None, Some(since)) => modified.is_some_and(|at| at <= since),
            (None, None) => false,
        };
        if known_to_reader { Verdict::NotModified } else { Verdict::Proceed }
    }

    /// The range that holds under If-Range: all of the object where the tag is another one.
    pub(crate) fn range(&self, asked: RangeAsk, stamp: &Stamp) -> RangeAsk {
        match &self.if_range {
            Some(tag) if tag.trim_matches('"') != stamp.etag.opaque() => RangeAsk::Whole,
            _ => asked,
        }
    }
}

impl TagList {
    /// S3 clients send tags with and without quotes; S3 takes both.
    fn has(&self, etag: &ETag) -> bool {
        match self {
            Self::Any => true,
            Self::Tags(tags) => tags
                .iter()
                .any(|tag| tag.trim_start_matches("W/").trim_matches('"') == etag.opaque()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    fn stamp() -> Stamp {
        Stamp {
            etag: ETag::new("\"abc-2\""),
            size: 9,
            last_modified: "Sun, 06 Nov 1994 08:49:37 GMT".into(),
            version_id: None,
        }
    }

    fn modified() -> SystemTime {
        httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap()
    }

    fn tags(tag: &str) -> TagList {
        TagList::Tags(vec![tag.into()])
    }

    #[test]
    fn if_match_beats_if_unmodified_since() {
        let long_ago = Some(modified() - Duration::from_secs(1));
        let matching = Conditions {
            if_match: Some(tags("abc-2")),
            if_unmodified_since: long_ago,
            ..Default::default()
        };
        assert_eq!(matching.verdict(&stamp()), Verdict::Proceed);
        let other = Conditions { if_match: Some(tags("\"x\"")), ..matching };
        assert_eq!(other.verdict(&stamp()), Verdict::PreconditionFailed);
        let dated = Conditions { if_unmodified_since: long_ago, ..Default::default() };
        assert_eq!(dated.verdict(&stamp()), Verdict::PreconditionFailed);
    }

    #[test]
    fn if_none_match_beats_if_modified_since() {
        let same_time = Some(modified());
        let other = Conditions {
            if_none_match: Some(tags("\"x\"")),
            if_modified_since: same_time,
            ..Default::default()
        };
        assert_eq!(other.verdict(&stamp()), Verdict::Proceed);
        let any = Conditions { if_none_match: Some(TagList::Any), ..Default::default() };
        assert_eq!(any.verdict(&stamp()), Verdict::NotModified);
        let dated = Conditions { if_modified_since: same_time, ..Default::default() };
        assert_eq!(dated.verdict(&stamp()), Verdict::NotModified);
    }

    #[test]
    fn if_range_of_another_version_asks_for_the_whole_object() {
        let part = RangeAsk::FromTo { first: 1, last: 2 };
        let of = |tag: &str| Conditions { if_range: Some(tag.into()), ..Default::default() };
        assert_eq!(of("\"abc-2\"").range(part, &stamp()), part);
        assert_eq!(of("\"old\"").range(part, &stamp()), RangeAsk::Whole);
    }
}
