//! A window over bytes in memory that nobody can change any more.
//!
//! For trying out what sends tokens, without a segment and without a promise to keep: the kernel
//! keeps it.
#![allow(unsafe_code, reason = "memfd_create and its seals have no safe wrapper in std")]

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use forebay_rt::spawn_blocking;

use crate::{FileWindow, Keeper, Proof, Recheck};

impl FileWindow {
    /// Copies `bytes`, at least one, into a file in memory and maps that. The file can be neither
    /// written nor shortened, so unlike [`FileWindow::map`] this is safe.
    pub fn sealed(bytes: &[u8]) -> io::Result<Arc<Self>> {
        let mut file = memory_file()?;
        file.write_all(bytes)?;
        seal(&file)?;
        // Some kernels do not map a sealed file by a descriptor that was opened for writing.
        let file = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let keeper = Arc::new(Sealed(Arc::new(file.try_clone()?)));
        // SAFETY: the file is sealed against writing and shortening, for everybody and for good.
        unsafe { Self::map(file, bytes.len() as u64, keeper) }
    }
}

/// What is sealed stays right; it can only be swapped out.
struct Sealed(Arc<File>);

impl Keeper for Sealed {
    fn vouches(&self, _: &Range<u64>, _: Option<Proof>) -> bool {
        true
    }

    fn recheck(&self, range: Range<u64>) -> Recheck {
        let file = Arc::clone(&self.0);
        let read = move || {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            file.read_exact_at(&mut bytes, range.start)
        };
        Box::pin(async move {
            spawn_blocking(read).await.map_err(io::Error::other)??;
            Ok(Proof(0))
        })
    }
}

fn memory_file() -> io::Result<File> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a C string, and the kernel copies it.
    let fd = unsafe { libc::memfd_create(c"forebay-sealed".as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else has.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn seal(file: &File) -> io::Result<()> {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE | libc::F_SEAL_SEAL;
    // SAFETY: the descriptor is open; the call takes a number.
    let code = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;
    use crate::tests::random_bytes;

    #[test]
    fn a_sealed_window_holds_the_bytes_and_nobody_changes_them() {
        let bytes = random_bytes(1, 300_000);
        let window = FileWindow::sealed(&bytes).unwrap();
        assert!(window.token(0..300_000, ()) == bytes);

        let path = format!("/proc/self/fd/{}", window.file().as_raw_fd());
        let mut again = OpenOptions::new().write(true).open(path).unwrap();
        assert!(again.write_all(b"other").is_err());
        assert!(again.set_len(10).is_err());
        assert!(window.token(0..300_000, ()) == bytes);
    }
}
