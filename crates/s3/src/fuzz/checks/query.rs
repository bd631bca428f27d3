//! A query is what a form decoder reads, and the same again when it is written down.

use super::key::decoded;
use crate::query::Query;

/// Most parameters that are taken.
const MAX_PARAMETERS: usize = 64;

/// Checks a raw query string.
pub(crate) fn check(raw: &str) {
    let expected = meaning(raw).filter(|pairs| pairs.len() <= MAX_PARAMETERS);
    let Ok(query) = Query::parse(Some(raw)) else {
        assert_eq!(expected, None, "it should be taken");
        return;
    };
    let pair = |name: &str| (name.to_owned(), query.get(name).unwrap_or_default().to_owned());
    assert_eq!(Some(query.names().map(pair).collect::<Vec<_>>()), expected);

    let written = query.encode();
    assert!(written.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.~%&=".contains(&b)));
    let again = Query::parse(Some(&written));
    assert_eq!(again.as_ref().ok(), Some(&query));
    let canonical = |query: &Query| {
        let mut text = Vec::new();
        query.canonical(&mut text);
        text
    };
    assert_eq!(again.as_ref().map(canonical).ok(), Some(canonical(&query)));
}

/// Names and values as a form decoder reads them; `None` where one is no escaped UTF-8, or a
/// name comes twice.
fn meaning(raw: &str) -> Option<Vec<(String, String)>> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for part in raw.split('&') {
        if part.is_empty() {
            continue;
        }
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let name = decoded(&name.replace('+', " "))?;
        let value = decoded(&value.replace('+', " "))?;
        if pairs.iter().any(|(known, _)| *known == name) {
            return None;
        }
        pairs.push((name, value));
    }
    Some(pairs)
}
