//! What is stored can be listed, so that a worker that leaves can hand it over.
#![allow(clippy::unwrap_used, reason = "what tests are made of")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use forebay_rt::{Clock, SystemClock};
use forebay_store::{HeldCursor, HeldExtent, Store};
use forebay_types::ObjectId;
use support::*;

async fn all(store: &Arc<Store>, most: usize) -> Vec<HeldExtent> {
    let (mut cursor, mut found) = (Some(HeldCursor::default()), Vec::new());
    while let Some(at) = cursor {
        let page = store.held(at, most).await;
        assert!(page.extents.len() <= most);
        found.extend(page.extents);
        cursor = page.next;
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_stored_on_any_disk_is_listed_once_by_its_full_name() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let store = open(config(&[dirs[0].path(), dirs[1].path()], 64 * MIB)).await;
    let objects: Vec<_> = (0..50).map(|i| object(&format!("dir/ö {i}"), 300_000 + i)).collect();
    for id in &objects {
        put(&store, id, whole(id)).await.unwrap();
    }
    for most in [1, 7, 1000] {
        let mut found = all(&store, most).await;
        assert_eq!(found.len(), objects.len());
        found.sort_by(|one, other| one.id.canonical().cmp(other.id.canonical()));
        let mut expected = objects.clone();
        expected.sort_by(|one, other| one.canonical().cmp(other.canonical()));
        for (held, id) in found.iter().zip(&expected) {
            assert_eq!((&held.id, held.range), (id, whole(id)));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_come_first_whichever_disk_they_are_on() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let store = open(config(&[dirs[0].path(), dirs[1].path()], 64 * MIB)).await;
    for i in 0..60 {
        let id = object(&format!("o{i}"), MIB + i);
        put(&store, &id, whole(&id)).await.unwrap();
        // The times of files are that coarse.
        SystemClock.sleep(Duration::from_millis(5)).await;
    }
    let sizes: Vec<u64> = all(&store, 3).await.iter().map(|held| held.id.size() - MIB).collect();
    assert_eq!(sizes.len(), 60);
    let mean = |sizes: &[u64]| sizes.iter().sum::<u64>() / sizes.len() as u64;
    let thirds: Vec<u64> = sizes.chunks(20).map(mean).collect();
    assert!(thirds[0] > thirds[1] + 10 && thirds[1] > thirds[2] + 10, "{sizes:?}");
}

#[tokio::test]
async fn what_was_stored_in_an_earlier_life_is_listed_and_what_is_damaged_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(&[dir.path()], 64 * MIB)).await;
    let objects: Vec<_> = (0..3).map(|i| object(&format!("o{i}"), 100_000 + i)).collect();
    for id in &objects {
        put(&store, id, whole(id)).await.unwrap();
    }
    store.close().await;
    let (file, data_at) = find(dir.path(), &content(&objects[1], range(0, 4096)));
    overwrite(dir.path(), &file, data_at - 4096, &[0; 4096]);
    // Before its index is in memory, too.
    let store = Store::open(config(&[dir.path()], 64 * MIB), Arc::new(SystemClock)).unwrap();
    let mut found: Vec<_> = all(&store, 2).await.into_iter().map(|held| held.id).collect();
    found.sort_by_key(ObjectId::size);
    assert_eq!(found, [objects[0].clone(), objects[2].clone()]);
    until(|| store.status()[0].is_loaded).await;
    assert!(read(&store, &objects[1], whole(&objects[1])).await.is_none());
    assert_eq!(all(&store, 2).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn listing_goes_on_while_segments_are_evicted() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(&[dir.path()], 32 * MIB)).await;
    let id = |i: u64| object(&format!("o{i}"), MIB);
    for i in 0..20 {
        put(&store, &id(i), whole(&id(i))).await.unwrap();
    }
    let (mut cursor, mut listed, mut next) = (Some(HeldCursor::default()), 0, 20);
    while let Some(at) = cursor {
        let page = store.held(at, 2).await;
        listed += page.extents.len();
        for held in &page.extents {
            // Evicted by now, or right.
            let _ = read(&store, &held.id, held.range).await;
        }
        cursor = page.next;
        for _ in 0..4 {
            let _ = put(&store, &id(next), whole(&id(next))).await;
            next += 1;
        }
    }
    assert!(listed > 0 && next > 32, "{listed} listed while {next} were stored");
}
