//! One segment: an append-only file of extents.
//!
//! Its bytes are written once and never change, and the file is never shortened: both a token
//! that is out and bytes that the kernel still holds for a slow socket name them. It is
//! unlinked when it is retired, and its space counts as used until nobody holds it any more.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::SystemTime;

use forebay_zerocopy::FileWindow;

use crate::limits::{ALIGN_BYTES, FORMAT_VERSION};
use crate::loan::Loans;
use crate::place::SegmentId;
use crate::space::Space;
use crate::sys::{self, Advice};

const MAGIC: [u8; 8] = *b"FBAYSEG\n";
const HEADER_BYTES: usize = 44;

/// A segment that exists on the disk. Space is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Segment {
    id: SegmentId,
    dir: Arc<Path>,
    size_bytes: u64,
    born: SystemTime,
    /// Places handed out that are not written yet.
    writers: AtomicU32,
    space: Arc<Space>,
    /// Done once the page cache holds nothing of it that an earlier process brought in.
    own_pages_only: Once,
    retired: AtomicBool,
}

impl Segment {
    /// Describes a segment whose space is booked.
    pub(crate) fn new(
        id: SegmentId,
        dir: Arc<Path>,
        size_bytes: u64,
        born: SystemTime,
        space: Arc<Space>,
    ) -> Self {
        Self {
            id,
            dir,
            size_bytes,
            born,
            writers: AtomicU32::new(0),
            space,
            own_pages_only: Once::new(),
            retired: AtomicBool::new(false),
        }
    }

    pub(crate) fn id(&self) -> SegmentId {
        self.id
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    pub(crate) fn born(&self) -> SystemTime {
        self.born
    }

    pub(crate) fn has_writers(&self) -> bool {
        self.writers.load(Ordering::Acquire) > 0
    }

    /// From now on its space is on its way back.
    pub(crate) fn retire(&self) {
        if !self.retired.swap(true, Ordering::AcqRel) {
            self.space.retire(self.size_bytes);
        }
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    pub(crate) fn unlink(&self) -> io::Result<()> {
        std::fs::remove_file(self.path())
    }

    fn path(&self) -> PathBuf {
        self.dir.join(file_name(self.id))
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if *self.retired.get_mut() {
            self.space.give_back_retired(self.size_bytes);
        } else {
            self.space.give_back(self.size_bytes);
        }
    }
}

/// A segment with its file open. Tokens pin it by their [`Loan`](crate::loan::Loan).
#[derive(Debug)]
pub(crate) struct OpenSegment {
    // Declared first, so that the file is closed before its space is given back.
    window: Arc<FileWindow>,
    loans: Arc<Loans>,
    segment: Arc<Segment>,
}

impl OpenSegment {
    /// Creates the file, with all its space allocated. What a failure leaves is unlinked.
    pub(crate) fn create(segment: Arc<Segment>, disk: u128) -> io::Result<Self> {
        let path = segment.path();
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        segment.own_pages_only.call_once(|| {});
        sys::advise(&file, 0..segment.size_bytes, Advice::Random);
        let loans = Arc::new(Loans::default());
        let written = sys::preallocate(&file, segment.size_bytes)
            .and_then(|()| sys::write_all_at(&file, 0, &[&header(disk, &segment)]))
            .and_then(|()| map(file, segment.size_bytes, Arc::clone(&loans)));
        match written {
            Ok(window) => Ok(Self { window, loans, segment }),
            Err(error) => {
                // Best effort: a file that stays behind is found and unlinked at the next start.
                let _ = std::fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// Opens the file of a segment and checks that it is the one.
    pub(crate) fn open(segment: Arc<Segment>, disk: u128) -> io::Result<Self> {
        let file = File::open(segment.path())?;
        // Before the first read, or that would read ahead what nobody checks.
        sys::advise(&file, 0..segment.size_bytes, Advice::Random);
        // A process that was killed during a check has left pages that nobody checked. Whoever
        // opens the file at the same time waits here, so no token can come before.
        segment
            .own_pages_only
            .call_once(|| sys::advise(&file, 0..segment.size_bytes, Advice::DontNeed));
        if sys::read_at(&file, 0, HEADER_BYTES)? != header(disk, &segment) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let loans = Arc::new(Loans::default());
        let window = map(file, segment.size_bytes, Arc::clone(&loans))?;
        Ok(Self { window, loans, segment })
    }

    pub(crate) fn window(&self) -> &Arc<FileWindow> {
        &self.window
    }

    pub(crate) fn file(&self) -> &File {
        self.window.file()
    }

    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// The extents of which tokens are out.
    pub(crate) fn loans(&self) -> &Arc<Loans> {
        &self.loans
    }
}

/// A place in the open segment, for one extent. The segment is not retired before it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    handle: Arc<OpenSegment>,
    offset_bytes: u64,
}

impl Reservation {
    pub(crate) fn new(handle: &Arc<OpenSegment>, offset_bytes: u64) -> Self {
        handle.segment.writers.fetch_add(1, Ordering::AcqRel);
        Self { handle: Arc::clone(handle), offset_bytes }
    }

    pub(crate) fn file(&self) -> &File {
        self.handle.file()
    }

    pub(crate) fn segment(&self) -> SegmentId {
        self.handle.segment.id
    }

    pub(crate) fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.handle.segment.writers.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The number in the name of a segment's file.
pub(crate) fn id_of(file_name: &str) -> Option<SegmentId> {
    SegmentId::from_str_radix(file_name.strip_suffix(".seg")?, 16).ok()
}

fn file_name(id: SegmentId) -> String {
    format!("{id:08x}.seg")
}

#[expect(unsafe_code, reason = "whoever maps a file promises that its bytes stay as they are")]
fn map(file: File, size_bytes: u64, keeper: Arc<Loans>) -> io::Result<Arc<FileWindow>> {
    // SAFETY: the store holds its directory's lock, and no code of it truncates a segment or
    // writes a byte of one twice: a `Reservation` is handed out once for each range, and tokens
    // are made only of extents that were completely written before.
    unsafe { FileWindow::map(file, size_bytes, keeper) }
}

/// What the first 4 KiB of a segment start with; extents begin behind them.
fn header(disk: u128, segment: &Segment) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    out.extend_from_slice(&segment.id.to_le_bytes());
    out.extend_from_slice(&disk.to_le_bytes());
    out.extend_from_slice(&segment.size_bytes.to_le_bytes());
    out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
    debug_assert_eq!(out.len(), HEADER_BYTES);
    out
}

const _: () = assert!(HEADER_BYTES as u64 <= ALIGN_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(dir: &Path, id: SegmentId, space: &Arc<Space>) -> Arc<Segment> {
        space.book(1 << 20);
        let (dir, space) = (dir.into(), Arc::clone(space));
        Arc::new(Segment::new(id, dir, 1 << 20, SystemTime::UNIX_EPOCH, space))
    }

    #[test]
    fn a_segment_opens_only_as_itself() {
        let dir = tempfile::tempdir().unwrap();
        let space = Arc::new(Space::new(1 << 30));
        OpenSegment::create(segment(dir.path(), 7, &space), 1).unwrap();
        assert!(OpenSegment::open(segment(dir.path(), 7, &space), 1).is_ok());
        assert!(OpenSegment::open(segment(dir.path(), 7, &space), 2).is_err());
        std::fs::rename(dir.path().join("00000007.seg"), dir.path().join("00000008.seg")).unwrap();
        assert!(OpenSegment::open(segment(dir.path(), 8, &space), 1).is_err());
    }

    #[test]
    fn space_is_used_until_the_last_holder_lets_go() {
        let dir = tempfile::tempdir().unwrap();
        let space = Arc::new(Space::new(1 << 30));
        let open = OpenSegment::create(segment(dir.path(), 1, &space), 1).unwrap();
        let token = open.window().token(0..4096, Arc::clone(open.segment()));
        open.segment().unlink().unwrap();
        drop(open);
        assert_eq!(space.used(), 1 << 20);
        drop(token);
        assert_eq!(space.used(), 0);
    }
}
