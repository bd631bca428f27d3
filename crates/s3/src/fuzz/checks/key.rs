//! A key is the decoded path, never normalised, and the same again when it is written down.

use http::header::HOST;
use http::request::Parts;
use http::{HeaderValue, Request};

use crate::address::{Address, Domains};
use crate::copy_source::CopySource;

/// Checks a text as the path of a request, and as the source of a copy.
pub(crate) fn check(text: &str) {
    check_path(text);
    check_copy_source(text);
}

fn check_path(text: &str) {
    // hyper hands on only what is a path to it.
    let target = format!("/{}", text.trim_start_matches('/'));
    let Ok(request) = Request::get(target).body(()) else { return };
    let (mut parts, ()) = request.into_parts();
    let path = decoded(&parts.uri.path()[1..]);
    let by_path = parsed(&parts);
    assert_eq!(by_path.as_ref().map(named), path.as_deref().and_then(split));
    if let Some(address) = by_path {
        let (mut again, ()) = Request::new(()).into_parts();
        again.uri = address.path().parse().expect("a path");
        assert_eq!(parsed(&again), Some(address));
    }

    parts.headers.insert(HOST, HeaderValue::from_static("bucket.s3.test"));
    let key = path.filter(|key| key.len() <= 1024);
    assert_eq!(parsed(&parts).as_ref().map(named), key.map(|key| ("bucket".to_owned(), key)));
}

fn check_copy_source(value: &str) {
    let Ok(source) = CopySource::parse(value) else { return };
    let path = value.split_once("?versionId=").map_or(value, |(path, _)| path);
    let path = decoded(path).expect("it was taken");
    let named = format!("{}/{}", source.bucket.as_str(), source.key.as_str());
    assert_eq!(path.strip_prefix('/').unwrap_or(&path), named);
    let header = source.to_header().expect("a header");
    assert_eq!(CopySource::parse(header.to_str().expect("text")).ok(), Some(source));
}

fn parsed(parts: &Parts) -> Option<Address> {
    Address::parse(parts, &Domains::new(["s3.test".to_owned()])).ok()
}

/// Bucket and key, empty where there is none.
fn named(address: &Address) -> (String, String) {
    match address {
        Address::Service => (String::new(), String::new()),
        Address::Bucket(bucket) => (bucket.to_string(), String::new()),
        Address::Object(bucket, key) => (bucket.to_string(), key.as_str().to_owned()),
    }
}

/// Bucket and key of a path without its first slash, if S3 could have such ones.
fn split(path: &str) -> Option<(String, String)> {
    let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
    let plain = |b: u8| b.is_ascii_alphanumeric() || b".-_".contains(&b);
    let nameable = (1..=255).contains(&bucket.len())
        && bucket.bytes().all(plain)
        && ![".", ".."].contains(&bucket)
        && key.len() <= 1024;
    (path.is_empty() || nameable).then(|| (bucket.to_owned(), key.to_owned()))
}

/// A text with its escapes undone once, if all of them are escapes and it is UTF-8 afterwards.
pub(crate) fn decoded(text: &str) -> Option<String> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let digits = piece.get(..2).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}
