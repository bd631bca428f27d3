//! What a worker has on its disks: pages and versions, in memory, failing where a test says so.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use forebay_cache::{Found, LocalBlocks, NotStored, Versions};
use forebay_telemetry::Tier;
use forebay_types::{ByteRange, ObjectHead, ObjectId, ObjectName, PAGE_BYTES};
use parking_lot::Mutex;

/// Whole pages in memory, and a switch that makes every write fail.
#[derive(Default)]
pub struct FakeStore {
    pages: Mutex<HashMap<(ObjectId, u64), Bytes>>,
    pub refuses: AtomicBool,
    /// Says that everything is stored and gives nothing back.
    pub lies: AtomicBool,
}

impl FakeStore {
    pub fn clear(&self) {
        self.pages.lock().clear();
    }
}

#[async_trait]
impl LocalBlocks for FakeStore {
    fn read_now(&self, id: &ObjectId, range: ByteRange) -> Found {
        if self.lies.load(Ordering::Relaxed) {
            return Found::Miss;
        }
        let page = range.start() / PAGE_BYTES;
        match self.pages.lock().get(&(id.clone(), page)) {
            None => Found::Miss,
            Some(bytes) => {
                let from = (range.start() - page * PAGE_BYTES) as usize;
                let to = bytes.len().min(from + range.len() as usize);
                Found::Hit(bytes.slice(from..to), Tier::Ram)
            }
        }
    }

    async fn read(&self, id: &ObjectId, range: ByteRange) -> Found {
        self.read_now(id, range)
    }

    fn gap(&self, id: &ObjectId, range: ByteRange) -> Option<ByteRange> {
        if self.lies.load(Ordering::Relaxed) {
            return None;
        }
        let pages = self.pages.lock();
        let has = |page: u64| pages.contains_key(&(id.clone(), page));
        let all = range.start() / PAGE_BYTES..range.end().div_ceil(PAGE_BYTES);
        let first = all.clone().find(|page| !has(*page))?;
        let end = (first..all.end).find(|page| has(*page)).unwrap_or(all.end);
        ByteRange::new(first * PAGE_BYTES, end * PAGE_BYTES)?.intersect(range)
    }

    async fn store(
        &self,
        id: &ObjectId,
        range: ByteRange,
        frames: Vec<Bytes>,
    ) -> Result<(), NotStored> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(NotStored);
        }
        let all = Bytes::from(frames.concat());
        assert_eq!(all.len() as u64, range.len(), "frames are exactly the range");
        assert_eq!(range.start() % PAGE_BYTES, 0, "fills begin at a page");
        let mut pages = self.pages.lock();
        let first = range.start() / PAGE_BYTES;
        for (number, from) in (first..).zip((0..all.len()).step_by(PAGE_BYTES as usize)) {
            let to = all.len().min(from + PAGE_BYTES as usize);
            pages.insert((id.clone(), number), all.slice(from..to));
        }
        Ok(())
    }

    fn cool(&self, _: &ObjectId) {}
}

#[derive(Default)]
pub struct FakeVersions(Mutex<HashMap<ObjectName, ObjectHead>>);

#[async_trait]
impl Versions for FakeVersions {
    async fn recall(&self, name: &ObjectName) -> Option<ObjectHead> {
        self.0.lock().get(name).cloned()
    }

    async fn remember(&self, name: &ObjectName, head: &ObjectHead) {
        self.0.lock().insert(name.clone(), head.clone());
    }

    async fn forget(&self, name: &ObjectName) {
        self.0.lock().remove(name);
    }
}
