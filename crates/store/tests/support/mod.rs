//! The world that the store's tests share: objects whose bytes are known, and disks whose page
//! cache can be emptied and whose bytes can be changed.
#![allow(dead_code, reason = "every test file uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "what tests are made of")]
#![allow(unsafe_code, reason = "posix_fadvise and windows on segment files")]

use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_rt::{Clock, SystemClock};
use forebay_store::{DiskConfig, Found, NotStored, Store, StoreConfig};
use forebay_telemetry::Tier;
use forebay_types::{
    BucketName, ByteRange, ETag, ObjectHead, ObjectId, ObjectKey, ObjectName, RuleId, Stamp,
};
use forebay_zerocopy::{FileWindow, Keeper, Proof, Recheck};

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;

pub(crate) fn config(disks: &[&Path], capacity_bytes: u64) -> StoreConfig {
    let disk = |path: &&Path| DiskConfig {
        path: path.to_path_buf(),
        capacity_bytes: Some(capacity_bytes),
    };
    StoreConfig { disks: disks.iter().map(disk).collect(), segment_bytes: None }
}

pub(crate) async fn open(config: StoreConfig) -> Arc<Store> {
    let store = Store::open(config, Arc::new(SystemClock)).unwrap();
    until(|| store.status().iter().all(|disk| disk.is_loaded)).await;
    store
}

/// Waits for something that happens in the background.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    for _ in 0..1000 {
        if condition() {
            return;
        }
        SystemClock.sleep(Duration::from_millis(10)).await;
    }
    panic!("did not happen within 10 s");
}

pub(crate) fn name(key: &str) -> ObjectName {
    let (bucket, key) = (BucketName::new("train").unwrap(), ObjectKey::new(key).unwrap());
    ObjectName { rule: RuleId(1), bucket, key, version_id: None }
}

pub(crate) fn stamp(etag: &str, size: u64) -> Stamp {
    let last_modified = "Wed, 21 Oct 2015 07:28:00 GMT".into();
    Stamp { etag: ETag::new(etag), size, last_modified, version_id: None }
}

pub(crate) fn object(key: &str, size: u64) -> ObjectId {
    name(key).at(stamp("\"1\"", size))
}

pub(crate) fn head(size: u64) -> ObjectHead {
    ObjectHead { stamp: stamp("\"1\"", size), headers: http::HeaderMap::new() }
}

pub(crate) fn range(start: u64, end: u64) -> ByteRange {
    ByteRange::new(start, end).unwrap()
}

pub(crate) fn whole(id: &ObjectId) -> ByteRange {
    range(0, id.size())
}

/// What the object has there: every 8-byte word is a function of version and offset.
pub(crate) fn content(id: &ObjectId, range: ByteRange) -> Vec<u8> {
    let seed = xxhash_rust::xxh3::xxh3_64(id.canonical());
    let words = range.start() / 8..range.end().div_ceil(8);
    let bytes: Vec<u8> = words
        .flat_map(|word| {
            let mixed = (seed ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ (mixed >> 29)).to_le_bytes()
        })
        .collect();
    let skip = (range.start() % 8) as usize;
    bytes[skip..][..range.len() as usize].to_vec()
}

pub(crate) async fn put(store: &Store, id: &ObjectId, range: ByteRange) -> Result<(), NotStored> {
    let frames = content(id, range).chunks(100_000).map(Bytes::copy_from_slice).collect();
    store.put(id, range, frames).await
}

/// Reads the first piece of `range`; whatever comes is compared with what the object has there.
pub(crate) async fn read(store: &Store, id: &ObjectId, range: ByteRange) -> Option<(Bytes, Tier)> {
    match store.read(id, range).await {
        Found::Hit { bytes, tier } => {
            assert!(!bytes.is_empty() && bytes.len() as u64 <= range.len());
            let got = self::range(range.start(), range.start() + bytes.len() as u64);
            assert!(bytes == content(id, got), "wrong bytes of {id} at {got}");
            Some((bytes, tier))
        }
        Found::Miss => None,
        Found::Cold => panic!("read answered Cold"),
    }
}

/// Whether all of `range` is there; every byte that is there is compared.
pub(crate) async fn reads_whole(store: &Store, id: &ObjectId, mut rest: ByteRange) -> bool {
    loop {
        let Some((bytes, _)) = read(store, id, rest).await else { return false };
        match ByteRange::new(rest.start() + bytes.len() as u64, rest.end()) {
            Some(more) => rest = more,
            None => return true,
        }
    }
}

pub(crate) fn segment_files(disk: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(disk.join("segments")).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

/// Empties the page cache of all segments, and shows that it is empty.
pub(crate) fn make_cold(disk: &Path) {
    for path in segment_files(disk) {
        unmap_pages(&path);
        let file = File::open(&path).unwrap();
        forget_pages(&file);
        let len = file.metadata().unwrap().len();
        assert!(!any_resident(&file, 0..len), "{} is still in the page cache", path.display());
    }
}

/// Has the page cache forget a file, but for pages that are mapped or on their way to a client.
pub(crate) fn forget_pages(file: &File) {
    file.sync_all().unwrap();
    // SAFETY: a plain system call on an open descriptor.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

/// Whether any page of `range` is in the page cache.
pub(crate) fn any_resident(file: &File, range: Range<u64>) -> bool {
    let (file, len) = (file.try_clone().unwrap(), file.metadata().unwrap().len());
    // SAFETY: no token of this window is ever made.
    let window = unsafe { FileWindow::map(file, len, Arc::new(NoTokens)) }.unwrap();
    let mut pages = range.step_by(4096);
    pages.any(|page| window.is_resident(page..page + 1).unwrap())
}

/// Answers for a window that has no tokens.
struct NoTokens;

impl Keeper for NoTokens {
    fn vouches(&self, _: &Range<u64>, _: Option<Proof>) -> bool {
        unreachable!("nothing is sent")
    }

    fn recheck(&self, _: Range<u64>) -> Recheck {
        unreachable!("nothing is sent")
    }
}

/// Takes the pages of a file out of our page tables: the kernel keeps what a process maps, and
/// tests look at tokens, which the worker never does.
fn unmap_pages(path: &Path) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    for line in maps.lines().filter(|line| line.ends_with(path.to_str().unwrap())) {
        let (start, rest) = line.split_once('-').unwrap();
        let (end, _) = rest.split_once(' ').unwrap();
        let [start, end] = [start, end].map(|n| usize::from_str_radix(n, 16).unwrap());
        // SAFETY: a shared map of a file; the pages come back as they were when touched. The map
        // may have gone since it was listed: its owner's tests do not run in parallel with that.
        unsafe { libc::madvise(start as *mut _, end - start, libc::MADV_DONTNEED) };
    }
}

/// Where `needle` is stored.
pub(crate) fn find(disk: &Path, needle: &[u8]) -> (PathBuf, u64) {
    for path in segment_files(disk) {
        let bytes = std::fs::read(&path).unwrap();
        let mut places = (0..bytes.len()).step_by(4096);
        if let Some(at) = places.find(|at| bytes[*at..].starts_with(needle)) {
            return (path, at as u64);
        }
    }
    panic!("not on the disk");
}

/// Changes bytes of a segment behind the store's back, on the disk and not in the page cache.
pub(crate) fn overwrite(disk: &Path, file: &Path, at: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(file).unwrap().write_all_at(bytes, at).unwrap();
    make_cold(disk);
}

/// Bytes that everything below a directory takes.
pub(crate) fn bytes_below(dir: &Path) -> u64 {
    let Ok(files) = std::fs::read_dir(dir) else { return 0 };
    let of = |file: std::fs::DirEntry| match file.metadata() {
        Ok(meta) if meta.is_dir() => bytes_below(&file.path()),
        Ok(meta) => meta.blocks() * 512,
        Err(_) => 0,
    };
    files.flatten().map(of).sum()
}

pub(crate) fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(file.file_name());
        if file.file_type().unwrap().is_dir() {
            copy_tree(&file.path(), &target);
        } else {
            // A file may be gone again: the store is at work.
            let _ = std::fs::copy(file.path(), target);
        }
    }
}
