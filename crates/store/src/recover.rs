//! Opening a disk: whatever a crash left, it opens, and serves what is proved by checksums.
//!
//! Quick, because nothing is read but names and sizes of segments: the index in memory is
//! loaded in the background, and lookups ask RocksDB meanwhile. No segment of an earlier life
//! is appended to. An index that RocksDB calls corrupt is thrown away together with the
//! segments that only it could find.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use forebay_rt::{Busy, SharedClock, Shutdown, SystemRng};
use parking_lot::Mutex;
use rocksdb::ErrorKind;
use tokio::sync::Notify;

use crate::checking::Checking;
use crate::config::{DiskConfig, DiskPlan};
use crate::disk::{Disk, HeaderCache, HeaderWeight, Limits};
use crate::error::{StoreError, io_at};
use crate::health::Health;
use crate::identity;
use crate::index::Index;
use crate::limits::{ALIGN_BYTES, HEADER_CACHE_BYTES};
use crate::metrics::DiskMetrics;
use crate::persist::Persist;
use crate::segment::{Segment, id_of};
use crate::segments::{Live, Segments, SegmentsSetup};
use crate::space::Space;
use crate::upkeep;

const SEGMENT_DIR: &str = "segments";
const INDEX_DIR: &str = "index";
/// About what the header of a 256 KiB extent takes in memory.
const TYPICAL_HEADER_BYTES: u64 = 512;

/// Opens a disk and starts its background work.
pub(crate) fn open(
    config: &DiskConfig,
    segment_bytes: Option<u64>,
    clock: &SharedClock,
) -> Result<Arc<Disk>, StoreError> {
    let disk = Arc::new(open_files(config, segment_bytes, clock)?);
    disk.measure();
    disk.show();
    let (loader, busy) = (Arc::clone(&disk), disk.closing.busy());
    forebay_rt::spawn_blocking(move || loader.load_index(busy));
    forebay_rt::spawn(upkeep::run(Arc::downgrade(&disk), disk.closing.busy()));
    Ok(disk)
}

fn open_files(
    config: &DiskConfig,
    segment_bytes: Option<u64>,
    clock: &SharedClock,
) -> Result<Disk, StoreError> {
    let path = &config.path;
    let (identity, lock) = identity::claim(path, &SystemRng)?;
    let plan = DiskPlan::resolve(config, segment_bytes)?;
    let persist = Arc::new(open_index(path, plan.memtable_bytes)?);
    let dir: Arc<Path> = path.join(SEGMENT_DIR).into();
    let space = Arc::new(Space::new(plan.capacity_bytes));
    let live = find_segments(&dir, &space).map_err(io_at(&dir, "list segments"))?;
    let unused_id = persist.unused_segment_id().ok().flatten().unwrap_or(0);
    let next_found = live.last_key_value().map_or(0, |(id, _)| id + 1);
    let segments = Segments::new(SegmentsSetup {
        dir,
        disk: identity.disk,
        new_bytes: plan.segment_bytes,
        space: Arc::clone(&space),
        persist: Arc::clone(&persist),
        clock: Arc::clone(clock),
        live,
        next_id: unused_id.max(next_found),
    });
    let index = Arc::new(Index::new());
    Ok(Disk {
        path: path.clone(),
        id: identity.disk,
        plan,
        hash_key: identity.hash_key,
        clock: Arc::clone(clock),
        space,
        segments,
        persist,
        headers: HeaderCache::with_weighter(
            (HEADER_CACHE_BYTES / TYPICAL_HEADER_BYTES) as usize,
            HEADER_CACHE_BYTES,
            HeaderWeight,
        ),
        checking: Arc::new(Checking::new(Arc::clone(&index))),
        index,
        health: Health::new(Arc::clone(clock)),
        metrics: DiskMetrics::new(path),
        limits: Limits::new(),
        wake: Arc::new(Notify::new()),
        closing: Shutdown::new(),
        full_since: Mutex::new(None),
        heads_change: Mutex::default(),
        heads_doubted: AtomicBool::new(false),
        retired_at: Mutex::new(None),
        unlink_failed: AtomicBool::new(false),
        lock: Mutex::new(Some(lock)),
    })
}

fn open_index(path: &Path, memtable_bytes: u64) -> Result<Persist, StoreError> {
    let dir = path.join(INDEX_DIR);
    let corrupt = match Persist::open(&dir, memtable_bytes) {
        Err(error) if error.kind() == ErrorKind::Corruption => error,
        opened => return opened.map_err(|source| index_error(path, source)),
    };
    tracing::error!(disk = %path.display(), error = %corrupt, "index corrupt: disk starts empty");
    for dir in [&dir, &path.join(SEGMENT_DIR)] {
        remove_dir(dir).map_err(io_at(dir, "remove what the corrupt index left"))?;
    }
    Persist::open(&dir, memtable_bytes).map_err(|source| index_error(path, source))
}

fn index_error(path: &Path, source: rocksdb::Error) -> StoreError {
    StoreError::Index { path: path.to_owned(), source }
}

fn remove_dir(dir: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Books every segment file. One too short to be a segment was being created in the crash.
fn find_segments(dir: &Arc<Path>, space: &Arc<Space>) -> io::Result<Live> {
    std::fs::create_dir_all(dir)?;
    let mut live = BTreeMap::new();
    for file in std::fs::read_dir(dir)? {
        let file = file?;
        let Some(id) = file.file_name().to_str().and_then(id_of) else { continue };
        let meta = file.metadata()?;
        if meta.len() < ALIGN_BYTES {
            std::fs::remove_file(file.path())?;
            continue;
        }
        space.book(meta.len());
        let (dir, space) = (Arc::clone(dir), Arc::clone(space));
        live.insert(id, Arc::new(Segment::new(id, dir, meta.len(), meta.modified()?, space)));
    }
    Ok(live)
}

impl Disk {
    /// Brings the whole index into memory. Waits for the disk.
    fn load_index(&self, _busy: Busy) {
        let started = self.clock.now();
        let scanned = self.persist.scan(|entries| {
            let mut dead = Vec::new();
            {
                // Held for a batch: a segment that is withdrawn later has its entries removed.
                let live = self.segments.live();
                for entry in entries {
                    if live.contains_key(&entry.place.segment) {
                        self.index.insert_loaded(*entry);
                    } else {
                        dead.push(*entry);
                    }
                }
            }
            if !dead.is_empty() {
                let _ = self.noting_index("load", self.persist.remove_extents(&dead));
            }
            !self.closing.has_begun()
        });
        // After an error too: what could not be loaded is missed, and filled again.
        let _ = self.noting_index("load", scanned);
        if self.closing.has_begun() {
            return;
        }
        self.index.set_loaded();
        let (extents, took) = (self.index.len(), self.clock.now().duration_since(started));
        tracing::info!(disk = %self.path.display(), extents, ?took, "index loaded");
    }
}
