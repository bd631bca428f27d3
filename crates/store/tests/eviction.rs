//! The disk never holds more than it may, and keeps what is used.
#![allow(clippy::unwrap_used, reason = "what tests are made of")]

mod support;

use std::time::Duration;

use forebay_rt::{Clock, SystemClock};
use forebay_store::{DiskStatus, Store};
use support::*;

const CAPACITY: u64 = 64 * MIB;

fn status(store: &Store) -> DiskStatus {
    store.status().remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_of_four_times_the_cache_stays_under_its_capacity() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(&[dir.path()], CAPACITY)).await;
    let objects: Vec<_> = (0..256).map(|i| object(&format!("o{i}"), MIB + i)).collect();
    let mut stored = 0;
    for id in &objects {
        stored += u64::from(put(&store, id, whole(id)).await.is_ok());
        assert!(bytes_below(dir.path()) <= CAPACITY);
        assert!(status(&store).used_bytes <= CAPACITY);
    }
    assert!(stored >= 250, "{stored} of 256 stored");
    let mut kept = 0;
    for id in &objects {
        kept += u64::from(reads_whole(&store, id, whole(id)).await);
    }
    assert!((32..64).contains(&kept), "{kept} MiB kept of 64");
    assert!(reads_whole(&store, &objects[255], whole(&objects[255])).await);
    assert_eq!(store.gap(&objects[0], range(0, MIB)), Some(range(0, MIB)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_does_not_flush_what_is_read_again_and_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(&[dir.path()], CAPACITY)).await;
    let hot: Vec<_> = (0..8).map(|i| object(&format!("hot{i}"), 300_000)).collect();
    let cooled = object("cooled", 300_000);
    for id in hot.iter().chain([&cooled]) {
        put(&store, id, whole(id)).await.unwrap();
    }
    for i in 0..192 {
        let id = object(&format!("scan{i}"), MIB);
        let _ = put(&store, &id, whole(&id)).await;
        for id in &hot {
            assert!(reads_whole(&store, id, whole(id)).await, "{id} lost after {i} MiB");
        }
        if i < 20 {
            assert!(reads_whole(&store, &cooled, whole(&cooled)).await);
            store.cool(&cooled);
        }
    }
    assert!(read(&store, &cooled, whole(&cooled)).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evicted_segment_stays_readable_and_counted_while_a_token_is_out() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(&[dir.path()], CAPACITY)).await;
    let id = object("held", MIB);
    put(&store, &id, whole(&id)).await.unwrap();
    let (token, _) = read(&store, &id, whole(&id)).await.unwrap();
    let file = segment_files(dir.path()).remove(0);
    for i in 0.. {
        if !file.exists() {
            break;
        }
        assert!(i < 256, "never evicted");
        let id = object(&format!("o{i}"), MIB);
        let _ = put(&store, &id, whole(&id)).await;
        assert!(status(&store).used_bytes <= CAPACITY);
    }
    assert_eq!(token, content(&id, whole(&id)));
    // Nothing is written now, so only the token's segment can give space back.
    let used_bytes = || status(&store).used_bytes;
    until(|| used_bytes() + 8 * MIB <= CAPACITY).await;
    let before = used_bytes();
    drop(token);
    until(|| used_bytes() + 7 * MIB < before).await;
}

#[test]
fn the_file_of_an_evicted_segment_is_not_closed_on_the_thread_of_its_last_reader() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let store = open(config(&[dir.path()], CAPACITY)).await;
        let id = object("held", MIB);
        put(&store, &id, whole(&id)).await.unwrap();
        let (token, _) = read(&store, &id, whole(&id)).await.unwrap();
        let file = segment_files(dir.path()).remove(0);
        for i in 0.. {
            if !file.exists() {
                break;
            }
            assert!(i < 256, "never evicted");
            let id = object(&format!("o{i}"), MIB);
            let _ = put(&store, &id, whole(&id)).await;
        }
        let is_open = || {
            let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            let mut files = files.filter_map(|entry| std::fs::read_link(entry.path()).ok());
            files.any(|path| path.to_string_lossy().starts_with(file.to_str().unwrap()))
        };
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let others = forebay_rt::spawn_blocking(move || wait.recv());
        drop(token);
        assert!(is_open(), "closed on this thread");
        release.send(()).unwrap();
        others.await.unwrap().unwrap();
        until(|| !is_open()).await;
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_hold_retired_segments_do_not_cost_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(&[dir.path()], CAPACITY)).await;
    let first = object("o0", MIB);
    put(&store, &first, whole(&first)).await.unwrap();
    let first_file = segment_files(dir.path()).remove(0);
    let mut tokens = vec![read(&store, &first, whole(&first)).await.unwrap()];
    let (mut before, mut started) = (Vec::new(), SystemClock.now());
    for i in 1.. {
        if !first_file.exists() {
            break;
        }
        assert!(i < 256, "never evicted");
        (before, started) = (segment_files(dir.path()), SystemClock.now());
        let id = object(&format!("o{i}"), MIB);
        if put(&store, &id, whole(&id)).await.is_ok() {
            tokens.extend(read(&store, &id, whole(&id)).await);
        }
    }
    for i in 0.. {
        if SystemClock.now().duration_since(started) > Duration::from_millis(900) {
            break;
        }
        let id = object(&format!("more{i}"), MIB);
        let _ = put(&store, &id, whole(&id)).await;
        SystemClock.sleep(Duration::from_millis(50)).await;
    }
    let lost = before.iter().filter(|file| !file.exists()).count() as u64;
    // One more a second: a reader may be there for good.
    let allowed = 1 + SystemClock.now().duration_since(started).as_secs();
    assert!(lost <= allowed, "{lost} of {} lost, {allowed} allowed", before.len());
    assert_eq!(tokens[0].0, content(&first, whole(&first)));
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_go_with_their_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(&[dir.path()], CAPACITY)).await;
    let hot = object("hot", MIB);
    for i in 0..150 {
        let id = object(&format!("o{i}"), MIB);
        if put(&store, &id, whole(&id)).await.is_ok() {
            store.remember(&name(&format!("o{i}")), &head(MIB)).await;
        }
        if i == 0 {
            put(&store, &hot, whole(&hot)).await.unwrap();
            store.remember(&name("hot"), &head(MIB)).await;
        }
        assert!(reads_whole(&store, &hot, whole(&hot)).await);
    }
    assert!(store.recall(&name("o0")).await.is_none());
    assert!(store.recall(&name("o149")).await.is_some());
    assert!(store.recall(&name("hot")).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_blocks_fit_into_a_small_disk_with_small_segments() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(&[dir.path()], CAPACITY);
    config.segment_bytes = Some(MIB);
    let store = open(config).await;
    for i in 0..32 {
        let id = object(&format!("o{i}"), 8 * MIB);
        put(&store, &id, whole(&id)).await.unwrap();
        assert!(reads_whole(&store, &id, whole(&id)).await);
        assert!(bytes_below(dir.path()) <= CAPACITY);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_smaller_capacity_is_kept_to_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(&[dir.path()], CAPACITY)).await;
    for i in 0..40 {
        let id = object(&format!("o{i}"), MIB);
        put(&store, &id, whole(&id)).await.unwrap();
    }
    store.close().await;
    let store = open(config(&[dir.path()], CAPACITY / 2)).await;
    until(|| bytes_below(dir.path()) <= CAPACITY / 2).await;
    assert!(reads_whole(&store, &object("o39", MIB), range(0, MIB)).await);
}
