//! A file as a range of addresses.
//!
//! Owns the map and the descriptor of one file, and hands out tokens: `Bytes` inside the map.
//! On the plaintext path nobody reads through it, so its pages never enter the process. It does
//! not know which parts of the file are in use; the pin that each token carries does.
#![allow(unsafe_code, reason = "makes slices of a map, from raw parts")]

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use memmap2::{Advice, MmapOptions, MmapRaw};
use parking_lot::Mutex;

use crate::keeper::Keeper;
use crate::registry;
use crate::residency;
use crate::sightings::Sightings;

/// A read-only shared map of a whole file, whose addresses are tokens for the file's bytes.
///
/// It lives for as long as anybody holds it or one of its tokens; then the map is taken down and
/// the descriptor closed. Unlinking the file changes nothing for tokens that are out.
pub struct FileWindow {
    map: MmapRaw,
    file: File,
    len_bytes: u64,
    keeper: Arc<dyn Keeper>,
    sightings: Mutex<Sightings>,
}

impl FileWindow {
    /// Maps the first `len_bytes` of `file`, which must have that many. `keeper` answers for
    /// the bytes of its tokens.
    ///
    /// `is_resident` needs a file that the process owns or may write: of others some kernels
    /// claim that every page is resident.
    ///
    /// # Safety
    ///
    /// Until the window and all its tokens are dropped, nobody shortens the file, and no byte
    /// that a living token names is written. Appending, and writing what no token names yet, is
    /// fine. (Reading a shortened file through the map is a SIGBUS, and bytes that change under
    /// a `&[u8]` are undefined behaviour.)
    pub unsafe fn map(
        file: File,
        len_bytes: u64,
        keeper: Arc<dyn Keeper>,
    ) -> io::Result<Arc<Self>> {
        let len = check_len(&file, len_bytes)?;
        let map = MmapOptions::new().len(len).map_raw_read_only(&file)?;
        // Should anything read through the map after all, let it not drag in neighbouring pages
        // that nobody has verified.
        map.advise(Advice::Random)?;
        let sightings = Mutex::default();
        let window = Arc::new(Self { map, file, len_bytes, keeper, sightings });
        registry::register(&window);
        Ok(window)
    }

    /// The mapped file, for reading by other means than the map.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Length of the window.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// `Bytes` that name `range` of the file. `pin` is dropped when the last of them is.
    ///
    /// # Panics
    ///
    /// If `range` is not within the window, as indexing a slice does.
    pub fn token<P: Send + Sync + 'static>(self: &Arc<Self>, range: Range<u64>, pin: P) -> Bytes {
        assert!(
            range.start <= range.end && range.end <= self.len_bytes,
            "token {range:?} is not within a window of {} bytes",
            self.len_bytes
        );
        if range.is_empty() {
            return Bytes::new();
        }
        Bytes::from_owner(Token { window: Arc::clone(self), range, _pin: pin })
    }

    /// Whether all pages of `range` are in the page cache, so that sending them reads no disk.
    ///
    /// May count pages whose read from disk is still under way (see `residency`); whoever starts
    /// such reads must treat them as absent until they are done.
    pub fn is_resident(&self, range: Range<u64>) -> io::Result<bool> {
        if range.start > range.end || range.end > self.len_bytes {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("range {range:?} is not within a window of {} bytes", self.len_bytes),
            ));
        }
        residency::is_resident(&self.file, &self.map, range)
    }

    /// Notes that at `at` the pages of `range` were in memory and right. For a moment from then
    /// on, by its own clock, a [`Transport`](crate::Transport) sends them without asking.
    pub fn saw(&self, range: Range<u64>, at: Instant) {
        self.sightings.lock().add(range, at);
    }

    /// How far what starts at `offset` was seen to be in memory and right, at `since` or later.
    pub(crate) fn seen_until(&self, offset: u64, since: Instant) -> Option<u64> {
        self.sightings.lock().until(offset, since)
    }

    pub(crate) fn keeper(&self) -> &dyn Keeper {
        &*self.keeper
    }

    pub(crate) fn addresses(&self) -> Range<usize> {
        let start = self.map.as_ptr() as usize;
        start..start + self.map.len()
    }
}

impl Drop for FileWindow {
    /// Runs before the fields are dropped: the addresses leave the registry while they still
    /// belong to this map, so no later map can be mistaken for it.
    fn drop(&mut self) {
        registry::unregister(&self.addresses());
    }
}

impl fmt::Debug for FileWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileWindow")
            .field("file", &self.file)
            .field("len_bytes", &self.len_bytes)
            .finish_non_exhaustive()
    }
}

fn check_len(file: &File, len_bytes: u64) -> io::Result<usize> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    let file_bytes = file.metadata()?.len();
    if len_bytes == 0 || len_bytes > file_bytes {
        return Err(invalid(format!(
            "map {len_bytes} bytes of a file of {file_bytes}: give it its full length first"
        )));
    }
    usize::try_from(len_bytes).map_err(|_| invalid(format!("map {len_bytes} bytes: too many")))
}

/// What a token's `Bytes` own. The pin goes last: a pin that holds the window too is then the one
/// that closes it, and can choose where that happens.
struct Token<P> {
    window: Arc<FileWindow>,
    range: Range<u64>,
    _pin: P,
}

impl<P> AsRef<[u8]> for Token<P> {
    fn as_ref(&self) -> &[u8] {
        let len = (self.range.end - self.range.start) as usize;
        // SAFETY: `token` checked that the range is within the map, whose length fits a usize;
        // the map is readable and lives as long as `self.window`, hence as `self`; whoever made
        // the window promised that the file is not shortened and these bytes are not written.
        unsafe {
            let start = self.window.map.as_ptr().add(self.range.start as usize);
            std::slice::from_raw_parts(start, len)
        }
    }
}
