//! What is asked for: an object, or part of one, perhaps of one version only.

use forebay_types::{BucketName, ETag, ObjectKey, RangeAsk};
use http::header::{IF_MATCH, IF_NONE_MATCH, InvalidHeaderValue, RANGE};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::ReadError;

/// What S3 leaves as it is in a path.
const PATH: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// An object's name, with the path under which every server has it.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) bucket: BucketName,
    pub(crate) key: ObjectKey,
    path: PathAndQuery,
}

impl Name {
    pub(crate) fn new(bucket: &str, key: &str) -> Result<Self, ReadError> {
        let (bucket, key) = (BucketName::new(bucket)?, ObjectKey::new(key)?);
        let path = format!("/{bucket}/{}", utf8_percent_encode(key.as_str(), PATH));
        let path = PathAndQuery::try_from(path)
            .map_err(|error| ReadError::Unavailable(format!("path cannot be written: {error}")))?;
        Ok(Self { bucket, key, path })
    }

    pub(crate) fn get(&self) -> Ask {
        Ask::new(Method::GET, self.path.clone())
    }

    pub(crate) fn head(&self) -> Ask {
        Ask::new(Method::HEAD, self.path.clone())
    }
}

/// A request without the server that it goes to.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) path: PathAndQuery,
    pub(crate) headers: HeaderMap,
    /// The range that its headers name.
    pub(crate) range: RangeAsk,
}

impl Ask {
    pub(crate) fn new(method: Method, path: PathAndQuery) -> Self {
        Self { method, path, headers: HeaderMap::new(), range: RangeAsk::Whole }
    }

    pub(crate) fn range(mut self, range: RangeAsk) -> Self {
        self.range = range;
        let range = match range {
            RangeAsk::Whole => return self,
            RangeAsk::FromTo { first, last } => format!("bytes={first}-{last}"),
            RangeAsk::From { first } => format!("bytes={first}-"),
            RangeAsk::Suffix { len } => format!("bytes=-{len}"),
        };
        self.insert(RANGE, &range)
    }

    pub(crate) fn if_match(self, etag: &ETag) -> Self {
        self.insert(IF_MATCH, etag.as_str())
    }

    pub(crate) fn if_none_match(self, etag: &str) -> Self {
        self.insert(IF_NONE_MATCH, etag)
    }

    /// Ranges are ASCII and tags came out of a header, so that nothing is ever left out.
    fn insert(mut self, name: HeaderName, value: &str) -> Self {
        let value: Result<HeaderValue, InvalidHeaderValue> = HeaderValue::from_str(value);
        if let Ok(value) = value {
            self.headers.insert(name, value);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sent_byte_for_byte() {
        for (key, path) in [
            ("a/../b", "/train/a/../b"),
            ("/lead//", "/train//lead//"),
            ("%2e +&?#", "/train/%252e%20%2B%26%3F%23"),
            ("\u{fc}\0", "/train/%C3%BC%00"),
        ] {
            assert_eq!(Name::new("train", key).unwrap().path, path);
        }
        assert!(matches!(Name::new("a/b", "k"), Err(ReadError::Name(_))));
    }

    #[test]
    fn a_range_is_said_as_http_says_it() {
        let said = |range| {
            let ask = Name::new("b", "k").unwrap().get().range(range);
            ask.headers.get(RANGE).map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(said(RangeAsk::Whole), None);
        assert_eq!(said(RangeAsk::FromTo { first: 0, last: 9 }).unwrap(), "bytes=0-9");
        assert_eq!(said(RangeAsk::From { first: 7 }).unwrap(), "bytes=7-");
        assert_eq!(said(RangeAsk::Suffix { len: 4 }).unwrap(), "bytes=-4");
    }
}
