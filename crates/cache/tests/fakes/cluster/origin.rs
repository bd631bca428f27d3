//! The origin that a cluster shares: every version that a key has had, and how often each page
//! of each version was fetched.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use forebay_cache::OriginFailure;
use forebay_types::{ByteRange, ObjectHead, PAGE_BYTES};
use parking_lot::Mutex;

use super::super::{head_of, no_such_key};

/// A key as it was from `at` on.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    pub at: Duration,
    /// `None` where it was deleted.
    pub size: Option<u64>,
}

#[derive(Default)]
pub struct SharedOrigin {
    /// The number of a version is its place in the list, from 1 on; 0 is before the first.
    changes: Mutex<HashMap<String, Vec<Change>>>,
    pages: Mutex<HashMap<(String, u64, u64), u32>>,
    pub heads: AtomicUsize,
    pub gets: AtomicUsize,
}

impl SharedOrigin {
    /// Puts an object of `size` bytes, or deletes it; returns its version.
    pub fn change(&self, key: &str, size: Option<u64>, at: Duration) -> u64 {
        let mut changes = self.changes.lock();
        let changes = changes.entry(key.into()).or_default();
        changes.push(Change { at, size });
        changes.len() as u64
    }

    /// The number of the present version, also where that is a deletion.
    pub fn present(&self, key: &str) -> u64 {
        self.changes.lock().get(key).map_or(0, Vec::len) as u64
    }

    /// The version that replaced `version`, if one has.
    pub fn replaced(&self, key: &str, version: u64) -> Option<Change> {
        self.changes.lock().get(key)?.get(version as usize).copied()
    }

    /// The versions that were deletions, and the time before the first.
    pub fn absences(&self, key: &str) -> Vec<u64> {
        let changes = self.changes.lock();
        let changes = changes.get(key).map(Vec::as_slice).unwrap_or_default();
        let deleted = (1..).zip(changes).filter(|(_, change)| change.size.is_none());
        std::iter::once(0).chain(deleted.map(|(version, _)| version)).collect()
    }

    pub fn look(&self, key: &str) -> Result<(u64, ObjectHead), OriginFailure> {
        let changes = self.changes.lock();
        let changes = changes.get(key).ok_or_else(no_such_key)?;
        let size = changes.last().and_then(|change| change.size).ok_or_else(no_such_key)?;
        let version = changes.len() as u64;
        Ok((version, head_of(version, size)))
    }

    /// Counts the pages whose last byte is in `sent`.
    pub fn sent(&self, key: &str, version: u64, size: u64, sent: ByteRange) {
        let mut pages = self.pages.lock();
        for page in sent.start() / PAGE_BYTES..sent.end().div_ceil(PAGE_BYTES) {
            if sent.holds(((page + 1) * PAGE_BYTES).min(size) - 1) {
                *pages.entry((key.into(), version, page)).or_default() += 1;
            }
        }
    }

    /// The most often that any page was fetched.
    pub fn most_fetches(&self) -> u32 {
        self.pages.lock().values().copied().max().unwrap_or(0)
    }

    /// Pages fetched, each as often as it was.
    pub fn pages_fetched(&self) -> u32 {
        self.pages.lock().values().sum()
    }

    pub fn requests(&self) -> usize {
        self.heads.load(Ordering::Relaxed) + self.gets.load(Ordering::Relaxed)
    }
}
