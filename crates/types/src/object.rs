//! Object versions: cached bytes belong to a version of a key at one origin, never to a key.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use http::HeaderMap;

use crate::names::{BucketName, ObjectKey};
use crate::rule::RuleId;

/// An entity tag, byte-identical to what the origin sent: quotes and `-N` suffix included.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ETag(Arc<str>);

impl ETag {
    /// Keeps the header value as it came.
    pub fn new(value: &str) -> Self {
        Self(value.into())
    }

    /// The header value.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it names bytes, not merely an equivalent: only those may be cached under it.
    pub fn is_strong(&self) -> bool {
        !self.0.is_empty() && !self.0.starts_with("W/")
    }

    /// The tag without its quotes, for comparing with clients that omit them.
    pub fn opaque(&self) -> &str {
        self.0.trim_start_matches("W/").trim_matches('"')
    }
}

impl fmt::Debug for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What tells two versions of a key apart. Compared on every answer of the origin, because
/// some origins ignore `If-Match` and some keep an ETag through a copy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The strong entity tag.
    pub etag: ETag,
    /// Size of the whole object in bytes.
    pub size: u64,
    /// Last-Modified, verbatim.
    pub last_modified: Arc<str>,
    /// The version id, where the origin keeps versions.
    pub version_id: Option<Arc<str>>,
}

/// A key at one origin: what a request names before it is known which version that is.
///
/// A request with `versionId` names something else than one without: the pair is the identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectName {
    /// The origin.
    pub rule: RuleId,
    /// The bucket.
    pub bucket: BucketName,
    /// The key.
    pub key: ObjectKey,
    /// The `versionId` that the request named, if it did.
    pub version_id: Option<Arc<str>>,
}

impl ObjectName {
    /// The version of this name that carries `stamp`.
    pub fn at(&self, stamp: Stamp) -> ObjectId {
        ObjectId::new(self.rule, self.bucket.clone(), self.key.clone(), stamp)
    }

    /// The name in a canonical, self-delimiting form, for hashing.
    pub fn canonical(&self) -> Vec<u8> {
        let mut out = self.rule.0.to_le_bytes().to_vec();
        push_text(&mut out, self.bucket.as_str());
        push_text(&mut out, self.key.as_str());
        if let Some(version_id) = &self.version_id {
            push_text(&mut out, version_id);
        }
        out
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.key)
    }
}

/// One version of one key at one origin. Cheap to clone.
#[derive(Clone)]
pub struct ObjectId(Arc<Inner>);

struct Inner {
    rule: RuleId,
    bucket: BucketName,
    key: ObjectKey,
    stamp: Stamp,
    canonical: Box<[u8]>,
}

impl ObjectId {
    /// Names a version.
    pub fn new(rule: RuleId, bucket: BucketName, key: ObjectKey, stamp: Stamp) -> Self {
        let canonical = canonical(rule, &bucket, &key, &stamp);
        Self(Arc::new(Inner { rule, bucket, key, stamp, canonical }))
    }

    /// The origin it came from.
    pub fn rule(&self) -> RuleId {
        self.0.rule
    }

    /// Reads what [`ObjectId::canonical`] wrote; `None` where it is something else.
    pub fn parse(canonical: &[u8]) -> Option<Self> {
        let mut rest = canonical;
        let rule = RuleId(take_u64(&mut rest)?);
        let size = take_u64(&mut rest)?;
        let bucket = BucketName::new(take_text(&mut rest)?).ok()?;
        let key = ObjectKey::new(take_text(&mut rest)?).ok()?;
        let etag = ETag::new(take_text(&mut rest)?);
        let last_modified = take_text(&mut rest)?.into();
        let version_id = match rest.split_off_first()? {
            0 => None,
            1 => Some(take_text(&mut rest)?.into()),
            _ => return None,
        };
        let stamp = Stamp { etag, size, last_modified, version_id };
        rest.is_empty().then(|| Self::new(rule, bucket, key, stamp))
    }

    /// Its bucket.
    pub fn bucket(&self) -> &BucketName {
        &self.0.bucket
    }

    /// Its key.
    pub fn key(&self) -> &ObjectKey {
        &self.0.key
    }

    /// What tells it from other versions of the key.
    pub fn stamp(&self) -> &Stamp {
        &self.0.stamp
    }

    /// Size of the whole object in bytes.
    pub fn size(&self) -> u64 {
        self.0.stamp.size
    }

    /// The full name in a canonical, self-delimiting form: what hashes are taken of, and what
    /// an extent's header stores to be compared on every read.
    pub fn canonical(&self) -> &[u8] {
        &self.0.canonical
    }
}

impl PartialEq for ObjectId {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.canonical == other.0.canonical
    }
}

impl Eq for ObjectId {}

impl Hash for ObjectId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.canonical.hash(state);
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{} {}", self.bucket(), self.key(), self.stamp().etag.as_str())
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What the origin says about a version: its stamp, and the headers that every GET and HEAD
/// of it returns (Content-Type, `x-amz-meta-*`, Cache-Control, ...), verbatim.
///
/// `headers` holds no hop-by-hop header, no Content-Length, Content-Range, Date, request id
/// or `x-amz-checksum-*`.
#[derive(Debug, Clone)]
pub struct ObjectHead {
    /// What tells the version apart.
    pub stamp: Stamp,
    /// Headers of the object, ETag and Last-Modified among them.
    pub headers: HeaderMap,
}

fn canonical(rule: RuleId, bucket: &BucketName, key: &ObjectKey, stamp: &Stamp) -> Box<[u8]> {
    let Stamp { etag, size, last_modified, version_id } = stamp;
    let mut out = Vec::with_capacity(160 + key.as_str().len());
    out.extend_from_slice(&rule.0.to_le_bytes());
    out.extend_from_slice(&size.to_le_bytes());
    for text in [bucket.as_str(), key.as_str(), etag.as_str(), last_modified] {
        push_text(&mut out, text);
    }
    match version_id {
        None => out.push(0),
        Some(id) => {
            out.push(1);
            push_text(&mut out, id);
        }
    }
    out.into_boxed_slice()
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn take_u64(rest: &mut &[u8]) -> Option<u64> {
    let (number, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u64::from_le_bytes(*number))
}

fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let (len, after) = rest.split_first_chunk()?;
    let (text, after) = after.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *rest = after;
    std::str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_canonical_form_is_read_back(
            key in "\\PC{1,40}", etag in "\\PC{0,20}", size: u64, version in proptest::option::of("\\PC{0,9}")
        ) {
            let stamp = Stamp {
                etag: ETag::new(&etag),
                size,
                last_modified: "now".into(),
                version_id: version.map(Into::into),
            };
            let (bucket, key) = (BucketName::new("train").unwrap(), ObjectKey::new(&key).unwrap());
            let id = ObjectId::new(RuleId(7), bucket, key, stamp);
            let read = ObjectId::parse(id.canonical()).unwrap();
            prop_assert_eq!(read.stamp(), id.stamp());
            prop_assert_eq!(read, id);
        }

        #[test]
        fn what_is_no_canonical_form_is_refused(
            bytes: Vec<u8>, at: prop::sample::Index, to: u8, end: prop::sample::Index
        ) {
            let mut changed = id("train", "a/b", "\"1\"").canonical().to_vec();
            let at = at.index(changed.len());
            changed[at] = to;
            let cut = &changed[..end.index(changed.len())];
            for bytes in [&bytes[..], &changed[..], cut] {
                if let Some(id) = ObjectId::parse(bytes) {
                    prop_assert_eq!(id.canonical(), bytes);
                }
            }
        }
    }

    fn id(bucket: &str, key: &str, etag: &str) -> ObjectId {
        let stamp =
            Stamp { etag: ETag::new(etag), size: 1, last_modified: "now".into(), version_id: None };
        let bucket = BucketName::new(bucket).unwrap();
        ObjectId::new(RuleId(1), bucket, ObjectKey::new(key).unwrap(), stamp)
    }

    #[test]
    fn no_two_names_share_a_canonical_form() {
        let names = [id("a", "bc", "e"), id("ab", "c", "e"), id("a", "b", "ce"), id("a", "b", "c")];
        for (i, one) in names.iter().enumerate() {
            for two in &names[i + 1..] {
                assert_ne!(one.canonical(), two.canonical(), "{one} {two}");
            }
        }
    }

    #[test]
    fn weak_tags_are_not_strong() {
        assert!(ETag::new("\"d41d8-2\"").is_strong());
        assert!(!ETag::new("W/\"x\"").is_strong());
        assert!(!ETag::new("").is_strong());
        assert_eq!(ETag::new("\"x\"").opaque(), "x");
    }
}
