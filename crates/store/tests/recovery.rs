//! What a store keeps over its end, orderly or not, and what it refuses to open.
#![allow(clippy::unwrap_used, reason = "what tests are made of")]

mod support;

use std::path::Path;
use std::sync::Arc;

use forebay_rt::SystemClock;
use forebay_store::{Store, StoreError};
use support::*;

#[tokio::test]
async fn a_restart_keeps_everything_and_is_warm_before_the_index_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let objects: Vec<_> = (0..300).map(|i| object(&format!("o{i}"), 40 * KIB + i)).collect();
    let store = open(config(&[dir.path()], 128 * MIB)).await;
    for id in &objects {
        put(&store, id, whole(id)).await.unwrap();
    }
    store.close().await;
    let store = Store::open(config(&[dir.path()], 128 * MIB), Arc::new(SystemClock)).unwrap();
    for id in &objects {
        assert_eq!(store.gap(id, whole(id)), None);
        assert!(reads_whole(&store, id, whole(id)).await);
    }
    until(|| store.status()[0].is_loaded).await;
    assert_eq!(store.status()[0].extents, 300);
}

#[tokio::test]
async fn a_store_that_was_not_closed_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let id = object("a", 20 * MIB);
    let store = open(config(&[dir.path()], 128 * MIB)).await;
    for block in forebay_types::block::spans(whole(&id)) {
        put(&store, &id, block.range).await.unwrap();
    }
    // What the kernel has when the process is killed: all writes, no flush of RocksDB.
    copy_tree(dir.path(), copy.path());
    let reopened = open(config(&[copy.path()], 128 * MIB)).await;
    assert!(reads_whole(&reopened, &id, whole(&id)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_stopped_in_the_middle_of_writing_serves_only_right_bytes() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(config(&[dir.path()], 256 * MIB)).await;
    let objects: Vec<_> = (0..160).map(|i| object(&format!("o{i}"), 500 * KIB + i)).collect();
    let writing = {
        let (store, objects) = (Arc::clone(&store), objects.clone());
        forebay_rt::spawn(async move {
            for id in &objects {
                put(&store, id, whole(id)).await.unwrap();
            }
        })
    };
    until(|| store.status()[0].extents >= 40).await;
    let (from, to) = (dir.path().to_owned(), copy.path().to_owned());
    let copying = forebay_rt::spawn_blocking(move || {
        // The index first: what is stored while the data is copied is in segments, and not in it.
        copy_tree(&from.join("index"), &to.join("index"));
        copy_tree(&from.join("segments"), &to.join("segments"));
        std::fs::copy(from.join("FOREBAY"), to.join("FOREBAY")).unwrap();
    });
    copying.await.unwrap();
    writing.await.unwrap();
    let reopened = open(config(&[copy.path()], 256 * MIB)).await;
    let mut hits = 0;
    for id in &objects {
        hits += usize::from(reads_whole(&reopened, id, whole(id)).await);
    }
    assert!(hits >= 40, "{hits} hits");
    for id in &objects {
        put(&reopened, id, whole(id)).await.unwrap();
        assert!(reads_whole(&reopened, id, whole(id)).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_segments_and_lost_data_are_misses() {
    let dir = tempfile::tempdir().unwrap();
    let objects: Vec<_> = (0..40).map(|i| object(&format!("o{i}"), MIB)).collect();
    let store = open(config(&[dir.path()], 128 * MIB)).await;
    for id in &objects {
        put(&store, id, whole(id)).await.unwrap();
    }
    store.close().await;
    // Power loss: the index reached the disk; of the data one segment did not, half of another.
    let files = segment_files(dir.path());
    assert!(files.len() >= 4);
    std::fs::remove_file(&files[0]).unwrap();
    let half = std::fs::metadata(&files[1]).unwrap().len() / 2;
    overwrite(dir.path(), &files[1], half, &vec![0; half as usize]);
    let store = open(config(&[dir.path()], 128 * MIB)).await;
    let mut hits = 0;
    for id in &objects {
        hits += usize::from(reads_whole(&store, id, whole(id)).await);
    }
    assert!((20..39).contains(&hits), "{hits} hits");
    for id in &objects {
        put(&store, id, whole(id)).await.unwrap();
        assert!(reads_whole(&store, id, whole(id)).await);
    }
}

#[tokio::test]
async fn a_corrupt_index_is_a_cold_start() {
    let dir = tempfile::tempdir().unwrap();
    let id = object("a", MIB);
    let store = open(config(&[dir.path()], 64 * MIB)).await;
    put(&store, &id, whole(&id)).await.unwrap();
    store.close().await;
    for file in std::fs::read_dir(dir.path().join("index")).unwrap().flatten() {
        if file.file_name().to_string_lossy().starts_with("MANIFEST") {
            std::fs::write(file.path(), b"no manifest").unwrap();
        }
    }
    let store = open(config(&[dir.path()], 64 * MIB)).await;
    assert!(read(&store, &id, whole(&id)).await.is_none());
    put(&store, &id, whole(&id)).await.unwrap();
    assert!(reads_whole(&store, &id, whole(&id)).await);
}

fn refusal(dir: &Path) -> StoreError {
    Store::open(config(&[dir], 64 * MIB), Arc::new(SystemClock)).unwrap_err()
}

#[tokio::test]
async fn a_directory_in_use_is_refused_until_the_store_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(&[dir.path()], 64 * MIB)).await;
    assert!(matches!(refusal(dir.path()), StoreError::InUse { .. }));
    store.close().await;
    open(config(&[dir.path()], 64 * MIB)).await;
}

#[tokio::test]
async fn an_unknown_format_version_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let identity = br#"{"format": 2, "from": "the future"}"#;
    std::fs::write(dir.path().join("FOREBAY"), identity).unwrap();
    let refused = refusal(dir.path());
    assert!(matches!(refused, StoreError::UnknownFormat { found: 2, .. }));
    assert!(refused.to_string().contains("format version 2"), "{refused}");
    assert_eq!(std::fs::read(dir.path().join("FOREBAY")).unwrap(), identity);
}

#[tokio::test]
async fn nonsense_configurations_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let clock = || Arc::new(SystemClock);
    let none = Store::open(config(&[], MIB), clock());
    assert!(matches!(none, Err(StoreError::NoDisks)));
    let small = Store::open(config(&[dir.path()], MIB), clock());
    assert!(matches!(small, Err(StoreError::TooSmall { .. })));
}

#[tokio::test]
async fn heads_survive_a_restart_until_they_are_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(&[dir.path()], 64 * MIB)).await;
    let id = object("a", MIB);
    assert!(store.recall(&name("a")).await.is_none());
    put(&store, &id, whole(&id)).await.unwrap();
    store.remember(&name("a"), &head(MIB)).await;
    store.remember(&name("b"), &head(MIB)).await;
    store.close().await;
    let store = open(config(&[dir.path()], 64 * MIB)).await;
    assert_eq!(store.recall(&name("a")).await.unwrap().stamp, head(MIB).stamp);
    store.forget(&name("a")).await;
    assert!(store.recall(&name("a")).await.is_none());
    store.close().await;
    let store = open(config(&[dir.path()], 64 * MIB)).await;
    assert!(store.recall(&name("a")).await.is_none());
    assert!(store.recall(&name("b")).await.is_some());
}
