//! The four conditional headers and If-Range, with AWS' precedence: If-Match beats
//! If-Unmodified-Since, If-None-Match beats If-Modified-Since.

use std::time::{Duration, SystemTime};

use http::header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE};
use http::{HeaderMap, HeaderName};

/// What a read's conditions say of the present version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Proceed,
    NotModified,
    Failed,
}

/// What conditions are held against; `None` where there is no object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Present<'a> {
    pub(super) etag: &'a str,
    pub(super) last_modified: SystemTime,
}

/// Judges a GET or HEAD.
pub(super) fn of_read(headers: &HeaderMap, present: Present<'_>) -> Verdict {
    let precondition = match text(headers, &IF_MATCH) {
        Some(tags) => lists(tags, present.etag),
        None => date(headers, &IF_UNMODIFIED_SINCE)
            .is_none_or(|since| whole_seconds(present.last_modified) <= since),
    };
    if !precondition {
        return Verdict::Failed;
    }
    let modified = match text(headers, &IF_NONE_MATCH) {
        Some(tags) => !lists(tags, present.etag),
        None => date(headers, &IF_MODIFIED_SINCE)
            .is_none_or(|since| whole_seconds(present.last_modified) > since),
    };
    if modified { Verdict::Proceed } else { Verdict::NotModified }
}

/// Whether a write may go on.
pub(super) fn allow_write(headers: &HeaderMap, present: Option<Present<'_>>) -> bool {
    let matches = |tags: &str| present.is_some_and(|p| lists(tags, p.etag));
    text(headers, &IF_MATCH).is_none_or(matches)
        && text(headers, &IF_NONE_MATCH).is_none_or(|tags| !matches(tags))
}

/// Whether If-Range, where it is sent, lets the Range header count.
pub(super) fn range_counts(headers: &HeaderMap, present: Present<'_>) -> bool {
    text(headers, &IF_RANGE).is_none_or(|value| {
        value == present.etag
            || httpdate::parse_http_date(value)
                .is_ok_and(|date| date == whole_seconds(present.last_modified))
    })
}

/// A copy of the headers without If-Match, for the fault that ignores it.
pub(super) fn without_if_match(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    headers.remove(IF_MATCH);
    headers
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(text(headers, name)?).ok()
}

fn lists(tags: &str, etag: &str) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").trim_matches('"').to_owned();
    tags.trim() == "*" || tags.split(',').any(|tag| opaque(tag) == opaque(etag))
}

/// HTTP dates have no fractions.
fn whole_seconds(at: SystemTime) -> SystemTime {
    let since_epoch = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since_epoch.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn verdict(pairs: &[(HeaderName, &str)]) -> Verdict {
        let headers = pairs.iter().map(|(n, v)| (n.clone(), v.parse().unwrap())).collect();
        let last_modified = SystemTime::UNIX_EPOCH + 20_000 * DAY;
        of_read(&headers, Present { etag: "\"aa\"", last_modified })
    }

    #[test]
    fn conditions_have_the_precedence_that_aws_documents() {
        let before = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + 19_999 * DAY);
        let after = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + 20_001 * DAY);
        let (im, inm) = (IF_MATCH, IF_NONE_MATCH);
        let (ims, ius) = (IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE);
        assert_eq!(verdict(&[(im.clone(), "\"bb\"")]), Verdict::Failed);
        assert_eq!(verdict(&[(im.clone(), "\"bb\", \"aa\"")]), Verdict::Proceed);
        assert_eq!(verdict(&[(im.clone(), "*")]), Verdict::Proceed);
        assert_eq!(verdict(&[(ius.clone(), &before)]), Verdict::Failed);
        assert_eq!(verdict(&[(im, "aa"), (ius, &before)]), Verdict::Proceed);
        assert_eq!(verdict(&[(inm.clone(), "\"aa\"")]), Verdict::NotModified);
        assert_eq!(verdict(&[(ims.clone(), &after)]), Verdict::NotModified);
        assert_eq!(verdict(&[(ims.clone(), &before)]), Verdict::Proceed);
        assert_eq!(verdict(&[(inm, "\"bb\""), (ims, &after)]), Verdict::Proceed);
    }
}
