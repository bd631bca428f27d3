//! Windows, their tokens, and who is in memory.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use bytes::Bytes;

use super::{Segment, TestKeeper, map, random_bytes};
use crate::FileWindow;
use crate::registry::resolve;

#[test]
fn a_token_read_through_gives_the_bytes_of_its_file() {
    let segment = Segment::random(40, 100_000);
    let token = segment.window.token(1_000..90_000, ());
    assert!(token == segment.bytes[1_000..90_000]);
    assert!(token.slice(500..600) == segment.bytes[1_500..1_600]);
}

#[test]
fn the_last_part_of_a_token_frees_the_pin_and_then_the_window() {
    let segment = Segment::random(41, 100_000);
    let window = Arc::downgrade(&segment.window);
    let pin = Arc::new(());
    let mut token = segment.window.token(0..100_000, Arc::clone(&pin));
    let part = token.split_to(10);
    drop((segment, token));
    assert_eq!(Arc::strong_count(&pin), 2);
    assert!(window.upgrade().is_some());
    drop(part);
    assert_eq!(Arc::strong_count(&pin), 1);
    assert!(window.upgrade().is_none());
}

#[test]
fn an_empty_token_pins_nothing() {
    let segment = Segment::random(42, 100_000);
    let pin = Arc::new(());
    assert!(segment.window.token(100_000..100_000, Arc::clone(&pin)).is_empty());
    assert_eq!(Arc::strong_count(&pin), 1);
}

#[test]
#[should_panic(expected = "not within a window of 100000 bytes")]
fn a_token_beyond_the_window_cannot_be_had() {
    Segment::random(43, 100_000).window.token(99_999..100_001, ());
}

#[test]
#[allow(unsafe_code, reason = "maps")]
fn a_file_is_not_mapped_beyond_its_end() {
    for (file_bytes, len_bytes) in [(0, 0), (10, 0), (10, 11)] {
        let file = tempfile::tempfile().unwrap();
        file.set_len(file_bytes).unwrap();
        let keeper = TestKeeper::of(&file);
        // SAFETY: the file is not touched again.
        let error = unsafe { FileWindow::map(file, len_bytes, keeper) }.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}

#[test]
fn memory_outside_windows_belongs_to_no_file() {
    let segment = Segment::random(44, 100_000);
    let heap = random_bytes(44, 100_000);
    assert!(resolve(&heap).is_none());
    assert!(resolve(b"static").is_none());
    assert!(resolve(&[]).is_none());
    assert!(resolve(&segment.window.token(5..6, ())).is_some());
}

#[test]
fn addresses_that_are_used_again_belong_to_their_new_owner() {
    // The kernel likes to give a new map the addresses of the last one that went.
    let mut reused = 0;
    let mut last = std::ptr::null();
    let mut fillers = Vec::new();
    for seed in 0..200 {
        let window = Segment::random(seed, 4_096 * 3).window;
        let token = window.token(0..window.len_bytes(), ());
        reused += u32::from(token.as_ptr() == last);
        last = token.as_ptr();
        let found = resolve(&token).unwrap();
        assert_eq!(found.window.file().as_raw_fd(), window.file().as_raw_fd());
        drop((token, window));
        // Keeps descriptor numbers from repeating as addresses do.
        fillers.push(File::open("/dev/null").unwrap());
    }
    assert!(reused > 0, "the test tests nothing where addresses are not used again");
}

#[test]
fn every_thread_resolves_what_any_thread_maps() {
    const WINDOWS_PER_THREAD: u64 = 300;
    let (give, take) = sync_channel::<(Bytes, i32, u64)>(16);
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let give = give.clone();
            threads.spawn(move || {
                for n in 0..WINDOWS_PER_THREAD {
                    let window = Segment::random(thread, 20_000).window;
                    let at = n * 20;
                    let heap = Bytes::from(random_bytes(n, 20_000));
                    give.send((heap, -1, 0)).unwrap();
                    give.send((window.token(at..20_000, ()), window.file().as_raw_fd(), at))
                        .unwrap();
                }
            });
        }
        drop(give);
        let mut resolved = 0;
        for (bytes, file, offset) in take {
            let found =
                resolve(&bytes).map(|slice| (slice.window.file().as_raw_fd(), slice.offset));
            assert_eq!(found, (file >= 0).then_some((file, offset)));
            resolved += u64::from(found.is_some());
        }
        assert_eq!(resolved, 4 * WINDOWS_PER_THREAD);
    });
}

#[test]
fn residency_follows_the_page_cache() {
    let window = Segment::random(45, 1 << 20).window;
    window.file().sync_all().unwrap();
    let (first, rest) = (0..4_096, 4_096..1 << 20);
    assert!(window.is_resident(first.clone()).unwrap());
    assert!(window.is_resident(rest.clone()).unwrap());

    forget_pages(&window);
    assert!(!window.is_resident(first.clone()).unwrap());
    assert!(!window.is_resident(rest.clone()).unwrap());

    read_at(&window, 0, 4_096);
    assert!(window.is_resident(first.clone()).unwrap());
    assert!(window.is_resident(1..4_095).unwrap());
    assert!(!window.is_resident(4_095..4_097).unwrap(), "one page of two");

    read_at(&window, 4_096, (1 << 20) - 4_096);
    assert!(window.is_resident(rest).unwrap());
}

#[test]
fn residency_is_asked_only_within_the_window() {
    let window = Segment::random(46, 10_000).window;
    assert!(window.is_resident(10_000..10_000).unwrap(), "of nothing, nothing is missing");
    let error = window.is_resident(9_999..10_001).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

/// Drops the file's pages from the page cache, and switches read-ahead off.
#[allow(unsafe_code, reason = "std has no fadvise")]
pub(crate) fn forget_pages(window: &FileWindow) {
    for advice in [libc::POSIX_FADV_RANDOM, libc::POSIX_FADV_DONTNEED] {
        // SAFETY: takes an open descriptor and numbers.
        let code = unsafe { libc::posix_fadvise(window.file().as_raw_fd(), 0, 0, advice) };
        assert_eq!(code, 0);
    }
}

pub(crate) fn read_at(window: &FileWindow, offset: u64, len: usize) {
    window.file().read_exact_at(&mut vec![0; len], offset).unwrap();
}

#[test]
fn a_second_window_of_one_file_is_a_window_of_its_own() {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(&random_bytes(47, 10_000), 0).unwrap();
    let one = map(file.try_clone().unwrap());
    let two = map(file);
    let token = two.token(10..20, ());
    drop(one);
    assert_eq!(resolve(&token).unwrap().window.file().as_raw_fd(), two.file().as_raw_fd());
}
