//! The `x-amz-copy-source` header: the object that a copy reads.

use forebay_types::{BucketName, ObjectKey};
use http::{HeaderMap, HeaderValue};
use percent_encoding::utf8_percent_encode;

use crate::code::Code;
use crate::error::S3Error;
use crate::query::{ESCAPED, ESCAPED_IN_PATH, percent_decode};

/// The header's name.
pub(crate) const COPY_SOURCE: &str = "x-amz-copy-source";

/// An object to copy from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CopySource {
    pub(crate) bucket: BucketName,
    pub(crate) key: ObjectKey,
    version_id: Option<String>,
}

impl CopySource {
    /// The source that the headers name, if they do.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Self>, S3Error> {
        let Some(value) = headers.get(COPY_SOURCE) else { return Ok(None) };
        let value = value.to_str().map_err(|_| unreadable("it is not text"))?;
        Self::parse(value).map(Some)
    }

    /// Reads `[/]bucket/key[?versionId=id]`, percent-encoded. An access point's ARN is refused:
    /// which bucket it stands for only its owner knows.
    pub(crate) fn parse(value: &str) -> Result<Self, S3Error> {
        let (path, version_id) = match value.split_once("?versionId=") {
            Some((path, id)) => (path, Some(percent_decode(id)?)),
            None => (value, None),
        };
        let path = percent_decode(path)?;
        let path = path.strip_prefix('/').unwrap_or(&path);
        let (bucket, key) =
            path.split_once('/').ok_or_else(|| unreadable("it names no bucket and key"))?;
        if bucket.starts_with("arn:") {
            return Err(unreadable("ARNs are not supported: name bucket and key"));
        }
        Ok(Self { bucket: BucketName::new(bucket)?, key: ObjectKey::new(key)?, version_id })
    }

    /// The header as an origin gets it: escaped anew, so that nobody can read another name in
    /// it than the one that was authorized.
    pub(crate) fn to_header(&self) -> Result<HeaderValue, S3Error> {
        let key = utf8_percent_encode(self.key.as_str(), ESCAPED_IN_PATH);
        let text = match &self.version_id {
            None => format!("/{}/{key}", self.bucket),
            Some(id) => {
                format!("/{}/{key}?versionId={}", self.bucket, utf8_percent_encode(id, ESCAPED))
            }
        };
        HeaderValue::from_str(&text).map_err(|_| unreadable("it cannot be a header"))
    }
}

fn unreadable(why: &str) -> S3Error {
    S3Error::new(
        Code::InvalidArgument,
        format!("Copy Source must mention the source bucket and key: {why}."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_the_same_with_and_without_its_first_slash() {
        let parsed = CopySource::parse("b/a%2Bb/%E2%98%83+c").unwrap();
        assert_eq!((parsed.bucket.as_str(), parsed.key.as_str()), ("b", "a+b/\u{2603}+c"));
        assert_eq!(CopySource::parse("/b/a%2Bb/%E2%98%83+c"), Ok(parsed.clone()));
        assert_eq!(parsed.to_header().unwrap(), "/b/a%2Bb/%E2%98%83%2Bc");
    }

    #[test]
    fn a_source_that_cannot_be_authorized_is_refused() {
        for value in ["", "b", "/b", "b/", "arn:aws:s3:us-east-1:1:accesspoint/x/object/k", "b/%zz"]
        {
            assert!(CopySource::parse(value).is_err(), "{value}");
        }
    }

    #[test]
    fn what_is_authorized_is_what_the_origin_reads() {
        for value in ["/b/k?versionId=a%26b", "b/k%3FversionId=x", "b/k?versionId=x?versionId=y"] {
            let parsed = CopySource::parse(value).unwrap();
            let header = parsed.to_header().unwrap();
            assert_eq!(CopySource::parse(header.to_str().unwrap()), Ok(parsed), "{value}");
        }
    }
}
