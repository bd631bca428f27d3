//! Which objects exist, and what they are made of.
//!
//! Pattern sets are declared, not stored; an entry is made only for a key that was written,
//! overwritten or deleted, and from then on alone decides. Knows nothing of HTTP.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};

use super::config::{PatternSet, last_modified};
use crate::pattern::Pattern;

/// Tells a reader which version of a pattern object it got.
pub(super) const VERSION_HEADER: &str = "x-amz-meta-pattern-version";

/// One version of one object.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) etag: Arc<str>,
    pub(super) size_bytes: u64,
    pub(super) last_modified: SystemTime,
    pub(super) headers: Arc<HeaderMap>,
    pub(super) source: Source,
}

/// Where an object's bytes come from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Pattern(Pattern),
    Stored(Arc<Held>),
}

/// Bytes that count against the limit of what is kept in memory for as long as they live.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) bytes: Bytes,
    budget: Arc<Budget>,
}

/// The limit of what is kept in memory.
#[derive(Debug)]
pub(super) struct Budget {
    left_bytes: AtomicU64,
}

/// All buckets.
#[derive(Debug, Default)]
pub(super) struct Objects {
    buckets: BTreeMap<String, Bucket>,
}

#[derive(Debug, Default)]
struct Bucket {
    sets: Vec<PatternSet>,
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    /// Survives writes and deletes, so that no version number is ever used twice.
    pattern_version: u64,
    pattern_size_bytes: u64,
    live: Option<Object>,
}

impl Objects {
    pub(super) fn create_bucket(&mut self, bucket: &str) -> bool {
        let is_new = !self.buckets.contains_key(bucket);
        self.buckets.entry(bucket.into()).or_default();
        is_new
    }

    pub(super) fn has_bucket(&self, bucket: &str) -> bool {
        self.buckets.contains_key(bucket)
    }

    pub(super) fn bucket_names(&self) -> impl Iterator<Item = &str> {
        self.buckets.keys().map(String::as_str)
    }

    pub(super) fn declare(&mut self, set: PatternSet) {
        self.buckets.entry(set.bucket.clone()).or_default().sets.push(set);
    }

    pub(super) fn find(&self, bucket: &str, key: &str) -> Option<Object> {
        let contents = self.buckets.get(bucket)?;
        match contents.entries.get(key) {
            Some(entry) => entry.live.clone(),
            None => Some(Object::pattern(bucket, key, 1, contents.declared_size_bytes(key)?)),
        }
    }

    /// Makes `key` a pattern object of this size: the next version, if it ever was one.
    pub(super) fn put_pattern(&mut self, bucket: &str, key: &str, size_bytes: u64) -> u64 {
        let entry = self.buckets.entry(bucket.into()).or_default().entry(key);
        entry.pattern_version += 1;
        entry.pattern_size_bytes = size_bytes;
        let version = entry.pattern_version;
        entry.live = Some(Object::pattern(bucket, key, version, size_bytes));
        version
    }

    /// The next version of a key that is, or was before a write or delete, a pattern object.
    pub(super) fn overwrite(&mut self, bucket: &str, key: &str) -> Option<u64> {
        let contents = self.buckets.get(bucket)?;
        let size_bytes = match contents.entries.get(key) {
            Some(entry) if entry.pattern_version > 0 => entry.pattern_size_bytes,
            _ => contents.declared_size_bytes(key)?,
        };
        Some(self.put_pattern(bucket, key, size_bytes))
    }

    pub(super) fn put(&mut self, bucket: &str, key: &str, object: Object) {
        self.buckets.entry(bucket.into()).or_default().entry(key).live = Some(object);
    }

    pub(super) fn delete(&mut self, bucket: &str, key: &str) {
        if let Some(contents) = self.buckets.get_mut(bucket) {
            contents.entry(key).live = None;
        }
    }

    /// The first key within `from` and its object, in the order of the keys' bytes.
    pub(super) fn next(&self, bucket: &str, from: &Bound<String>) -> Option<(String, Object)> {
        let contents = self.buckets.get(bucket)?;
        let bounds = (from.as_ref().map(String::as_str), Bound::Unbounded);
        let entry = contents
            .entries
            .range::<str, _>(bounds)
            .find_map(|(key, entry)| Some((key.clone(), entry.live.clone()?)));
        let declared = contents.sets.iter().filter_map(|set| contents.next_declared(set, from));
        let declared = declared.min_by(|one, two| one.0.cmp(&two.0));
        match (entry, declared) {
            (Some(entry), Some((key, _))) if entry.0 <= key => Some(entry),
            (_, Some((key, size))) => {
                let object = Object::pattern(bucket, &key, 1, size);
                Some((key, object))
            }
            (entry, None) => entry,
        }
    }
}

impl Bucket {
    fn declared_size_bytes(&self, key: &str) -> Option<u64> {
        self.sets.iter().find_map(|set| Some(set.size_bytes(set.index_of(key)?)))
    }

    fn entry(&mut self, key: &str) -> &mut Entry {
        let declared = self.declared_size_bytes(key);
        self.entries.entry(key.into()).or_insert_with(|| Entry {
            pattern_version: u64::from(declared.is_some()),
            pattern_size_bytes: declared.unwrap_or(0),
            live: None,
        })
    }

    fn next_declared(&self, set: &PatternSet, from: &Bound<String>) -> Option<(String, u64)> {
        let first = match from {
            Bound::Included(bound) => set.first_where(|key| key >= bound.as_str()),
            Bound::Excluded(bound) => set.first_where(|key| key > bound.as_str()),
            Bound::Unbounded => set.first_where(|_| true),
        };
        (first?..set.count)
            .map(|index| (set.key(index), set.size_bytes(index)))
            .find(|(key, _)| !self.entries.contains_key(key))
    }
}

impl Object {
    fn pattern(bucket: &str, key: &str, version: u64, size_bytes: u64) -> Self {
        let pattern = Pattern::new(bucket, key, version);
        let mut headers = HeaderMap::new();
        headers.insert(VERSION_HEADER, HeaderValue::from(version));
        Self {
            etag: pattern.etag().into(),
            size_bytes,
            last_modified: last_modified(version),
            headers: Arc::new(headers),
            source: Source::Pattern(pattern),
        }
    }
}

impl Budget {
    pub(super) fn new(limit_bytes: u64) -> Arc<Self> {
        Arc::new(Self { left_bytes: AtomicU64::new(limit_bytes) })
    }

    /// Keeps `bytes`, unless that would exceed the limit.
    pub(super) fn hold(self: &Arc<Self>, bytes: Bytes) -> Option<Arc<Held>> {
        let size_bytes = bytes.len() as u64;
        self.left_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(size_bytes))
            .ok()?;
        Some(Arc::new(Held { bytes, budget: Arc::clone(self) }))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.left_bytes.fetch_add(self.bytes.len() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(objects: &Objects) -> Vec<String> {
        let mut from = Bound::Unbounded;
        let mut keys = Vec::new();
        while let Some((key, _)) = objects.next("b", &from) {
            keys.push(key.clone());
            from = Bound::Excluded(key);
        }
        keys
    }

    #[test]
    fn a_listing_merges_sets_and_entries_in_order_without_the_deleted() {
        let mut objects = Objects::default();
        objects.declare(PatternSet::new("b", "m/", 3, 10));
        objects.declare(PatternSet::new("b", "a/", 2, 10));
        objects.put_pattern("b", "m/00000001x", 5);
        objects.put_pattern("b", "z", 5);
        objects.delete("b", "m/00000000");
        assert_eq!(
            keys(&objects),
            ["a/00000000", "a/00000001", "m/00000001", "m/00000001x", "m/00000002", "z"]
        );
    }

    #[test]
    fn a_version_number_is_never_used_twice() {
        let mut objects = Objects::default();
        objects.declare(PatternSet::new("b", "", 1, 10));
        assert_eq!(objects.overwrite("b", "00000000"), Some(2));
        objects.delete("b", "00000000");
        assert!(objects.find("b", "00000000").is_none());
        assert_eq!(objects.overwrite("b", "00000000"), Some(3));
        assert_eq!(objects.find("b", "00000000").unwrap().size_bytes, 10);
        assert_eq!(objects.overwrite("b", "never-declared"), None);
    }

    #[test]
    fn bytes_beyond_the_limit_are_refused_and_freed_ones_can_be_used_again() {
        let budget = Budget::new(10);
        let held = budget.hold(Bytes::from_static(b"12345678")).unwrap();
        assert!(budget.hold(Bytes::from_static(b"123")).is_none());
        drop(held);
        assert!(budget.hold(Bytes::from_static(b"1234567890")).is_some());
    }
}
