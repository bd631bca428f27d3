//! Validated names. Whoever holds one of these need not check it again.

use std::fmt;
use std::sync::Arc;

/// Longest key that S3 accepts, in bytes of UTF-8.
pub const MAX_KEY_BYTES: usize = 1024;
/// Longest bucket name accepted here: S3 says 63, older regions allowed 255.
pub const MAX_BUCKET_BYTES: usize = 255;

/// A name that S3 would refuse, with the value and the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The bucket name has a character or a length that no S3 bucket can have.
    #[error("bucket name {0:?}: use 1 to 255 of a-z, A-Z, 0-9, '.', '-' and '_'")]
    Bucket(String),
    /// An empty key.
    #[error("object key is empty: name an object after the bucket")]
    EmptyKey,
    /// The key is longer than [`MAX_KEY_BYTES`].
    #[error("object key has {0} bytes: S3 allows {MAX_KEY_BYTES}")]
    LongKey(usize),
}

/// The name of a bucket.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BucketName(Arc<str>);

impl BucketName {
    /// Accepts what any S3 server accepts as a bucket name.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let length_ok = (1..=MAX_BUCKET_BYTES).contains(&name.len());
        let letters_ok =
            name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
        if length_ok && letters_ok && name != "." && name != ".." {
            return Ok(Self(name.into()));
        }
        Err(NameError::Bucket(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The key of an object: the percent-decoded path, byte for byte, never normalised.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey(Arc<str>);

impl ObjectKey {
    /// Accepts any UTF-8 of 1 to [`MAX_KEY_BYTES`] bytes, dots, slashes and controls included.
    pub fn new(key: &str) -> Result<Self, NameError> {
        match key.len() {
            0 => Err(NameError::EmptyKey),
            n if n > MAX_KEY_BYTES => Err(NameError::LongKey(n)),
            _ => Ok(Self(key.into())),
        }
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BucketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for BucketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys may hold line breaks and terminal escapes; a log line must not.
        self.0.escape_debug().fmt(f)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_kept_byte_for_byte() {
        for key in ["a/../b", "//", "/lead", "%2e%2e/", "a\0b", "sp ace+", "\u{1f600}"] {
            assert_eq!(ObjectKey::new(key).unwrap().as_str(), key);
        }
        assert_eq!(ObjectKey::new(""), Err(NameError::EmptyKey));
        assert!(ObjectKey::new(&"k".repeat(1024)).is_ok());
        assert_eq!(ObjectKey::new(&"k".repeat(1025)), Err(NameError::LongKey(1025)));
    }

    #[test]
    fn bucket_names_cannot_be_paths() {
        for bad in ["", ".", "..", "a/b", "a b", "a\n"] {
            assert!(BucketName::new(bad).is_err(), "{bad:?}");
        }
        assert!(BucketName::new("train-2026.v1_x").is_ok());
    }
}
