//! Whether bytes of a file are in the page cache.
//!
//! `cachestat(2)` (Linux 6.5) asks without a lock on the address space and walks large pages as
//! one; where the kernel or a seccomp profile does not have it, `mincore(2)` on the map answers
//! the same. `cachestat` also counts pages whose read is still under way. A probe by
//! `preadv2(RWF_NOWAIT)` is deliberately absent: on a cold page it starts the read.
#![allow(unsafe_code, reason = "cachestat, mincore and sysconf have no safe wrapper in std")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::{LazyLock, OnceLock};

use memmap2::MmapRaw;

/// Whether every page of `range` is in the page cache. `map` maps `file` from its start, and
/// `range` lies within it.
pub(crate) fn is_resident(file: &File, map: &MmapRaw, range: Range<u64>) -> io::Result<bool> {
    if range.is_empty() {
        return Ok(true);
    }
    if cachestat_is_usable(file) { by_cachestat(file, &range) } else { by_mincore(map, &range) }
}

/// Decided once, by the first file that is asked about.
fn cachestat_is_usable(file: &File) -> bool {
    static USABLE: OnceLock<bool> = OnceLock::new();
    *USABLE.get_or_init(|| match by_cachestat(file, &(0..1)) {
        Ok(_) => true,
        Err(error) => !matches!(
            error.raw_os_error(),
            Some(libc::ENOSYS | libc::EPERM | libc::EACCES | libc::EOPNOTSUPP)
        ),
    })
}

/// The number has been the same on every architecture since Linux 6.5.
const SYS_CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct CachestatRange {
    offset: u64,
    len: u64,
}

#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

fn by_cachestat(file: &File, range: &Range<u64>) -> io::Result<bool> {
    let asked = CachestatRange { offset: range.start, len: range.end - range.start };
    let mut found = Cachestat::default();
    let no_flags: libc::c_uint = 0;
    // SAFETY: the structures have the layout of the kernel's, and both outlive the call.
    let code = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const asked, &raw mut found, no_flags)
    };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    let pages = page_of(range.end - 1) - page_of(range.start) + 1;
    Ok(found.cached >= pages)
}

/// Pages asked about in one `mincore` call: 4 MiB, the largest chunk that is sent at once.
const MINCORE_PAGES: usize = 1024;

fn by_mincore(map: &MmapRaw, range: &Range<u64>) -> io::Result<bool> {
    let end = range.end as usize;
    let mut from = (page_of(range.start) * *PAGE_BYTES) as usize;
    while from < end {
        let mut states = [0u8; MINCORE_PAGES];
        let len = (end - from).min(MINCORE_PAGES * *PAGE_BYTES as usize);
        // SAFETY: `from..from + len` lies within the map, `from` is the start of a page, and
        // `states` has a byte for each of its pages.
        let code = unsafe {
            libc::mincore(map.as_mut_ptr().add(from).cast(), len, states.as_mut_ptr().cast())
        };
        if code != 0 {
            return Err(io::Error::last_os_error());
        }
        let pages = len.div_ceil(*PAGE_BYTES as usize);
        if states[..pages].iter().any(|state| state & 1 == 0) {
            return Ok(false);
        }
        from += len;
    }
    Ok(true)
}

fn page_of(offset: u64) -> u64 {
    offset / *PAGE_BYTES
}

static PAGE_BYTES: LazyLock<u64> = LazyLock::new(|| {
    // SAFETY: takes a number and returns one.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
});

#[cfg(test)]
mod tests {
    use memmap2::MmapOptions;

    use super::*;
    use crate::tests::{Segment, forget_pages, read_at};

    #[test]
    fn cachestat_and_mincore_agree() {
        const LEN: u64 = 6 << 20;
        let window = Segment::random(60, LEN as usize).window;
        let map = MmapOptions::new().map_raw_read_only(window.file()).unwrap();
        window.file().sync_all().unwrap();
        forget_pages(&window);
        let last_page = LEN - 4_096..LEN;
        for (missing, range) in [(LEN, 0..LEN), (4_096, 0..LEN), (4_096, 0..last_page.start)] {
            read_at(&window, 0, (LEN - missing) as usize);
            let present = range.end <= LEN - missing;
            assert_eq!(by_cachestat(window.file(), &range).unwrap(), present, "{missing}");
            assert_eq!(by_mincore(&map, &range).unwrap(), present, "{missing}");
        }
    }
}
