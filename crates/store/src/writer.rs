//! Writing: data, then index, then visible.
//!
//! Several puts write at once, to places that are theirs alone. A crash in between leaves bytes
//! in a segment that nothing names. Header and data go in one call: what of it reached the disk
//! is decided by checksums when it is read, so their order would prove nothing.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use forebay_rt::{spawn_blocking, timeout};
use forebay_types::PAGE_BYTES;

use crate::disk::{Ask, Disk};
use crate::error::NotStored;
use crate::extent::{ExtentHeader, crc_table};
use crate::health::Fault;
use crate::limits::{ALIGN_BYTES, MAX_NAME_BYTES, MAX_ROOM_TURNS, ROOM_WAIT};
use crate::persist::IndexError;
use crate::place::{BlockHash, Entry, Pages, Place};
use crate::segment::Reservation;
use crate::segments::NoPlace;
use crate::sys;

/// Why an extent was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteFailure {
    #[error("no place: {0}")]
    NoPlace(#[from] NoPlace),
    #[error("write: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Index(#[from] IndexError),
}

impl Disk {
    /// Stores what is missing of `ask.range`. Waits a little for the evictor, not longer.
    pub(crate) async fn put(
        self: &Arc<Self>,
        ask: Ask,
        frames: Arc<[Bytes]>,
    ) -> Result<(), NotStored> {
        let Ok(_place_in_queue) = self.limits.puts.try_acquire() else {
            self.metrics.rejected_as_busy();
            return Err(NotStored);
        };
        for _ in 0..MAX_ROOM_TURNS {
            // Made before the attempt, so that room made during it is not missed.
            let freed = self.space.freed();
            match self.write_off_reactor(ask.clone(), Arc::clone(&frames)).await {
                Ok(()) => return Ok(()),
                Err(failure) => {
                    self.note_failed_write(&failure);
                    if !failure.needs_room() {
                        return Err(NotStored);
                    }
                    self.wake.notify_one();
                }
            }
            if timeout(&*self.clock, ROOM_WAIT, freed).await.is_err() {
                break;
            }
        }
        self.metrics.rejected_for_room();
        Err(NotStored)
    }

    async fn write_off_reactor(
        self: &Arc<Self>,
        ask: Ask,
        frames: Arc<[Bytes]>,
    ) -> Result<(), WriteFailure> {
        let gate = Arc::clone(&self.limits.writes);
        let permit = gate.acquire_owned().await.map_err(|_| IndexError::Closed)?;
        let disk = Arc::clone(self);
        let writing = spawn_blocking(move || {
            let _permit = permit;
            disk.write_missing(&ask, &frames)
        });
        writing.await.map_err(io::Error::other)?
    }

    fn write_missing(&self, ask: &Ask, frames: &[Bytes]) -> Result<(), WriteFailure> {
        let started = self.clock.now();
        let missing = ask.pages().mask().without(self.stored(ask.hash));
        for pages in missing.runs(self.plan.extent_pages) {
            let Some(range) = pages.range(ask.block, ask.id.size()) else { continue };
            let parts = cut(frames, range.start() - ask.range.start(), range.len());
            let header = ExtentHeader::new(ask.id.canonical(), range, crc_table(&parts));
            let (entry, _held) = self.append(header, ask.hash, pages, &parts)?;
            if !self.index.insert(entry) {
                // Somebody else was faster; theirs is the one that readers see.
                let _ = self.noting_index("write", self.persist.remove_extents(&[entry]));
            }
        }
        self.metrics.write_took(self.clock.now().duration_since(started));
        if !self.space.has_room(self.plan.spare_bytes) {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Writes an extent and its index entry; making it visible is the caller's. As long as the
    /// reservation is held the segment is not evicted.
    pub(crate) fn append(
        &self,
        header: ExtentHeader,
        hash: BlockHash,
        pages: Pages,
        parts: &[&[u8]],
    ) -> Result<(Entry, Reservation), WriteFailure> {
        let spot = self.segments.reserve(header.len() + header.range().len())?;
        let at = (spot.offset_bytes() / ALIGN_BYTES) as u32;
        let place = Place { segment: spot.segment(), at, pages };
        let head = header.encode(self.id, place.key());
        let all: Vec<&[u8]> =
            std::iter::once(head.as_slice()).chain(parts.iter().copied()).collect();
        sys::write_all_at(spot.file(), spot.offset_bytes(), &all)?;
        let entry = Entry { hash, place };
        self.persist.add_extent(entry)?;
        self.headers.insert(place.key(), Arc::new(header));
        Ok((entry, spot))
    }

    /// Draws the consequences of a failure for the disk.
    pub(crate) fn note_failed_write(&self, failure: &WriteFailure) {
        match failure {
            WriteFailure::NoPlace(NoPlace::Room | NoPlace::TooLong) => {}
            WriteFailure::NoPlace(NoPlace::Io(error)) if Fault::of(error) == Fault::Full => {
                self.note_full(error);
            }
            WriteFailure::NoPlace(NoPlace::Io(error)) => self.note_io("allocate", error),
            WriteFailure::Io(error) => self.note_io("write", error),
            WriteFailure::Index(error) | WriteFailure::NoPlace(NoPlace::Index(error)) => {
                self.note_index("write", error);
            }
        }
    }
}

impl WriteFailure {
    /// Whether room made by the evictor would cure it.
    fn needs_room(&self) -> bool {
        match self {
            Self::NoPlace(NoPlace::Room) => true,
            Self::NoPlace(NoPlace::Io(error)) => Fault::of(error) == Fault::Full,
            Self::NoPlace(NoPlace::TooLong | NoPlace::Index(_)) | Self::Io(_) | Self::Index(_) => {
                false
            }
        }
    }
}

impl Ask {
    /// Whether this is something that can be stored: whole pages, the last one of the object
    /// excepted, and `frames` are exactly their bytes.
    pub(crate) fn is_storable(&self, frames: &[Bytes]) -> bool {
        let (start, end) = (self.range.start(), self.range.end());
        let whole = start.is_multiple_of(PAGE_BYTES)
            && (end.is_multiple_of(PAGE_BYTES) || end == self.id.size());
        let bytes: u64 = frames.iter().map(|frame| frame.len() as u64).sum();
        whole && bytes == self.range.len() && self.id.canonical().len() <= MAX_NAME_BYTES
    }
}

/// `len` bytes of `frames`, from `skip` on.
fn cut(frames: &[Bytes], mut skip: u64, len: u64) -> Vec<&[u8]> {
    let mut left = len as usize;
    let mut parts = Vec::with_capacity(frames.len());
    for frame in frames {
        let from = frame.len().min(usize::try_from(skip).unwrap_or(usize::MAX));
        skip -= from as u64;
        let part = &frame[from..][..left.min(frame.len() - from)];
        left -= part.len();
        if !part.is_empty() {
            parts.push(part);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_cut_wherever_their_borders_are() {
        let bytes: Vec<u8> = (0..100).collect();
        let frames: Vec<Bytes> = bytes.chunks(7).map(Bytes::copy_from_slice).collect();
        for (skip, len) in [(0, 100), (0, 1), (6, 2), (7, 7), (50, 50), (99, 1)] {
            let expected = &bytes[skip as usize..(skip + len) as usize];
            assert_eq!(cut(&frames, skip, len).concat(), expected, "{len} from {skip}");
        }
    }
}
