//! Which file an address belongs to.
//!
//! Process-wide, as addresses are. Windows come and go with segments (one per GiB filled);
//! lookups happen on every write of every connection. So each thread keeps the last table that
//! it saw, and a lookup costs one atomic load, to learn that this table is still the latest, and
//! a binary search: no lock, and no cache line that lookups write to.
#![allow(unsafe_code, reason = "turns a descriptor number back into a borrowed descriptor")]

use std::cell::RefCell;
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

/// A slice in memory that stands for a range of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileSlice<'a> {
    pub(crate) file: BorrowedFd<'a>,
    pub(crate) offset: u64,
    pub(crate) len: usize,
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
    // SAFETY: the window whose descriptor this is outlives the borrow of `slice` (above).
    let file = unsafe { BorrowedFd::borrow_raw(region.file) };
    let offset = (address - region.start) as u64;
    Some(FileSlice { file, offset, len: slice.len() })
}

/// Makes a window's addresses known. Before the first token of that window is handed out.
pub(crate) fn register(addresses: Range<usize>, file: &File) {
    let region = Region { start: addresses.start, end: addresses.end, file: file.as_raw_fd() };
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
    file: RawFd,
}

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
