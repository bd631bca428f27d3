//! Reading: only verified bytes leave, and nothing here makes a reactor thread wait for a disk.
//!
//! Large pieces leave as tokens that `sendfile` turns into pages of the page cache, so these
//! must be verified when they come in. That they are rests on one fact: nobody but the writer
//! (whose pages hold what was checksummed) and the verifying reader brings pages in. Segments
//! have no read-ahead, residency is asked without touching pages, maps are never read through.
//! What an earlier process left in the page cache is forgotten when a segment is first opened;
//! dirty pages survive that, and hold what a writer wrote.
//! What leaves memory after it was handed out is verified again: see `loan.rs`. Accepted: in the
//! milliseconds for which a look at residency is good the kernel may drop a page and read it
//! again, unverified; and another program that reads segment files breaks the rule. Small pieces
//! are copied and verified on every read.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use forebay_rt::spawn_blocking;
use forebay_telemetry::Tier;
use forebay_types::limits::{MAX_CHUNK_BYTES, SMALL_READ_BYTES};
use forebay_types::{ByteRange, CRC_GRAIN_BYTES};

use crate::checking::{Before, CheckGuard};
use crate::disk::{Ask, Disk};
use crate::extent::{Corrupt, ExtentHeader, ReadFailure};
use crate::health::Fault;
use crate::limits::{COLD_STEP_BYTES, MAX_CHECK_TURNS, align};
use crate::loan::Loan;
use crate::metrics::Where;
use crate::place::{Entry, Place};
use crate::segment::OpenSegment;
use crate::sys::{self, Advice};

/// What a look at the store found.
#[derive(Debug)]
pub enum Found {
    /// Verified bytes: a non-empty prefix of the range asked, at most one chunk.
    Hit {
        /// The bytes; large ones name pages of a segment that they keep alive.
        bytes: Bytes,
        /// Page cache or disk.
        tier: Tier,
    },
    /// Stored, or not known yet: ask again in a way that may wait for a disk.
    Cold,
    /// The first byte is not stored.
    Miss,
}

impl Disk {
    /// Looks without waiting.
    pub(crate) fn read_now(self: &Arc<Self>, ask: &Ask) -> Found {
        if !self.health.can_read() {
            return Found::Miss;
        }
        // Taken before the lookup: an extent that fails its check later leaves the index first.
        let before = self.checking.before();
        // As is this: what is brought into memory between the two would else be missed.
        let known = self.index.knows(ask.hash);
        let Some(place) = self.index.find(ask.hash, ask.pages().first) else {
            return if known { Found::Miss } else { Found::Cold };
        };
        match self.read_resident(ask, place, before) {
            Ok(Some(bytes)) => self.hit(ask, place, bytes, Tier::Ram),
            // What is wrong with it is found again, and dealt with, where waiting is allowed.
            Ok(None) | Err(_) => Found::Cold,
        }
    }

    /// Looks, and reads and verifies what is cold.
    pub(crate) async fn read(self: &Arc<Self>, ask: Ask) -> Found {
        for _ in 0..MAX_CHECK_TURNS {
            match self.read_now(&ask) {
                Found::Cold => {}
                found => return found,
            }
            let Ok(permit) = Arc::clone(&self.limits.reads).acquire_owned().await else { break };
            let Some(place) = self.locate(&ask).await else { break };
            let wanted = ask.pages().mask().both(place.pages.mask());
            match self.checking.begin(Entry { hash: ask.hash, place }, wanted) {
                Ok(guard) => {
                    let disk = Arc::clone(self);
                    let reading = spawn_blocking(move || {
                        let _permit = permit;
                        disk.read_checking(&ask, place, guard)
                    });
                    return reading.await.unwrap_or(Found::Miss);
                }
                Err(busy) => {
                    drop(permit);
                    busy.await;
                }
            }
        }
        Found::Miss
    }

    /// The extent that holds the first byte asked for.
    async fn locate(self: &Arc<Self>, ask: &Ask) -> Option<Place> {
        let (hash, page) = (ask.hash, ask.pages().first);
        if !self.index.is_loaded() {
            let disk = Arc::clone(self);
            spawn_blocking(move || disk.load_block(hash)).await.ok()?;
        }
        self.index.find(hash, page)
    }

    fn read_resident(
        self: &Arc<Self>,
        ask: &Ask,
        place: Place,
        before: Before,
    ) -> Result<Option<Bytes>, ReadFailure> {
        let Some(handle) = self.segments.handle_now(place.segment) else { return Ok(None) };
        let Some(header) = self.header_now(&handle, place)? else { return Ok(None) };
        let piece = Piece::of(ask, place, &header)?;
        let now = self.clock.now();
        if !handle.window().is_resident(piece.grains.range.clone())? {
            return Ok(None);
        }
        if piece.is_small() {
            let at = piece.grains.range.start;
            let Some(data) = sys::read_resident(handle.file(), at, piece.grains.len())? else {
                return Ok(None);
            };
            header.verify(piece.grains.first, &data)?;
            return Ok(Some(piece.cut(data)));
        }
        let entry = Entry { hash: ask.hash, place };
        let wanted = ask.pages().mask().both(place.pages.mask());
        if !self.checking.vouches(before, entry, wanted) {
            return Ok(None);
        }
        let loan = self.lend(&handle, entry, &header, before);
        Ok(Some(piece.token(&handle, loan, now)))
    }

    /// Reads off the disk. The pages are marked by `guard` until this has returned.
    fn read_checking(self: &Arc<Self>, ask: &Ask, place: Place, guard: CheckGuard) -> Found {
        let started = self.clock.now();
        match self.read_verified(ask, place) {
            Ok(bytes) => {
                guard.passed();
                self.metrics.read_took(self.clock.now().duration_since(started));
                self.hit(ask, place, bytes, Tier::Nvme)
            }
            Err(failure) => {
                self.drop_checked(Entry { hash: ask.hash, place }, &failure, Where::Read, guard);
                Found::Miss
            }
        }
    }

    fn read_verified(self: &Arc<Self>, ask: &Ask, place: Place) -> Result<Bytes, ReadFailure> {
        let before = self.checking.before();
        let handle = self.open(place)?;
        let header = self.header(&handle, place)?;
        let piece = Piece::of(ask, place, &header)?;
        if piece.is_small() {
            let Grains { range, first } = &piece.grains;
            let data = sys::read_at(handle.file(), range.start, piece.grains.len())?;
            forgetting(&handle, range, header.verify(*first, &data))?;
            return Ok(piece.cut(data));
        }
        verify_in_steps(&handle, &header, &piece.grains)?;
        let loan = self.lend(&handle, Entry { hash: ask.hash, place }, &header, before);
        Ok(piece.token(&handle, loan, self.clock.now()))
    }

    /// The segment of a place, opened if need be.
    pub(crate) fn open(&self, place: Place) -> Result<Arc<OpenSegment>, ReadFailure> {
        match self.segments.handle(place.segment) {
            Ok(handle) => handle.ok_or(ReadFailure::Gone),
            Err(error) => Err(match error.kind() {
                io::ErrorKind::NotFound => ReadFailure::Gone,
                io::ErrorKind::InvalidData
                | io::ErrorKind::InvalidInput
                | io::ErrorKind::UnexpectedEof => ReadFailure::Corrupt(Corrupt::Misplaced),
                _ if Fault::of(&error) == Fault::Ours => ReadFailure::NotOpened(error),
                _ => ReadFailure::Io(error),
            }),
        }
    }

    /// The header at a place, from memory or the disk.
    pub(crate) fn header(
        &self,
        handle: &OpenSegment,
        place: Place,
    ) -> Result<Arc<ExtentHeader>, ReadFailure> {
        let read = |at, len| Ok(Some(sys::read_at(handle.file(), at, len)?));
        self.header_by(place, read)?.ok_or(ReadFailure::Gone)
    }

    fn header_now(
        &self,
        handle: &OpenSegment,
        place: Place,
    ) -> Result<Option<Arc<ExtentHeader>>, ReadFailure> {
        self.header_by(place, |at, len| {
            if handle.window().is_resident(at..at + len as u64)? {
                return Ok(sys::read_resident(handle.file(), at, len)?);
            }
            Ok(None)
        })
    }

    fn header_by(
        &self,
        place: Place,
        read: impl FnMut(u64, usize) -> Result<Option<Vec<u8>>, ReadFailure>,
    ) -> Result<Option<Arc<ExtentHeader>>, ReadFailure> {
        if let Some(header) = self.headers.get(&place.key()) {
            return Ok(Some(header));
        }
        let Some(header) = ExtentHeader::load(self.id, place.key(), read)? else { return Ok(None) };
        let header = Arc::new(header);
        self.headers.insert(place.key(), Arc::clone(&header));
        Ok(Some(header))
    }

    fn hit(&self, ask: &Ask, place: Place, bytes: Bytes, tier: Tier) -> Found {
        if !self.segments.is_tail(place.segment) {
            self.index.touch(ask.hash, place);
        }
        Found::Hit { bytes, tier }
    }

    /// Forgets an extent that cannot be read. One that the disk refuses to read goes as well: a
    /// refill stores it elsewhere, where a retry would only take the disk out. So does one whose
    /// read failed for want of memory: some of its pages may have come in, and are not checked.
    pub(crate) fn drop_checked(
        &self,
        entry: Entry,
        failure: &ReadFailure,
        found: Where,
        guard: CheckGuard,
    ) {
        match failure {
            ReadFailure::Gone => return,
            ReadFailure::NotOpened(error) => {
                self.note_io("open", error);
                guard.untouched();
                return;
            }
            ReadFailure::Io(error) => self.note_io("read", error),
            ReadFailure::Corrupt(reason) => {
                self.metrics.checksum_failed(found);
                let Place { segment, at, .. } = entry.place;
                tracing::error!(disk = %self.path.display(), segment, at, %reason, "extent dropped");
            }
        }
        // Which takes it out of memory: first, so that nobody finds its header again.
        drop(guard);
        self.headers.remove(&entry.place.key());
        let _ = self.noting_index("drop", self.persist.remove_extents(&[entry]));
    }
}

/// The part of an extent that is read at once, as offsets in the segment's file.
struct Piece {
    /// Around what was asked.
    grains: Grains,
    exact: Range<u64>,
}

/// Whole 4 KiB grains of an extent, as far as it has data.
pub(crate) struct Grains {
    /// Number of the first one.
    pub(crate) first: u64,
    /// Where they are in the segment's file.
    pub(crate) range: Range<u64>,
}

impl Grains {
    fn len(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }
}

impl Piece {
    /// Compares the header with what was asked, byte for byte, and finds the place of the data.
    fn of(ask: &Ask, place: Place, header: &ExtentHeader) -> Result<Self, Corrupt> {
        let extent = header.range();
        let expected = place.pages.range(ask.block, ask.id.size());
        if header.name() != ask.id.canonical() || expected != Some(extent) {
            return Err(Corrupt::Other);
        }
        let chunk = ask.range.start().saturating_add(MAX_CHUNK_BYTES).min(ask.range.end());
        let piece = ByteRange::new(ask.range.start(), chunk).and_then(|c| c.intersect(extent));
        let piece = piece.ok_or(Corrupt::Other)?;
        let data_at = place.offset_bytes() + header.len();
        let (from, to) = (piece.start() - extent.start(), piece.end() - extent.start());
        let first_grain = from / CRC_GRAIN_BYTES;
        let end = align(to).min(extent.len());
        let grains = data_at + first_grain * CRC_GRAIN_BYTES..data_at + end;
        Ok(Self {
            grains: Grains { first: first_grain, range: grains },
            exact: data_at + from..data_at + to,
        })
    }

    fn is_small(&self) -> bool {
        self.exact.end - self.exact.start <= SMALL_READ_BYTES
    }

    /// What was asked, out of the grains around it.
    fn cut(&self, grains: Vec<u8>) -> Bytes {
        let start = (self.exact.start - self.grains.range.start) as usize;
        let end = (self.exact.end - self.grains.range.start) as usize;
        Bytes::from(grains).slice(start..end)
    }

    fn token(self, handle: &OpenSegment, loan: Arc<Loan>, right_at: Instant) -> Bytes {
        handle.window().saw(self.exact.clone(), right_at);
        handle.window().token(self.exact, loan)
    }
}

/// Brings a large piece into the page cache and verifies it there, a step at a time.
pub(crate) fn verify_in_steps(
    handle: &OpenSegment,
    header: &ExtentHeader,
    grains: &Grains,
) -> Result<(), ReadFailure> {
    sys::advise(handle.file(), grains.range.clone(), Advice::WillNeed);
    let steps = grains.range.clone().step_by(COLD_STEP_BYTES as usize);
    let mut firsts = (grains.first..).step_by((COLD_STEP_BYTES / CRC_GRAIN_BYTES) as usize);
    let checked = steps.zip(&mut firsts).try_for_each(|(at, first)| {
        let len = COLD_STEP_BYTES.min(grains.range.end - at);
        Ok(header.verify(first, &sys::read_at(handle.file(), at, len as usize)?)?)
    });
    forgetting(handle, &grains.range, checked)
}

/// Lets the page cache forget bytes that failed their check.
pub(crate) fn forgetting<E>(
    handle: &OpenSegment,
    range: &Range<u64>,
    checked: Result<(), E>,
) -> Result<(), E> {
    checked.inspect_err(|_| sys::advise(handle.file(), range.clone(), Advice::DontNeed))
}
