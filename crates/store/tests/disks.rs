//! Several disks: each is on its own, and the store goes on without any of them.
#![allow(clippy::unwrap_used, reason = "what tests are made of")]

mod support;

use forebay_store::{DiskState, Store};
use forebay_types::ObjectId;
use support::*;

async fn hits(store: &Store, objects: &[ObjectId]) -> usize {
    let mut hits = 0;
    for id in objects {
        hits += usize::from(reads_whole(store, id, whole(id)).await);
    }
    hits
}

fn objects(prefix: &str, count: u64) -> Vec<ObjectId> {
    (0..count).map(|i| object(&format!("{prefix}{i}"), 200_000 + i)).collect()
}

#[tokio::test]
async fn blocks_spread_over_disks_and_losing_one_loses_only_its_own() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(config(&[a.path(), b.path()], 64 * MIB)).await;
    let objects = objects("o", 100);
    for id in &objects {
        put(&store, id, whole(id)).await.unwrap();
    }
    let extents: Vec<u64> = store.status().iter().map(|disk| disk.extents).collect();
    assert_eq!(extents.iter().sum::<u64>(), 100);
    assert!(extents.iter().all(|count| *count > 25), "{extents:?}");
    store.close().await;

    let store = open(config(&[b.path()], 64 * MIB)).await;
    assert_eq!(hits(&store, &objects).await as u64, extents[1]);
    for id in &objects {
        put(&store, id, whole(id)).await.unwrap();
    }
    assert_eq!(hits(&store, &objects).await, 100);
    store.close().await;

    let store = open(config(&[a.path(), b.path()], 64 * MIB)).await;
    assert_eq!(hits(&store, &objects).await, 100, "the first disk has kept its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_goes_away_takes_only_itself_out_and_comes_back() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let disk = a.path().join("disk");
    let store = open(config(&[&disk, b.path()], 32 * MIB)).await;
    let state = || store.status()[0].state;
    let away = a.path().join("away");
    std::fs::rename(&disk, &away).unwrap();
    for i in 0.. {
        if state() == DiskState::Offline {
            break;
        }
        assert!(i < 200, "not taken out");
        let id = object(&format!("o{i}"), MIB);
        let _ = put(&store, &id, whole(&id)).await;
    }
    let meanwhile = objects("m", 20);
    for id in &meanwhile {
        put(&store, id, whole(id)).await.unwrap();
    }
    assert_eq!(hits(&store, &meanwhile).await, 20);

    std::fs::rename(&away, &disk).unwrap();
    until(|| state() == DiskState::Healthy).await;
    let after = objects("a", 40);
    for id in &after {
        put(&store, id, whole(id)).await.unwrap();
    }
    assert_eq!(hits(&store, &after).await, 40);
    assert!(store.status()[0].extents > 0);
}

#[tokio::test]
async fn a_disk_that_cannot_be_opened_is_left_out() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let no_directory = a.path().join("file");
    std::fs::write(&no_directory, b"").unwrap();
    let store = open_partly(&no_directory, b.path()).await;
    let status = store.status();
    assert_eq!(status[0].state, DiskState::Healthy);
    assert_eq!((&status[1].path, status[1].state), (&no_directory, DiskState::Offline));
    let id = object("a", MIB);
    put(&store, &id, whole(&id)).await.unwrap();
    assert!(reads_whole(&store, &id, whole(&id)).await);
}

async fn open_partly(bad: &std::path::Path, good: &std::path::Path) -> std::sync::Arc<Store> {
    let clock = std::sync::Arc::new(forebay_rt::SystemClock);
    let store = Store::open(config(&[bad, good], 64 * MIB), clock).unwrap();
    until(|| store.status()[0].is_loaded).await;
    store
}

#[tokio::test]
async fn heads_are_remembered_once_whichever_disk_their_version_is_on() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(config(&[a.path(), b.path()], 64 * MIB)).await;
    for id in objects("o", 10) {
        put(&store, &id, whole(&id)).await.unwrap();
    }
    for version in 0..10 {
        let stamp = stamp(&format!("\"{version}\""), 200_000);
        let head = forebay_types::ObjectHead { stamp, headers: http::HeaderMap::new() };
        store.remember(&name("k"), &head).await;
        assert_eq!(store.recall(&name("k")).await.unwrap().stamp, head.stamp);
    }
    store.forget(&name("k")).await;
    assert!(store.recall(&name("k")).await.is_none());
}
