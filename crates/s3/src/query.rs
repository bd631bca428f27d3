//! The query string, decoded once.
//!
//! A name may occur only once: with two values of `prefix`, what is authorized and what the
//! origin answers could be two different things.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::code::Code;
use crate::error::S3Error;

/// Parameters that a request may have; S3's own longest list is about 20.
const MAX_PARAMETERS: usize = 64;

/// What S3's URI encoding escapes: everything but RFC 3986's unreserved characters.
pub(crate) const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// [`ESCAPED`], but for paths, where a slash stays a slash.
pub(crate) const ESCAPED_IN_PATH: &AsciiSet = &ESCAPED.remove(b'/');

/// Decoded parameters in the order in which they came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<Parameter>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Parameter {
    name: String,
    /// `None` where there was no `=`: some servers tell `?acl` from `?acl=`.
    value: Option<String>,
}

impl Query {
    /// Decodes a raw query string.
    pub(crate) fn parse(raw: Option<&str>) -> Result<Self, S3Error> {
        let mut query = Self::default();
        for part in raw.unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
            let (name, value) = match part.split_once('=') {
                Some((name, value)) => (name, Some(decode(value)?)),
                None => (part, None),
            };
            let name = decode(name)?;
            if query.has(&name) {
                let why = format!("Query parameter {name:?} is repeated: send it once.");
                return Err(S3Error::new(Code::InvalidArgument, why));
            }
            query.0.push(Parameter { name, value });
            if query.0.len() > MAX_PARAMETERS {
                let why = format!("More than {MAX_PARAMETERS} query parameters.");
                return Err(S3Error::new(Code::InvalidArgument, why));
            }
        }
        Ok(query)
    }

    /// The value of a parameter; empty where it has none.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|parameter| parameter.name == name)?;
        Some(found.value.as_deref().unwrap_or_default())
    }

    /// Whether the parameter is there, with or without a value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|parameter| parameter.name == name)
    }

    /// Whether there is no parameter at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|parameter| parameter.name.as_str())
    }

    /// Takes out the parameters for which `wanted` says so.
    pub(crate) fn take(&mut self, wanted: impl Fn(&str) -> bool) -> Vec<(String, String)> {
        self.0
            .extract_if(.., |parameter| wanted(&parameter.name))
            .map(|parameter| (parameter.name, parameter.value.unwrap_or_default()))
            .collect()
    }

    /// Writes the parameters as a query string, each escaped as S3 does it.
    pub(crate) fn encode(&self) -> String {
        let mut out = String::new();
        for Parameter { name, value } in &self.0 {
            if !out.is_empty() {
                out.push('&');
            }
            out.extend(utf8_percent_encode(name, ESCAPED));
            if let Some(value) = value {
                out.push('=');
                out.extend(utf8_percent_encode(value, ESCAPED));
            }
        }
        out
    }

    /// Appends the query of a SigV4 canonical request.
    pub(crate) fn canonical(&self, out: &mut Vec<u8>) {
        if self.is_empty() {
            return;
        }
        let mut pairs: Vec<String> = Vec::with_capacity(self.0.len());
        for Parameter { name, value } in &self.0 {
            let value = value.as_deref().unwrap_or_default();
            let mut pair: String = utf8_percent_encode(name, ESCAPED).collect();
            pair.push('=');
            pair.extend(utf8_percent_encode(value, ESCAPED));
            pairs.push(pair);
        }
        // By name, as a name that is a prefix of another sorts first: '=' does not.
        pairs.sort_unstable_by(|a, b| name_of(a).cmp(name_of(b)));
        out.extend_from_slice(pairs.join("&").as_bytes());
    }
}

fn name_of(pair: &str) -> &str {
    pair.split_once('=').map_or(pair, |(name, _)| name)
}

/// In a query `+` is a space; in a path it is a plus.
fn decode(raw: &str) -> Result<String, S3Error> {
    if raw.contains('+') {
        return percent_decode(&raw.replace('+', " "));
    }
    percent_decode(raw)
}

/// Decodes escapes once; what is no escape or no UTF-8 is an error, never passed on.
pub(crate) fn percent_decode(raw: &str) -> Result<String, S3Error> {
    let bytes = raw.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'%', [high, low, tail @ ..]) => {
                decoded.push(hex_digit(*high)? << 4 | hex_digit(*low)?);
                tail
            }
            (b'%', _) => return Err(not_decodable()),
            (byte, tail) => {
                decoded.push(*byte);
                tail
            }
        };
    }
    String::from_utf8(decoded).map_err(|_| not_decodable())
}

fn hex_digit(digit: u8) -> Result<u8, S3Error> {
    char::from(digit).to_digit(16).map(|value| value as u8).ok_or_else(not_decodable)
}

fn not_decodable() -> S3Error {
    S3Error::new(Code::InvalidUri, "Couldn't parse the specified URI: escape UTF-8 as %XX.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(raw: &str) -> Query {
        Query::parse(Some(raw)).unwrap()
    }

    #[test]
    fn parameters_are_decoded_once() {
        let query = parse("prefix=a%2520b+c&acl&empty=");
        assert_eq!(query.get("prefix"), Some("a%20b c"));
        assert_eq!((query.get("acl"), query.get("empty")), (Some(""), Some("")));
        assert_eq!(query.encode(), "prefix=a%2520b%20c&acl&empty=");
    }

    #[test]
    fn a_repeated_parameter_is_refused() {
        for raw in ["prefix=a&prefix=b", "a&a", "prefix=a&pref%69x=b"] {
            assert!(Query::parse(Some(raw)).is_err(), "{raw}");
        }
    }

    #[test]
    fn canonical_queries_are_sorted_by_name() {
        let mut out = Vec::new();
        parse("b=2&a-b=1&a=3&uploads").canonical(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "a=3&a-b=1&b=2&uploads=");
    }

    proptest! {
        #[test]
        fn encoding_and_parsing_are_inverse(pairs in prop::collection::btree_map("\\PC{1,8}", "\\PC{0,8}", 0..6)) {
            let query = Query(pairs.into_iter().map(|(name, value)| Parameter { name, value: Some(value) }).collect());
            prop_assert_eq!(Query::parse(Some(&query.encode())).unwrap(), query);
        }

        #[test]
        fn no_query_makes_the_parser_panic(raw in "(%|&|=|\\+|[0-9a-f]|\\PC){0,40}") {
            if let Ok(query) = Query::parse(Some(&raw)) {
                query.canonical(&mut Vec::new());
            }
        }
    }
}
