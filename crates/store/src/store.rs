//! The store as the worker sees it: several disks behind one face.
//!
//! Owns which disk a block is on, and nothing else: all the work is done per disk. While a disk
//! takes no writes its blocks go to the next one, so both are looked at; while it takes no
//! reads, its blocks are misses there.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use forebay_rt::{SharedClock, spawn_blocking};
use forebay_types::{BLOCK_BYTES, BlockIndex, ByteRange, ObjectHead, ObjectId, ObjectName};

use crate::config::{StoreConfig, check_page_size};
use crate::disk::{Ask, Disk};
use crate::error::{NotStored, StoreError};
use crate::health::DiskState;
use crate::limits::MAX_COOLED_BLOCKS;
use crate::place::{PageMask, Pages};
use crate::reader::Found;
use crate::recover;
use crate::route::{self, Weight};
use crate::sys;

/// Blocks on the disks of this worker.
pub struct Store {
    pub(crate) disks: Vec<Arc<Disk>>,
    weights: Vec<Weight>,
    /// Disks that could not be opened.
    lost: Vec<DiskStatus>,
}

/// How a disk is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskStatus {
    /// Its directory.
    pub path: PathBuf,
    /// Bytes that it may use.
    pub capacity_bytes: u64,
    /// Bytes that it uses, headroom of the index included.
    pub used_bytes: u64,
    /// What it is used for.
    pub state: DiskState,
    /// Extents in memory.
    pub extents: u64,
    /// Whether the index is in memory; before that, lookups ask RocksDB.
    pub is_loaded: bool,
}

impl Store {
    /// Opens the disks. Quick, whatever is on them: their indexes load in the background. To be
    /// called within a Tokio runtime.
    ///
    /// A mistake of the operator is an error. A disk that fails is left out, as it would be
    /// later, unless it is the last one.
    #[expect(clippy::needless_pass_by_value, reason = "a clock is handed over, as everywhere")]
    pub fn open(config: StoreConfig, clock: SharedClock) -> Result<Arc<Self>, StoreError> {
        check_page_size(sys::page_bytes())?;
        let StoreConfig { disks: configs, segment_bytes } = config;
        let (mut disks, mut lost, mut failure) = (Vec::new(), Vec::new(), StoreError::NoDisks);
        for config in configs {
            match recover::open(&config, segment_bytes, &clock) {
                Ok(disk) => disks.push(disk),
                Err(error) if error.is_disk_failure() => {
                    tracing::error!(%error, "disk left out");
                    lost.push(DiskStatus::lost(config.path));
                    failure = error;
                }
                Err(error) => return Err(error),
            }
        }
        if disks.is_empty() {
            return Err(failure);
        }
        let weight = |disk: &Arc<Disk>| Weight {
            seed: (disk.id >> 64) as u64 ^ disk.id as u64,
            capacity_bytes: disk.plan.capacity_bytes,
        };
        let weights = disks.iter().map(weight).collect();
        Ok(Arc::new(Self { disks, weights, lost }))
    }

    /// Looks up the first byte of `range`, which lies in one block, without waiting for a disk.
    pub fn read_now(&self, id: &ObjectId, range: ByteRange) -> Found {
        let Some((block, range)) = within_block(id, range) else { return Found::Miss };
        for disk in self.holders(id, block) {
            match disk.read_now(&disk.ask(id, block, range)) {
                Found::Miss => {}
                found => return found,
            }
        }
        Found::Miss
    }

    /// As [`Store::read_now`], but reads and verifies what is [`Found::Cold`].
    pub async fn read(&self, id: &ObjectId, range: ByteRange) -> Found {
        let Some((block, range)) = within_block(id, range) else { return Found::Miss };
        for disk in self.holders(id, block) {
            match disk.read(disk.ask(id, block, range)).await {
                Found::Miss => {}
                found => return found,
            }
        }
        Found::Miss
    }

    /// The first run of bytes of `range`, which lies in one block, that is not stored; `None`
    /// when all of it is.
    pub fn gap(&self, id: &ObjectId, range: ByteRange) -> Option<ByteRange> {
        let Some((block, asked)) = within_block(id, range) else { return Some(range) };
        let stored = self.holders(id, block).fold(PageMask::default(), |stored, disk| {
            stored.with(disk.stored(disk.hash_key.block(id, block)))
        });
        let missing = Pages::touched(block, asked).mask().without(stored);
        let run = missing.runs(u64::MAX).next()?;
        run.range(block, id.size())?.intersect(asked)
    }

    /// Stores `frames`, which together are exactly the bytes of `range`: whole pages of one
    /// block, but for the end of the object. When this returns `Ok`, they can be read.
    pub async fn put(
        &self,
        id: &ObjectId,
        range: ByteRange,
        frames: Vec<Bytes>,
    ) -> Result<(), NotStored> {
        let block = BlockIndex::of(range.start());
        let inside = within_block(id, range) == Some((block, range));
        let disk = self.ranked(id, block).find(|disk| disk.health.can_write()).ok_or(NotStored)?;
        let ask: Ask = disk.ask(id, block, range);
        if !inside || !ask.is_storable(&frames) {
            return Err(NotStored);
        }
        disk.put(ask, frames.into()).await
    }

    /// A hint that this version is no longer current: nothing of it is carried over when its
    /// segments are evicted.
    pub fn cool(&self, id: &ObjectId) {
        let blocks = id.size().div_ceil(BLOCK_BYTES).min(MAX_COOLED_BLOCKS);
        for block in (0..blocks).map(BlockIndex) {
            for disk in self.holders(id, block) {
                disk.index.cool(disk.hash_key.block(id, block));
            }
        }
    }

    /// The version remembered under `name`, if its bytes may still be here. A disk that does not
    /// get to it in time is not waited for.
    pub async fn recall(&self, name: &ObjectName) -> Option<ObjectHead> {
        for disk in &self.disks {
            let Some(permit) = disk.head_turn().await else { continue };
            let (disk, name) = (Arc::clone(disk), name.clone());
            let recalling = spawn_blocking(move || {
                let _permit = permit;
                disk.recall(&name)
            });
            if let Ok(Some(head)) = recalling.await {
                return Some(head);
            }
        }
        None
    }

    /// Remembers a version whose bytes have just been stored: on the disk of its first block,
    /// and on no other one, so that there is one answer to [`Store::recall`]. Not done where a
    /// disk does not get to it in time.
    pub async fn remember(&self, name: &ObjectName, head: &ObjectHead) {
        let id = name.at(head.stamp.clone());
        let home = self.ranked(&id, BlockIndex(0)).find(|disk| disk.health.can_write());
        let Some(home) = home.map(Arc::clone) else { return };
        let mut permits = Vec::with_capacity(self.disks.len());
        for disk in &self.disks {
            let Some(permit) = disk.head_turn().await else { return };
            permits.push(permit);
        }
        let others: Vec<_> =
            self.disks.iter().filter(|disk| !Arc::ptr_eq(disk, &home)).cloned().collect();
        let (name, head) = (name.clone(), head.clone());
        let remembering = spawn_blocking(move || {
            let _permits = permits;
            for other in others {
                other.forget(&name);
            }
            home.remember(&name, &head);
        });
        // It ends by panicking or not at all; either way the head is only a hint.
        let _ = remembering.await;
    }

    /// Forgets `name`; when this returns, a restart does not bring it back.
    pub async fn forget(&self, name: &ObjectName) {
        let (disks, name) = (self.disks.clone(), name.clone());
        // A task, so that it is done on every disk even if the caller is gone by then.
        let forgetting = forebay_rt::spawn(async move {
            for disk in disks {
                let name = name.clone();
                let permit = Arc::clone(&disk.limits.heads).acquire_owned().await;
                let forgetting = spawn_blocking(move || {
                    let _permit = permit;
                    disk.forget(&name);
                });
                let _ = forgetting.await;
            }
        });
        let _ = forgetting.await;
    }

    /// How each disk is doing.
    pub fn status(&self) -> Vec<DiskStatus> {
        let open = self.disks.iter().map(|disk| DiskStatus::of(disk));
        open.chain(self.lost.iter().cloned()).collect()
    }

    /// Ends everything in order and lets go of the disks. Nothing is read off them or stored
    /// afterwards; tokens that are out stay good.
    pub async fn close(&self) {
        for disk in &self.disks {
            Arc::clone(disk).close().await;
        }
    }

    /// Disks that may hold a block: its home and, as long as those before take no writes, the
    /// next ones.
    fn holders(&self, id: &ObjectId, block: BlockIndex) -> impl Iterator<Item = &Arc<Disk>> {
        let mut ended = false;
        self.ranked(id, block)
            .filter(|disk| disk.health.can_read())
            .take_while(move |disk| !std::mem::replace(&mut ended, disk.health.can_write()))
    }

    fn ranked(&self, id: &ObjectId, block: BlockIndex) -> impl Iterator<Item = &Arc<Disk>> {
        let key = if self.disks.len() > 1 { route::key(id, block) } else { 0 };
        route::ranked(&self.weights, key).map(|at| &self.disks[at])
    }
}

impl DiskStatus {
    fn of(disk: &Disk) -> Self {
        Self {
            path: disk.path.clone(),
            capacity_bytes: disk.space.capacity(),
            used_bytes: disk.space.used(),
            state: disk.state(),
            extents: disk.index.len(),
            is_loaded: disk.index.is_loaded(),
        }
    }

    fn lost(path: PathBuf) -> Self {
        let state = DiskState::Offline;
        Self { path, capacity_bytes: 0, used_bytes: 0, state, extents: 0, is_loaded: false }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.status()).finish()
    }
}

/// The part of `range` that lies in the object and in the block of its first byte.
fn within_block(id: &ObjectId, range: ByteRange) -> Option<(BlockIndex, ByteRange)> {
    let block = BlockIndex::of(range.start());
    let end = range.end().min(block.end()).min(id.size());
    Some((block, ByteRange::new(range.start(), end)?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forebay_rt::{SystemClock, timeout};
    use forebay_types::{BucketName, ETag, ObjectKey, RuleId, Stamp};

    use super::*;
    use crate::config::DiskConfig;
    use crate::limits::MAX_HEAD_CALLS;

    #[tokio::test]
    async fn a_disk_that_hangs_with_heads_recalls_none_in_the_end_and_still_forgets() {
        let dir = tempfile::tempdir().unwrap();
        let disk = DiskConfig { path: dir.path().to_owned(), capacity_bytes: Some(64 << 20) };
        let config = StoreConfig { disks: vec![disk], segment_bytes: None };
        let store = Store::open(config, Arc::new(SystemClock)).unwrap();
        let (bucket, key) = (BucketName::new("train").unwrap(), ObjectKey::new("a").unwrap());
        let name = ObjectName { rule: RuleId(1), bucket, key, version_id: None };
        let last_modified = "Wed, 21 Oct 2015 07:28:00 GMT".into();
        let stamp = Stamp { etag: ETag::new("\"1\""), size: 9, last_modified, version_id: None };
        let (id, head) =
            (name.at(stamp.clone()), ObjectHead { stamp, headers: http::HeaderMap::new() });
        let frames = vec![Bytes::from_static(b"nine byte")];
        store.put(&id, ByteRange::new(0, 9).unwrap(), frames).await.unwrap();
        store.remember(&name, &head).await;
        assert!(store.recall(&name).await.is_some());

        let gate = Arc::clone(&store.disks[0].limits.heads);
        let busy = gate.acquire_many(MAX_HEAD_CALLS as u32).await.unwrap();
        assert!(store.recall(&name).await.is_none());
        let patience = Duration::from_millis(50);
        assert!(timeout(&SystemClock, patience, store.forget(&name)).await.is_err());
        drop(busy);
        store.forget(&name).await;
        assert!(store.recall(&name).await.is_none());
    }
}
