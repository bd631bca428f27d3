//! The canonical request: what both sides hash.

use std::borrow::Cow;

use http::request::Parts;
use percent_encoding::{percent_decode_str, percent_encode};

use super::authorization::Authorization;
use crate::query::{ESCAPED_IN_PATH, Query};

/// Everything that goes into a canonical request but its path.
pub(super) struct Request<'a> {
    pub(super) parts: &'a Parts,
    pub(super) query: &'a Query,
    pub(super) authorization: &'a Authorization<'a>,
    pub(super) payload_hash: &'a str,
}

impl Request<'_> {
    /// Writes the canonical request with `path` in it.
    pub(super) fn canonical(&self, path: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(1024);
        out.extend_from_slice(self.parts.method.as_str().as_bytes());
        out.push(b'\n');
        out.extend_from_slice(path.as_bytes());
        out.push(b'\n');
        self.query.canonical(&mut out);
        out.push(b'\n');
        for name in &self.authorization.signed_headers {
            out.extend_from_slice(name.as_bytes());
            out.push(b':');
            self.push_values(name, &mut out);
            out.push(b'\n');
        }
        out.push(b'\n');
        for (i, name) in self.authorization.signed_headers.iter().enumerate() {
            if i > 0 {
                out.push(b';');
            }
            out.extend_from_slice(name.as_bytes());
        }
        out.push(b'\n');
        out.extend_from_slice(self.payload_hash.as_bytes());
        out
    }

    fn push_values(&self, name: &str, out: &mut Vec<u8>) {
        for (i, value) in self.parts.headers.get_all(name).iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            push_trimmed(value.as_bytes(), out);
        }
    }
}

/// Appends a header value without outer blanks and with inner runs of them as one.
fn push_trimmed(value: &[u8], out: &mut Vec<u8>) {
    let words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    for (i, word) in words.enumerate() {
        if i > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(word);
    }
}

/// The canonical paths that a client may have signed, the likely one first: S3's single
/// encoding of the decoded path, and the path as it came, for clients that sign it unescaped.
///
/// Both decode to the same key, so accepting either lets nobody reach another object.
pub(super) fn paths(raw: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let canonical = canonical_path(raw);
    let as_it_came = (canonical != raw).then_some(Cow::Borrowed(raw));
    std::iter::once(canonical).chain(as_it_came)
}

fn canonical_path(raw: &str) -> Cow<'_, str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~' | b'/');
    if raw.bytes().all(plain) {
        return Cow::Borrowed(raw);
    }
    let decoded: Cow<'_, [u8]> = percent_decode_str(raw).into();
    Cow::Owned(percent_encode(&decoded, ESCAPED_IN_PATH).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_escaped_once_and_keeps_its_slashes() {
        for (raw, canonical) in [
            ("/b/k", "/b/k"),
            ("/b/a+b", "/b/a%2Bb"),
            ("/b/a%20b", "/b/a%20b"),
            ("/b/a%2fb", "/b/a/b"),
            ("/b//../c~", "/b//../c~"),
            ("/b/%25", "/b/%25"),
            ("/b/%c3%a9", "/b/%C3%A9"),
        ] {
            assert_eq!(canonical_path(raw), canonical, "{raw}");
        }
    }

    #[test]
    fn header_values_are_trimmed_and_folded() {
        let mut out = Vec::new();
        push_trimmed(b"  a   b\tc ", &mut out);
        assert_eq!(out, b"a b c");
    }
}
