//! Whatever a disk returns, wrong bytes are found, dropped and never served.
#![allow(clippy::unwrap_used, reason = "what tests are made of")]

mod support;

use std::path::Path;
use std::sync::Arc;

use forebay_store::{Found, Store};
use forebay_types::ObjectId;
use support::*;

const SIZE: u64 = 1_000_001;

struct World {
    dir: tempfile::TempDir,
    store: Arc<Store>,
    one: ObjectId,
    two: ObjectId,
}

async fn two_objects() -> World {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(&[dir.path()], 64 * MIB)).await;
    let (one, two) = (object("one", SIZE), object("two", SIZE));
    for id in [&one, &two] {
        put(&store, id, whole(id)).await.unwrap();
    }
    World { dir, store, one, two }
}

impl World {
    fn disk(&self) -> &Path {
        self.dir.path()
    }

    /// A new process: nothing of what it knew is in memory.
    async fn restarted(self) -> Self {
        self.store.close().await;
        let store = open(config(&[self.dir.path()], 64 * MIB)).await;
        Self { store, ..self }
    }
}

fn start_of(id: &ObjectId) -> Vec<u8> {
    content(id, range(0, 4096))
}

fn is_dropped(store: &Store, id: &ObjectId) -> bool {
    let gone = store.gap(id, whole(id)) == Some(whole(id));
    gone && matches!(store.read_now(id, whole(id)), Found::Miss)
}

#[tokio::test]
async fn a_flipped_bit_is_found_by_small_and_large_reads_wherever_it_is() {
    for (at, large) in [(0, true), (499_999, true), (SIZE - 1, true), (0, false), (70_000, false)] {
        let world = two_objects().await;
        let (file, data_at) = find(world.disk(), &start_of(&world.one));
        let good = content(&world.one, range(at, at + 1));
        overwrite(world.disk(), &file, data_at + at, &[good[0] ^ 0x10]);
        let asked = if large { whole(&world.one) } else { range(at, at + 10) };
        assert!(read(&world.store, &world.one, asked).await.is_none(), "flip at {at}");
        assert!(is_dropped(&world.store, &world.one));
        assert!(reads_whole(&world.store, &world.two, whole(&world.two)).await);
        put(&world.store, &world.one, whole(&world.one)).await.unwrap();
        assert!(reads_whole(&world.store, &world.one, whole(&world.one)).await);
    }
}

#[tokio::test]
async fn what_was_dropped_stays_dropped_over_a_restart() {
    let world = two_objects().await;
    let (file, at) = find(world.disk(), &start_of(&world.one));
    overwrite(world.disk(), &file, at, &[0; 4096]);
    assert!(read(&world.store, &world.one, whole(&world.one)).await.is_none());
    let world = world.restarted().await;
    assert!(is_dropped(&world.store, &world.one));
}

#[tokio::test]
async fn what_a_killed_process_left_in_the_page_cache_is_checked_again() {
    let world = two_objects().await;
    let (file, at) = find(world.disk(), &start_of(&world.one));
    overwrite(world.disk(), &file, at + 500_000, b"flaw");
    world.store.close().await;
    let id = world.one.clone();
    // Nothing of the store's may keep pages mapped, as nothing of a killed process does.
    drop(world.store);
    // As a check does before it has compared anything.
    std::fs::read(&file).unwrap();
    let store = open(config(&[world.dir.path()], 64 * MIB)).await;
    // Opens the segment, brings in the header, and leaves the flaw alone.
    assert!(read(&store, &id, range(0, 8192)).await.is_some());
    assert!(read(&store, &id, whole(&id)).await.is_none());
    assert!(is_dropped(&store, &id));
}

#[tokio::test]
async fn bytes_outside_a_flaw_are_served_until_somebody_meets_it() {
    let world = two_objects().await;
    let (file, at) = find(world.disk(), &start_of(&world.one));
    overwrite(world.disk(), &file, at + 8192, &[0; 4096]);
    assert!(read(&world.store, &world.one, range(0, 8192)).await.is_some());
    assert!(read(&world.store, &world.one, range(12_288, 60_000)).await.is_some());
    assert!(read(&world.store, &world.one, range(8191, 8193)).await.is_none());
    assert!(is_dropped(&world.store, &world.one));
}

#[tokio::test]
async fn swapped_extents_with_good_checksums_are_found() {
    let world = two_objects().await.restarted().await;
    let (file_one, data_one) = find(world.disk(), &start_of(&world.one));
    let (file_two, data_two) = find(world.disk(), &start_of(&world.two));
    assert_eq!(file_one, file_two);
    let bytes = std::fs::read(&file_one).unwrap();
    // Header and data, which is what a write that the disk misdirected looks like.
    let extent = |data: u64| &bytes[data as usize - 4096..][..SIZE as usize + 4096];
    overwrite(world.disk(), &file_one, data_two - 4096, extent(data_one));
    overwrite(world.disk(), &file_one, data_one - 4096, extent(data_two));
    for id in [&world.one, &world.two] {
        assert!(read(&world.store, id, whole(id)).await.is_none());
        assert!(is_dropped(&world.store, id));
    }
}

#[tokio::test]
async fn swapped_data_under_the_right_headers_is_found() {
    let world = two_objects().await;
    let (file, data_one) = find(world.disk(), &start_of(&world.one));
    overwrite(world.disk(), &file, data_one, &content(&world.two, whole(&world.two)));
    assert!(read(&world.store, &world.one, range(5, 500)).await.is_none());
    assert!(is_dropped(&world.store, &world.one));
}

#[tokio::test]
async fn a_damaged_header_is_found() {
    for (at, bytes) in [
        (0, vec![0; 4096]),
        (8, vec![9]),
        (12, vec![0xff; 4]),
        (60, vec![0xff; 4]),
        (300, vec![1; 700]),
    ] {
        let world = two_objects().await.restarted().await;
        let (file, data_at) = find(world.disk(), &start_of(&world.one));
        overwrite(world.disk(), &file, data_at - 4096 + at, &bytes);
        assert!(read(&world.store, &world.one, range(0, 100)).await.is_none(), "at {at}");
        assert!(is_dropped(&world.store, &world.one));
        assert!(reads_whole(&world.store, &world.two, whole(&world.two)).await);
    }
}

#[tokio::test]
async fn a_segment_that_is_not_what_its_name_says_is_never_read() {
    let world = two_objects().await.restarted().await;
    let file = segment_files(world.disk()).remove(0);
    overwrite(world.disk(), &file, 0, &[0; 64]);
    assert!(read(&world.store, &world.one, whole(&world.one)).await.is_none());
    assert!(read(&world.store, &world.two, whole(&world.two)).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_concurrent_readers_of_a_flaw_none_gets_it() {
    for _ in 0..10 {
        let world = two_objects().await;
        let (file, at) = find(world.disk(), &start_of(&world.one));
        overwrite(world.disk(), &file, at + 500_000, b"flaw");
        let readers = (0..32u64).map(|i| {
            let (store, id) = (Arc::clone(&world.store), world.one.clone());
            // Every piece of 100,000 bytes and more contains the flaw, small ones do not.
            let asked = range(i * 15_000, SIZE - i * 100);
            forebay_rt::spawn(async move { read(&store, &id, asked).await.is_some() })
        });
        for reader in readers.collect::<Vec<_>>() {
            assert!(!reader.await.unwrap());
        }
    }
}
