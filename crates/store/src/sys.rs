//! The system calls that std does not offer, each behind a safe function.
//!
//! Knows nothing of segments. The only unsafe code of this crate.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::limits::MAX_WRITE_PARTS;

/// Reads exactly `len` bytes at `at`, waiting for the disk.
pub(crate) fn read_at(file: &File, at: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut buf = Vec::with_capacity(len);
    while buf.len() < len {
        match read_more(file, at, len, &mut buf, 0) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(buf)
}

/// Reads exactly `len` bytes at `at` if that needs no disk, else `None`.
///
/// On a cold page the call itself would *start* a read, so ask for residency first. Where the
/// file system knows no such reads (some tmpfs), it waits: there is no disk to wait for.
pub(crate) fn read_resident(file: &File, at: u64, len: usize) -> io::Result<Option<Vec<u8>>> {
    let mut buf = Vec::with_capacity(len);
    match read_more(file, at, len, &mut buf, libc::RWF_NOWAIT) {
        Ok(got) if got == len => Ok(Some(buf)),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            read_at(file, at, len).map(Some)
        }
        Err(error) => Err(error),
    }
}

/// One `preadv2` that appends to `buf`, up to `len` bytes in all.
fn read_more(
    file: &File,
    at: u64,
    len: usize,
    buf: &mut Vec<u8>,
    flags: libc::c_int,
) -> io::Result<usize> {
    let have = buf.len();
    let room: &mut [MaybeUninit<u8>] = &mut buf.spare_capacity_mut()[..len - have];
    let part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    let offset = (at + have as u64) as libc::off_t;
    // SAFETY: `part` names `room`, which is writable, borrowed for the call, and as long as
    // `iov_len` says; the kernel writes nothing beyond it.
    let got = unsafe { libc::preadv2(file.as_raw_fd(), &raw const part, 1, offset, flags) };
    let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel has initialised the first `got <= room.len()` bytes of the spare
    // capacity, which follow the `have` initialised ones.
    unsafe { buf.set_len(have + got) };
    Ok(got)
}

/// Writes all of `parts`, one after another, from `at` on.
pub(crate) fn write_all_at(file: &File, mut at: u64, parts: &[&[u8]]) -> io::Result<()> {
    for group in parts.chunks(MAX_WRITE_PARTS) {
        let mut vectors: Vec<libc::iovec> = group
            .iter()
            .map(|part| libc::iovec {
                iov_base: part.as_ptr().cast_mut().cast(),
                iov_len: part.len(),
            })
            .collect();
        let mut rest = vectors.as_mut_slice();
        while !rest.is_empty() {
            let written = write_some(file, at, rest)?;
            at += written as u64;
            rest = skip(rest, written);
        }
    }
    Ok(())
}

/// One `pwritev`; `vectors` must name live memory, as those of [`write_all_at`] do.
fn write_some(file: &File, at: u64, vectors: &[libc::iovec]) -> io::Result<usize> {
    loop {
        let count = vectors.len() as libc::c_int;
        // SAFETY: every vector was built from a slice that `write_all_at` borrows during this
        // call (advanced within its bounds by `skip`), and the kernel only reads from it.
        let wrote =
            unsafe { libc::pwritev(file.as_raw_fd(), vectors.as_ptr(), count, at as libc::off_t) };
        match usize::try_from(wrote) {
            Ok(0) if vectors.iter().any(|vector| vector.iov_len > 0) => {
                return Err(io::ErrorKind::WriteZero.into());
            }
            Ok(wrote) => return Ok(wrote),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

/// Drops the first `bytes` of `vectors`, and empty ones before the first with bytes in it.
fn skip(vectors: &mut [libc::iovec], mut bytes: usize) -> &mut [libc::iovec] {
    let mut whole = 0;
    for vector in vectors.iter_mut() {
        if bytes < vector.iov_len {
            vector.iov_base = vector.iov_base.cast::<u8>().wrapping_add(bytes).cast();
            vector.iov_len -= bytes;
            break;
        }
        bytes -= vector.iov_len;
        whole += 1;
    }
    &mut vectors[whole..]
}

/// Makes `file` `len` bytes long, with its space allocated where the file system can.
///
/// Where it cannot, the file is sparse: then a write may meet a full disk later, and says so,
/// because nothing is ever written through a map.
pub(crate) fn preallocate(file: &File, len: u64) -> io::Result<()> {
    // SAFETY: a plain system call on a descriptor that `file` keeps open.
    let done = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, len as libc::off_t) };
    if done == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENOSYS) => file.set_len(len),
        _ => Err(error),
    }
}

/// What is said to the kernel about a range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advice {
    /// No read-ahead: it would bring in pages that nobody checks.
    Random,
    /// Start reading this range.
    WillNeed,
    /// Forget this range.
    DontNeed,
}

/// Gives advice; a file system that ignores it does no harm.
pub(crate) fn advise(file: &File, range: Range<u64>, advice: Advice) {
    let advice = match advice {
        Advice::Random => libc::POSIX_FADV_RANDOM,
        Advice::WillNeed => libc::POSIX_FADV_WILLNEED,
        Advice::DontNeed => libc::POSIX_FADV_DONTNEED,
    };
    let (start, len) = (range.start as libc::off_t, (range.end - range.start) as libc::off_t);
    // SAFETY: a plain system call on a descriptor that `file` keeps open.
    let _ = unsafe { libc::posix_fadvise(file.as_raw_fd(), start, len, advice) };
}

/// Size of a page of the page cache.
pub(crate) fn page_bytes() -> u64 {
    // SAFETY: a plain system call without pointers.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    // It has no failure; were there one, no page size would be small enough.
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Size of the volume that `path` is on.
pub(crate) fn volume_bytes(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut stats = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `path` is a C string and `stats` has room for the answer.
    let done = unsafe { libc::statvfs(path.as_ptr(), stats.as_mut_ptr()) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it has filled `stats`.
    let stats = unsafe { stats.assume_init() };
    Ok(stats.f_blocks * stats.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_parts_are_written_in_order_and_read_back() {
        let file = tempfile::tempfile().unwrap();
        let pieces: Vec<Vec<u8>> = (0..3000usize).map(|i| vec![i as u8; i % 7]).collect();
        let parts: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        write_all_at(&file, 5, &parts).unwrap();
        let expected = pieces.concat();
        assert_eq!(read_at(&file, 5, expected.len()).unwrap(), expected);
        assert_eq!(read_resident(&file, 5, expected.len()).unwrap(), Some(expected));
    }

    #[test]
    fn reading_past_the_end_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        preallocate(&file, 4096).unwrap();
        let error = read_at(&file, 4000, 200).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
