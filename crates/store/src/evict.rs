//! Eviction: the oldest segment goes as a whole, what is hot in it is carried over.
//!
//! S3-FIFO in spirit: a scan passes through without pushing out what is read again and again.
//! Order: memory, index, unlink. Runs on the upkeep task only, so two evictions never meet.
//! Constant work per extent of the segment, none per extent of the disk.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::disk::Disk;
use crate::extent::{ExtentHeader, ReadFailure};
use crate::health::Fault;
use crate::limits::PIN_PATIENCE;
use crate::metrics::Where;
use crate::place::{Entry, Place};
use crate::reader::forgetting;
use crate::segment::Segment;
use crate::sys;
use crate::writer::WriteFailure;

/// How it stands with room for the next segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// There is room, or nothing that could be evicted.
    Settled,
    /// What was evicted is still being read; its space comes back with its last reader.
    Pinned,
}

/// An extent that was read and verified.
struct Whole {
    header: Arc<ExtentHeader>,
    data: Vec<u8>,
}

impl Disk {
    /// Evicts until there is the room that the plan wants spare. Waits for the disk.
    pub(crate) fn make_room(&self) -> Room {
        while !self.space.has_room(self.plan.spare_bytes) && !self.closing.has_begun() {
            if self.unlink_failed.load(Ordering::Acquire) {
                break;
            }
            if self.readers_hold_enough() {
                return Room::Pinned;
            }
            let Some(victim) = self.segments.oldest_sealed() else { break };
            // Its space comes back at the end of the turn, unless a reader has it too.
            self.retire(&victim);
        }
        Room::Settled
    }

    /// Whether readers need only let go of what is retired, and can be expected to do so.
    fn readers_hold_enough(&self) -> bool {
        let retired_at = *self.retired_at.lock();
        self.space.will_have_room(self.plan.spare_bytes)
            && retired_at.is_some_and(|at| self.clock.now().duration_since(at) < PIN_PATIENCE)
    }

    fn retire(&self, victim: &Segment) {
        let id = victim.id();
        let entries = self.noting_index("evict", self.persist.segment(id)).unwrap_or_default();
        if self.health.can_write() {
            self.carry_over(victim, &entries);
        }
        self.segments.withdraw(id);
        for entry in &entries {
            self.index.remove(*entry);
            self.headers.remove(&entry.place.key());
        }
        let _ = self.noting_index("evict", self.persist.remove_extents(&entries));
        let _ = self.noting_index("evict", self.release_heads(id));
        let bytes = victim.size_bytes();
        if let Err(error) = victim.unlink() {
            // It still takes its space, until the next start finds it.
            self.space.book(bytes);
            self.unlink_failed.store(true, Ordering::Release);
            self.record_io("unlink", &error);
            // One error alone would not have the disk probed.
            self.record(Fault::NoWrites);
        }
        *self.retired_at.lock() = Some(self.clock.now());
        let age = self.clock.wall().duration_since(victim.born()).unwrap_or_default();
        self.metrics.evicted(bytes, age);
        tracing::debug!(disk = %self.path.display(), segment = id, bytes, ?age, "segment evicted");
    }

    /// Copies the hottest extents to the open segment, up to half a segment of them.
    fn carry_over(&self, victim: &Segment, entries: &[Entry]) {
        let heat = |entry: &Entry| self.index.heat(*entry).filter(|heat| *heat > 0);
        let mut hot: Vec<(u8, Entry)> =
            entries.iter().filter_map(|entry| Some((heat(entry)?, *entry))).collect();
        hot.sort_by_key(|(heat, _)| Reverse(*heat));
        let mut budget_bytes = victim.size_bytes() / 2;
        for (heat, entry) in hot {
            match self.carry_one(entry, heat - 1, budget_bytes) {
                Ok(carried_bytes) => budget_bytes -= carried_bytes,
                Err(failure) => {
                    self.note_failed_write(&failure);
                    return;
                }
            }
        }
    }

    /// Copies one extent and says how much of the budget that took. It stays readable at its old
    /// place until it is at its new one. One that somebody reads off the disk just now is not
    /// waited for.
    fn carry_one(&self, entry: Entry, heat: u8, budget_bytes: u64) -> Result<u64, WriteFailure> {
        let place = entry.place;
        let Ok(guard) = self.checking.begin(entry, place.pages.mask()) else { return Ok(0) };
        let Whole { header, data } = match self.read_whole(place, budget_bytes) {
            Ok(Some(extent)) => {
                guard.passed();
                extent
            }
            Ok(None) => {
                guard.untouched();
                return Ok(0);
            }
            Err(failure) => {
                self.drop_checked(entry, &failure, Where::Carry, guard);
                return Ok(0);
            }
        };
        let bytes = header.len() + header.range().len();
        let copy = ExtentHeader::clone(&header);
        let (new, _held) = self.append(copy, entry.hash, place.pages, &[&data])?;
        if !self.index.replace(entry, new.place, heat) {
            let _ = self.noting_index("evict", self.persist.remove_extents(&[new]));
        }
        Ok(bytes)
    }

    /// The verified data of an extent of up to `most_bytes`.
    fn read_whole(&self, place: Place, most_bytes: u64) -> Result<Option<Whole>, ReadFailure> {
        let handle = self.open(place)?;
        let header = self.header(&handle, place)?;
        if header.len() + header.range().len() > most_bytes {
            return Ok(None);
        }
        let data_at = place.offset_bytes() + header.len();
        let range = data_at..data_at + header.range().len();
        let data = sys::read_at(handle.file(), data_at, header.range().len() as usize)?;
        forgetting(&handle, &range, header.verify(0, &data))?;
        Ok(Some(Whole { header, data }))
    }
}
