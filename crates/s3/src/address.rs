//! Which bucket and key a request names: path style, or `bucket.<base domain>`.
//!
//! The key is the path decoded once, byte for byte: `..`, `//`, `+` and a leading slash are
//! part of it. Nothing here normalises.

use forebay_types::{BucketName, ObjectKey};
use http::request::Parts;
use http::{HeaderMap, header};
use percent_encoding::utf8_percent_encode;

use crate::error::S3Error;
use crate::query::{ESCAPED_IN_PATH, percent_decode};

/// The domains under which a bucket may be the first label of the host.
#[derive(Debug, Clone, Default)]
pub struct Domains(Vec<String>);

impl Domains {
    /// Base domains without a port, such as `s3.cluster.local`. The longest that fits wins.
    pub fn new(domains: impl IntoIterator<Item = String>) -> Self {
        let mut domains: Vec<String> = domains
            .into_iter()
            .map(|domain| domain.trim_matches('.').to_ascii_lowercase())
            .filter(|domain| !domain.is_empty())
            .collect();
        domains.sort_by_key(|domain| std::cmp::Reverse(domain.len()));
        Self(domains)
    }

    /// The bucket that a Host header names, if it is one label or more below a base domain.
    pub(crate) fn bucket_of(&self, host: &str) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
            _ => host,
        };
        let name = name.to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        let within = |domain: &String| name.strip_suffix(domain.as_str());
        // The base domain itself is path style, however short another domain would fit it.
        let below = self.0.iter().find_map(within)?;
        below.strip_suffix('.').filter(|bucket| !bucket.is_empty()).map(str::to_owned)
    }
}

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// The endpoint itself: ListBuckets.
    Service,
    /// A bucket.
    Bucket(BucketName),
    /// An object.
    Object(BucketName, ObjectKey),
}

impl Address {
    /// Reads the Host header and the raw path.
    pub(crate) fn parse(parts: &Parts, domains: &Domains) -> Result<Self, S3Error> {
        let path = percent_decode(parts.uri.path())?;
        let path = path.strip_prefix('/').unwrap_or(&path);
        match host(&parts.headers).and_then(|host| domains.bucket_of(host)) {
            Some(bucket) => Self::of(&bucket, path),
            None if path.is_empty() => Ok(Self::Service),
            None => {
                let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
                Self::of(bucket, key)
            }
        }
    }

    fn of(bucket: &str, key: &str) -> Result<Self, S3Error> {
        let bucket = BucketName::new(bucket)?;
        if key.is_empty() {
            return Ok(Self::Bucket(bucket));
        }
        Ok(Self::Object(bucket, ObjectKey::new(key)?))
    }

    /// The bucket, unless the request is about the endpoint.
    pub(crate) fn bucket(&self) -> Option<&BucketName> {
        match self {
            Self::Service => None,
            Self::Bucket(bucket) | Self::Object(bucket, _) => Some(bucket),
        }
    }

    /// The path-style path, escaped anew: what an origin is asked for.
    pub(crate) fn path(&self) -> String {
        match self {
            Self::Service => "/".to_owned(),
            Self::Bucket(bucket) => format!("/{bucket}"),
            Self::Object(bucket, key) => {
                format!("/{bucket}/{}", utf8_percent_encode(key.as_str(), ESCAPED_IN_PATH))
            }
        }
    }
}

/// The Host header as text.
pub(crate) fn host(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::HOST)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;
    use proptest::prelude::*;

    fn parse(host: &str, path: &str) -> Result<Address, S3Error> {
        let request = Request::get(path).header("host", host).body(()).unwrap();
        Address::parse(&request.into_parts().0, &Domains::new(["s3.local".to_owned()]))
    }

    fn object(bucket: &str, key: &str) -> Address {
        Address::Object(BucketName::new(bucket).unwrap(), ObjectKey::new(key).unwrap())
    }

    #[test]
    fn keys_are_the_decoded_path_and_never_normalised() {
        for (path, key) in [
            ("/b/a/../b", "a/../b"),
            ("/b//", "/"),
            ("/b//a//b/", "/a//b/"),
            ("/b/%2e%2e/x", "../x"),
            ("/b/a%2Fb", "a/b"),
            ("/b/a%252Fb", "a%2Fb"),
            ("/b/a+b", "a+b"),
            ("/b/a%20b", "a b"),
            ("/b/%F0%9F%98%80", "\u{1f600}"),
            ("/b/a%00b", "a\0b"),
            ("/b/.", "."),
            ("/b/a?x=/y", "a"),
        ] {
            assert_eq!(parse("127.0.0.1:9000", path), Ok(object("b", key)), "{path}");
        }
    }

    #[test]
    fn paths_that_name_nothing_are_refused() {
        for path in
            ["//key", "/../key", "/b%2Fc%2f..%00/..", "/b/%zz", "/b/%", "/b/%FF", "/a%20b/k"]
        {
            let parsed = parse("127.0.0.1", path);
            assert!(parsed.is_err() || parsed == Ok(object("b", "c/..\0/..")), "{path} {parsed:?}");
        }
        let long = format!("/b/{}", "k".repeat(1025));
        assert_eq!(parse("h", &long).unwrap_err().code(), "KeyTooLongError");
    }

    #[test]
    fn a_host_below_a_base_domain_names_the_bucket() {
        assert_eq!(parse("b.s3.local:9000", "/a//b"), Ok(object("b", "a//b")));
        assert_eq!(parse("B.S3.Local", "/k"), Ok(object("b", "k")));
        assert_eq!(parse("a.b.s3.local", "//k"), Ok(object("a.b", "/k")));
        assert_eq!(parse("s3.local:9000", "/b/k"), Ok(object("b", "k")));
        assert_eq!(parse("nots3.local", "/b/k"), Ok(object("b", "k")));
        assert_eq!(parse("other.example", "/"), Ok(Address::Service));
        let bucket = Address::Bucket(BucketName::new("b").unwrap());
        assert_eq!(parse("b.s3.local", "/"), Ok(bucket.clone()));
        assert_eq!(parse("h", "/b"), Ok(bucket.clone()));
        assert_eq!(parse("h", "/b/"), Ok(bucket));
    }

    proptest! {
        #[test]
        fn any_key_survives_the_way_to_the_origin(key in "\\PC{1,40}") {
            let address = object("b", &key);
            prop_assert_eq!(parse("h", &address.path()), Ok(address));
        }

        #[test]
        fn no_path_makes_the_parser_panic(path in "/(%|/|\\.|\\+|[0-9A-Fa-f]{2}|[a-z]){0,30}") {
            let _ = parse("b.s3.local", &path);
            let _ = parse("h", &path);
        }
    }
}
