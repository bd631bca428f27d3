//! The segments of one disk: which exist, which are open, and where the next extent goes.
//!
//! Knows nothing of what is in them. Files are opened with use and a bounded number of them
//! stays open; a disk may have thirty thousand.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use forebay_rt::SharedClock;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use quick_cache::sync::Cache;

use crate::limits::{ALIGN_BYTES, MAX_OPEN_SEGMENTS, align};
use crate::persist::{IndexError, Persist};
use crate::place::SegmentId;
use crate::segment::{OpenSegment, Reservation, Segment};
use crate::space::Space;

/// The segments that exist and have not been retired.
pub(crate) type Live = BTreeMap<SegmentId, Arc<Segment>>;

/// Segment ids that are noted with one sync of the index.
const IDS_AT_ONCE: SegmentId = 64;
/// No segment has this id.
const NO_SEGMENT: SegmentId = SegmentId::MAX;

/// The segments of one disk.
pub(crate) struct Segments {
    dir: Arc<Path>,
    disk: u128,
    new_bytes: u64,
    space: Arc<Space>,
    persist: Arc<Persist>,
    clock: SharedClock,
    live: RwLock<Live>,
    handles: Cache<SegmentId, Arc<OpenSegment>>,
    tail: Mutex<Tail>,
    tail_id: AtomicU32,
}

/// Where extents are appended.
struct Tail {
    open: Option<Arc<OpenSegment>>,
    next_bytes: u64,
    next_id: SegmentId,
    /// Ids below this one are noted on the disk as used.
    noted_ids: SegmentId,
}

/// Why there is no place for an extent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoPlace {
    /// Until the evictor has made some.
    #[error("no room")]
    Room,
    /// Ever: it is longer than a segment.
    #[error("longer than a segment")]
    TooLong,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Index(#[from] IndexError),
}

/// What a disk's segments are made with.
pub(crate) struct SegmentsSetup {
    pub(crate) dir: Arc<Path>,
    pub(crate) disk: u128,
    pub(crate) new_bytes: u64,
    pub(crate) space: Arc<Space>,
    pub(crate) persist: Arc<Persist>,
    pub(crate) clock: SharedClock,
    pub(crate) live: Live,
    pub(crate) next_id: SegmentId,
}

impl Segments {
    /// Those of an earlier life are sealed: nothing is appended to them any more.
    pub(crate) fn new(setup: SegmentsSetup) -> Self {
        Self {
            dir: setup.dir,
            disk: setup.disk,
            new_bytes: setup.new_bytes,
            space: setup.space,
            persist: setup.persist,
            clock: setup.clock,
            live: RwLock::new(setup.live),
            handles: Cache::new(MAX_OPEN_SEGMENTS),
            tail: Mutex::new(Tail {
                open: None,
                next_bytes: 0,
                next_id: setup.next_id,
                noted_ids: setup.next_id,
            }),
            tail_id: AtomicU32::new(NO_SEGMENT),
        }
    }

    /// The segment, if its file is open already: asks no disk.
    pub(crate) fn handle_now(&self, id: SegmentId) -> Option<Arc<OpenSegment>> {
        self.handles.get(&id)
    }

    /// The segment, opened if need be; `None` once it is retired.
    pub(crate) fn handle(&self, id: SegmentId) -> io::Result<Option<Arc<OpenSegment>>> {
        if let Some(handle) = self.handles.get(&id) {
            return Ok(Some(handle));
        }
        let Some(segment) = self.live.read().get(&id).cloned() else { return Ok(None) };
        let handle = Arc::new(OpenSegment::open(segment, self.disk)?);
        self.keep(id, &handle);
        Ok(Some(handle))
    }

    /// A place for `len_bytes`, in the open segment or a new one.
    pub(crate) fn reserve(&self, len_bytes: u64) -> Result<Reservation, NoPlace> {
        if len_bytes > self.new_bytes - ALIGN_BYTES {
            return Err(NoPlace::TooLong);
        }
        let mut tail = self.tail.lock();
        let open = match tail.open.take() {
            Some(open) if tail.next_bytes + len_bytes <= open.segment().size_bytes() => open,
            full => match self.next_segment(&mut tail) {
                Ok(open) => open,
                Err(error) => {
                    // It stays open: shorter extents may still fit.
                    tail.open = full;
                    return Err(error);
                }
            },
        };
        let reservation = Reservation::new(&open, tail.next_bytes);
        tail.next_bytes += align(len_bytes);
        tail.open = Some(open);
        Ok(reservation)
    }

    /// Whether `id` is the segment being appended to. Hits in it say nothing about how hot an
    /// extent is: its own fill is still being read.
    pub(crate) fn is_tail(&self, id: SegmentId) -> bool {
        self.tail_id.load(Ordering::Relaxed) == id
    }

    /// The segment that outlives all others.
    pub(crate) fn newest(&self) -> Option<SegmentId> {
        self.live.read().last_key_value().map(|(id, _)| *id)
    }

    /// The oldest segment that nobody writes to.
    pub(crate) fn oldest_sealed(&self) -> Option<Arc<Segment>> {
        let live = self.live.read();
        let mut sealed = live.values().filter(|s| !self.is_tail(s.id()) && !s.has_writers());
        sealed.next().cloned()
    }

    /// Takes a segment out: nobody opens it from now on.
    pub(crate) fn withdraw(&self, id: SegmentId) {
        if let Some(segment) = self.live.write().remove(&id) {
            segment.retire();
        }
        self.handles.remove(&id);
    }

    /// Holds still which segments exist.
    pub(crate) fn live(&self) -> RwLockReadGuard<'_, Live> {
        self.live.read()
    }

    fn next_segment(&self, tail: &mut Tail) -> Result<Arc<OpenSegment>, NoPlace> {
        if !self.space.take(self.new_bytes) {
            return Err(NoPlace::Room);
        }
        let id = tail.next_id;
        let born = self.clock.wall();
        let (dir, space) = (Arc::clone(&self.dir), Arc::clone(&self.space));
        // Gives the space back if anything below fails.
        let segment = Arc::new(Segment::new(id, dir, self.new_bytes, born, space));
        if id == tail.noted_ids {
            self.persist.use_segment_ids(id + IDS_AT_ONCE)?;
            tail.noted_ids = id + IDS_AT_ONCE;
        }
        tail.next_id = id + 1;
        let open = Arc::new(OpenSegment::create(Arc::clone(&segment), self.disk)?);
        self.live.write().insert(id, segment);
        self.keep(id, &open);
        self.tail_id.store(id, Ordering::Relaxed);
        tail.next_bytes = ALIGN_BYTES;
        Ok(open)
    }

    /// Keeps a file open, unless its segment was retired in the meantime.
    fn keep(&self, id: SegmentId, handle: &Arc<OpenSegment>) {
        let live = self.live.read();
        if live.contains_key(&id) {
            self.handles.insert(id, Arc::clone(handle));
        }
    }
}
