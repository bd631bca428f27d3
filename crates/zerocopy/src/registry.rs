//! Which window an address belongs to.
//!
//! Process-wide, as addresses are. Windows come and go with segments (one per GiB filled);
//! lookups happen on every write of every connection. So each thread keeps the last table that
//! it saw, and a lookup costs one atomic load, to learn that this table is still the latest, and
//! a binary search: no lock, and no cache line that lookups write to.
#![allow(unsafe_code, reason = "turns the address of a window back into a reference")]

use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use parking_lot::Mutex;

use crate::window::FileWindow;

/// A slice in memory that stands for a range of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileSlice<'a> {
    pub(crate) window: &'a FileWindow,
    pub(crate) offset: u64,
    pub(crate) len: usize,
}

impl FileSlice<'_> {
    /// Its beginning, at most `len` bytes of it.
    pub(crate) fn first(self, len: usize) -> Self {
        Self { len: self.len.min(len), ..self }
    }

    /// The range of the file.
    pub(crate) fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.len as u64
    }

    /// How many of its bytes were seen to be in memory and right, at `since` or later.
    pub(crate) fn seen_bytes(&self, since: Instant) -> Option<usize> {
        let end = self.window.seen_until(self.offset, since)?;
        Some((end - self.offset) as usize)
    }

    /// Where it starts in memory.
    pub(crate) fn address(&self) -> usize {
        self.window.addresses().start + self.offset as usize
    }
}

/// The part of a file that `slice` stands for, if it lies in a window.
///
/// A slice in a window can only come from a token, and a token keeps its window alive. So for as
/// long as the slice is borrowed, its addresses belong to that window and to no other.
pub(crate) fn resolve(slice: &[u8]) -> Option<FileSlice<'_>> {
    if slice.is_empty() {
        return None;
    }
    let address = slice.as_ptr() as usize;
    let region = find(address)?;
    // SAFETY: the window outlives the borrow of `slice` (above), and is never borrowed mutably:
    // it is in an `Arc`.
    let window = unsafe { &*region.window.0 };
    let offset = (address - region.start) as u64;
    Some(FileSlice { window, offset, len: slice.len() })
}

/// Makes a window's addresses known. Before the first token of that window is handed out.
pub(crate) fn register(window: &Arc<FileWindow>) {
    let Range { start, end } = window.addresses();
    let region = Region { start, end, window: WindowPtr(Arc::as_ptr(window)) };
    change(|table| {
        let at = table.partition_point(|known| known.start < region.start);
        debug_assert!(table.get(at).is_none_or(|next| region.end <= next.start), "windows overlap");
        table.insert(at, region);
    });
}

/// Forgets a window's addresses. Before they are unmapped.
pub(crate) fn unregister(addresses: &Range<usize>) {
    change(|table| table.retain(|known| known.start != addresses.start));
}

#[derive(Debug, Clone, Copy)]
struct Region {
    start: usize,
    end: usize,
    window: WindowPtr,
}

/// Only [`resolve`] follows it, and says why it may.
#[derive(Debug, Clone, Copy)]
struct WindowPtr(*const FileWindow);

// SAFETY: it gives nothing but shared references to a window, which is `Sync`.
unsafe impl Send for WindowPtr {}
// SAFETY: as above.
unsafe impl Sync for WindowPtr {}

/// Regions that do not overlap, by address.
type Table = Arc<Vec<Region>>;

static LATEST: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);
static GENERATION: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static SEEN: RefCell<(u64, Table)> = RefCell::default();
}

fn change(edit: impl FnOnce(&mut Vec<Region>)) {
    let mut latest = LATEST.lock();
    edit(Arc::make_mut(&mut latest));
    GENERATION.fetch_add(1, Ordering::Release);
}

/// A table of an older generation is never used for a slice that it would get wrong: the slice
/// reached this thread from one that had mapped its memory, which happened after the windows
/// that had those addresses before were unregistered and unmapped, and after its own window, if
/// it has one, was registered. So this thread sees a generation at least as new as both.
fn find(address: usize) -> Option<Region> {
    SEEN.with_borrow_mut(|(generation, table)| {
        if *generation != GENERATION.load(Ordering::Acquire) {
            let latest = LATEST.lock();
            *generation = GENERATION.load(Ordering::Acquire);
            *table = Arc::clone(&latest);
        }
        let after = table.partition_point(|region| region.start <= address);
        let region = *table.get(after.checked_sub(1)?)?;
        (address < region.end).then_some(region)
    })
}
