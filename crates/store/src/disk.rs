//! One disk: its parts, what to do when one of them fails, and its end.
//!
//! Reading, writing, eviction, upkeep and heads are `impl Disk` blocks in files of their own;
//! they meet here and nowhere else. A disk knows nothing of other disks.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use forebay_rt::{SharedClock, Shutdown, timeout};
use forebay_types::{BlockIndex, ByteRange, ObjectId};
use parking_lot::Mutex;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::checking::Checking;
use crate::config::DiskPlan;
use crate::extent::ExtentHeader;
use crate::health::{DiskState, Fault, Health};
use crate::identity::DiskLock;
use crate::index::Index;
use crate::limits::{HEAD_WAIT, MAX_HEAD_CALLS, MAX_QUEUED_PUTS, MAX_READS, MAX_WRITES};
use crate::metrics::DiskMetrics;
use crate::persist::{IndexError, Persist};
use crate::place::{BlockHash, ExtentKey, HashKey, PageMask, Pages};
use crate::segments::Segments;
use crate::space::Space;

/// Parsed headers, bounded by the memory that they take.
pub(crate) type HeaderCache = Cache<ExtentKey, Arc<ExtentHeader>, HeaderWeight>;

/// One disk of the store.
pub(crate) struct Disk {
    pub(crate) path: PathBuf,
    pub(crate) id: u128,
    pub(crate) plan: DiskPlan,
    pub(crate) hash_key: HashKey,
    pub(crate) clock: SharedClock,
    pub(crate) space: Arc<Space>,
    pub(crate) segments: Segments,
    pub(crate) index: Arc<Index>,
    pub(crate) persist: Arc<Persist>,
    pub(crate) headers: HeaderCache,
    pub(crate) checking: Arc<Checking>,
    pub(crate) health: Health,
    pub(crate) metrics: DiskMetrics,
    pub(crate) limits: Limits,
    /// Wakes the upkeep task: room is short, or something failed.
    pub(crate) wake: Arc<Notify>,
    pub(crate) closing: Shutdown,
    /// When the volume turned out to be full.
    pub(crate) full_since: Mutex<Option<Instant>>,
    /// Held around every change of a head that depends on what is stored.
    pub(crate) heads_change: Mutex<()>,
    pub(crate) heads_doubted: AtomicBool,
    /// When a segment was last retired.
    pub(crate) retired_at: Mutex<Option<Instant>>,
    /// Retired segments could not be unlinked: retiring more would lose them for nothing.
    pub(crate) unlink_failed: AtomicBool,
    /// Released by [`Disk::close`], whoever still holds the disk.
    pub(crate) lock: Mutex<Option<DiskLock>>,
}

/// How much may go on at the same time.
pub(crate) struct Limits {
    pub(crate) reads: Arc<Semaphore>,
    pub(crate) writes: Arc<Semaphore>,
    pub(crate) puts: Semaphore,
    pub(crate) heads: Arc<Semaphore>,
}

/// What is asked of one block.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) id: ObjectId,
    pub(crate) hash: BlockHash,
    pub(crate) block: BlockIndex,
    pub(crate) range: ByteRange,
}

/// How much of a header cache one header takes.
#[derive(Debug, Clone)]
pub(crate) struct HeaderWeight;

impl Disk {
    /// A turn to work with heads, or `None` where there is none within [`HEAD_WAIT`].
    pub(crate) async fn head_turn(&self) -> Option<OwnedSemaphorePermit> {
        let turn = Arc::clone(&self.limits.heads).acquire_owned();
        timeout(&*self.clock, HEAD_WAIT, turn).await.ok()?.ok()
    }

    /// Names a block as this disk knows it. `range` must lie in it.
    pub(crate) fn ask(&self, id: &ObjectId, block: BlockIndex, range: ByteRange) -> Ask {
        Ask { id: id.clone(), hash: self.hash_key.block(id, block), block, range }
    }

    /// The pages of a block that are stored. While the index is being loaded this may wait for
    /// RocksDB; not for a block that a reader has looked for just before.
    pub(crate) fn stored(&self, hash: BlockHash) -> PageMask {
        if !self.health.can_read() {
            return PageMask::default();
        }
        self.load_block(hash);
        self.index.stored(hash)
    }

    /// Makes sure that memory knows what is stored of a block. Waits for the disk, if at all.
    pub(crate) fn load_block(&self, hash: BlockHash) {
        if self.index.knows(hash) {
            return;
        }
        let Some(entries) = self.noting_index("lookup", self.persist.block(hash)) else { return };
        let live = self.segments.live();
        for entry in entries.into_iter().filter(|entry| live.contains_key(&entry.place.segment)) {
            self.index.insert_loaded(entry);
        }
        self.index.set_known(hash);
    }

    /// Counts an I/O error, draws the consequences for the disk, and has a new state looked
    /// after.
    pub(crate) fn note_io(&self, op: &'static str, error: &io::Error) {
        if self.record_io(op, error) {
            self.wake.notify_one();
        }
    }

    /// As [`Disk::note_io`] for the upkeep task, which must not wake itself; true if the disk's
    /// state is another one now.
    pub(crate) fn record_io(&self, op: &'static str, error: &io::Error) -> bool {
        self.metrics.failed(op, error);
        tracing::warn!(disk = %self.path.display(), op, %error, "disk error");
        self.record(Fault::of(error))
    }

    /// Counts an error of the index: no writes until it works again, for what is not in the
    /// index cannot be found, evicted or kept over a restart.
    pub(crate) fn noting_index<T>(
        &self,
        op: &'static str,
        result: Result<T, IndexError>,
    ) -> Option<T> {
        result.inspect_err(|error| self.note_index(op, error)).ok()
    }

    /// See [`Disk::noting_index`].
    pub(crate) fn note_index(&self, op: &'static str, error: &IndexError) {
        if error.is_disk_failure() {
            self.metrics.index_failed(op);
            tracing::warn!(disk = %self.path.display(), op, %error, "index error");
            if self.record(Fault::NoWrites) {
                self.wake.notify_one();
            }
        }
    }

    /// The volume has less room than we were given: makes do with what is used now.
    pub(crate) fn note_full(&self, error: &io::Error) {
        self.metrics.failed("allocate", error);
        let mut full_since = self.full_since.lock();
        if full_since.replace(self.clock.now()).is_none() {
            let used_bytes = self.space.used();
            tracing::warn!(disk = %self.path.display(), used_bytes, "volume is full");
        }
        self.space.lower_ceiling();
    }

    pub(crate) fn heads_trusted(&self) -> bool {
        !self.heads_doubted.load(Ordering::Acquire)
    }

    pub(crate) fn distrust_heads(&self) {
        self.heads_doubted.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Ends everything in order. What is asked of the disk afterwards is a miss.
    pub(crate) async fn close(self: Arc<Self>) {
        self.closing.begin();
        self.closing.finished().await;
        for (gate, all) in [(&self.limits.reads, MAX_READS), (&self.limits.writes, MAX_WRITES)] {
            // An error means that it was closed before.
            let _ = gate.acquire_many(all as u32).await;
            gate.close();
        }
        let disk = Arc::clone(&self);
        let closed = forebay_rt::spawn_blocking(move || disk.persist.close()).await;
        if let Ok(Err(error)) = closed {
            tracing::warn!(disk = %self.path.display(), %error, "index not flushed");
        }
        self.lock.lock().take();
    }

    /// True if the disk's state is another one now.
    pub(crate) fn record(&self, fault: Fault) -> bool {
        let changed = self.health.note(fault);
        if changed {
            let state = self.health.state();
            tracing::warn!(disk = %self.path.display(), state = state.as_str(), "disk state");
            self.show();
        }
        changed
    }

    /// Brings the gauges up to date.
    pub(crate) fn show(&self) {
        self.metrics.show(self.space.capacity(), self.space.used(), self.health.state());
    }

    pub(crate) fn state(&self) -> DiskState {
        self.health.state()
    }
}

impl Limits {
    pub(crate) fn new() -> Self {
        Self {
            reads: Arc::new(Semaphore::new(MAX_READS)),
            writes: Arc::new(Semaphore::new(MAX_WRITES)),
            puts: Semaphore::new(MAX_QUEUED_PUTS),
            heads: Arc::new(Semaphore::new(MAX_HEAD_CALLS)),
        }
    }
}

impl Ask {
    pub(crate) fn pages(&self) -> Pages {
        Pages::touched(self.block, self.range)
    }
}

impl Weighter<ExtentKey, Arc<ExtentHeader>> for HeaderWeight {
    fn weight(&self, _: &ExtentKey, header: &Arc<ExtentHeader>) -> u64 {
        header.weight()
    }
}
