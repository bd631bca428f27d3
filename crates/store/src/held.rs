//! Listing what is stored, newest segments first: what a worker that leaves has to hand over.
//! What is read again and again is in the newest ones, because eviction carries it over.
//!
//! Eviction goes on meanwhile: what it takes is not listed, nor is what is stored or carried
//! over after the listing began. Names come from the headers of the extents, so an extent costs
//! a read of 4 KiB or so; a page of the listing is all that is in memory.

use std::sync::Arc;
use std::time::SystemTime;

use forebay_rt::spawn_blocking;
use forebay_types::{ByteRange, ObjectId};

use crate::disk::Disk;
use crate::extent::{ExtentHeader, ReadFailure};
use crate::place::{Entry, SegmentId};
use crate::segment::Segment;
use crate::store::Store;
use crate::sys;

/// Where a listing goes on. The default is its beginning.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeldCursor {
    /// The segment to be listed; `None` for the newest.
    segment: Option<Age>,
    /// Where in the segment, in the unit of [`Place::at`](crate::place::Place::at).
    from: u32,
}

/// An extent: bytes of one block of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldExtent {
    /// The version. Its stamp is all that others need to fetch the bytes; the headers of the
    /// version are with [`Store::recall`], if they were remembered.
    pub id: ObjectId,
    /// Which bytes of it.
    pub range: ByteRange,
}

/// A part of a listing.
#[derive(Debug, Default)]
pub struct HeldPage {
    /// Some extents. May be empty before the end.
    pub extents: Vec<HeldExtent>,
    /// Where to go on; `None` at the end.
    pub next: Option<HeldCursor>,
}

/// Orders the segments of all disks by the time at which they were begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Age {
    born: SystemTime,
    disk: usize,
    id: SegmentId,
}

impl Store {
    /// Lists up to `most` extents from `cursor` on. Waits for the disk off the reactor.
    pub async fn held(self: &Arc<Self>, cursor: HeldCursor, most: usize) -> HeldPage {
        let Some(age) = cursor.segment.or_else(|| self.newest_before(None)) else {
            return HeldPage::default();
        };
        let disk = Arc::clone(&self.disks[age.disk]);
        let Ok(permit) = Arc::clone(&disk.limits.reads).acquire_owned().await else {
            return HeldPage { extents: Vec::new(), next: self.after(age) };
        };
        let store = Arc::clone(self);
        let listing = spawn_blocking(move || {
            let _permit = permit;
            let entries = disk.entries_of(age.id, cursor.from, most);
            let next = match entries.last() {
                Some(last) if entries.len() == most => {
                    Some(HeldCursor { segment: Some(age), from: last.place.at + 1 })
                }
                _ => store.after(age),
            };
            let extents = entries.into_iter().filter_map(|entry| disk.held_extent(entry));
            HeldPage { extents: extents.collect(), next }
        });
        listing.await.unwrap_or_default()
    }

    fn after(&self, age: Age) -> Option<HeldCursor> {
        let older = self.newest_before(Some(age))?;
        Some(HeldCursor { segment: Some(older), from: 0 })
    }

    fn newest_before(&self, bound: Option<Age>) -> Option<Age> {
        let readable = self.disks.iter().enumerate().filter(|(_, disk)| disk.health.can_read());
        let newest = readable.filter_map(|(at, disk)| {
            let live = disk.segments.live();
            let ages = live.values().map(|segment| Age::of(at, segment));
            ages.filter(|age| bound.is_none_or(|bound| *age < bound)).max()
        });
        newest.max()
    }
}

impl Age {
    fn of(disk: usize, segment: &Segment) -> Self {
        Self { born: segment.born(), disk, id: segment.id() }
    }
}

impl Disk {
    fn entries_of(&self, segment: SegmentId, from: u32, most: usize) -> Vec<Entry> {
        let part = self.persist.segment_part(segment, from, most);
        self.noting_index("list", part).unwrap_or_default()
    }

    /// `None` for one that is gone from the index meanwhile, or whose header is damaged.
    fn held_extent(&self, entry: Entry) -> Option<HeldExtent> {
        if self.index.is_loaded() && !self.index.holds(entry) {
            return None;
        }
        let header = self.header_uncached(entry)?;
        Some(HeldExtent { id: ObjectId::parse(header.name())?, range: header.range() })
    }

    /// The header of an extent. Those that come off the disk are not kept: they would push out
    /// the ones that readers use.
    fn header_uncached(&self, entry: Entry) -> Option<Arc<ExtentHeader>> {
        let key = entry.place.key();
        if let Some(header) = self.headers.get(&key) {
            return Some(header);
        }
        let handle = self.open(entry.place).ok()?;
        let read = |at, len| Ok::<_, ReadFailure>(Some(sys::read_at(handle.file(), at, len)?));
        ExtentHeader::load(self.id, key, read).ok()?.map(Arc::new)
    }
}
