//! Which version a read may return, in each mode and after a write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use forebay_testkit::{Op, PatternSet};
use forebay_tests::{BUCKET, Setup, World, read};

const BOUND: Duration = Duration::from_secs(1);

fn setup(freshness: &'static str) -> Setup {
    let bound_seconds = (freshness == "bounded").then_some(BOUND.as_secs());
    Setup { freshness, bound_seconds, ..Setup::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn immutable_never_asks_again() {
    let set = PatternSet::new(BUCKET, "k-", 1, 300_000);
    let world = World::start(setup("immutable"), &[&set]).await.unwrap();
    let reader = world.reader().unwrap();
    read(&reader, &set.key(0), None).await.unwrap();
    world.origin.overwrite(BUCKET, &set.key(0)).unwrap();
    world.origin.log().reset();
    assert_eq!(read(&reader, &set.key(0), None).await.unwrap().version, 1);
    reader.head(BUCKET, &set.key(0)).await.unwrap();
    assert_eq!(world.origin.log().counts().requests, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn bounded_returns_the_new_version_after_its_bound_for_one_request_without_a_body() {
    let set = PatternSet::new(BUCKET, "k-", 1, 300_000);
    let world = World::start(setup("bounded"), &[&set]).await.unwrap();
    let reader = world.reader().unwrap();
    read(&reader, &set.key(0), None).await.unwrap();
    tokio::time::sleep(BOUND + BOUND / 4).await;
    world.origin.log().reset();
    read(&reader, &set.key(0), None).await.unwrap();
    assert_eq!(world.origin.log().requests(Op::HeadObject), 1);
    assert_eq!(world.origin.log().counts().bytes_sent, 0);
    world.origin.overwrite(BUCKET, &set.key(0)).unwrap();
    tokio::time::sleep(BOUND + BOUND / 4).await;
    assert_eq!(read(&reader, &set.key(0), None).await.unwrap().version, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_never_returns_a_version_older_than_the_one_current_when_the_read_began() {
    let set = PatternSet::new(BUCKET, "k-", 1, 200_000);
    let world = Arc::new(World::start(setup("strict"), &[&set]).await.unwrap());
    let current = Arc::new(AtomicU64::new(1));
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (world, current, key) = (world.clone(), current.clone(), set.key(0));
        readers.spawn(async move {
            let reader = world.reader().unwrap();
            let mut cut = 0;
            for _ in 0..60 {
                let at_least = current.load(Ordering::SeqCst);
                match read(&reader, &key, None).await {
                    Ok(got) => assert!(got.version >= at_least, "{} < {at_least}", got.version),
                    Err(error) if error.is_wrong() => panic!("{error}"),
                    // The object moved on in mid-body, or more often than a read is reopened.
                    Err(_) => cut += 1,
                }
            }
            cut
        });
    }
    for _ in 0..100 {
        let version = world.origin.overwrite(BUCKET, &set.key(0)).unwrap();
        current.store(version, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut cut = 0;
    while let Some(result) = readers.join_next().await {
        cut += result.unwrap();
    }
    eprintln!("strict: 480 reads during 100 overwrites, {cut} cut or refused, 0 old, 0 mixed");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_write_through_forebay_no_read_returns_the_older_version() {
    for freshness in ["bounded", "strict", "immutable"] {
        let world = Arc::new(World::start(setup(freshness), &[]).await.unwrap());
        let mut keys = tokio::task::JoinSet::new();
        for key in 0..4 {
            let world = world.clone();
            keys.spawn(async move { write_and_read_back(&world, &format!("w-{key}")).await });
        }
        while let Some(result) = keys.join_next().await {
            result.unwrap();
        }
    }
}

/// Each write is read back at once, while others have opens of the same key in flight.
async fn write_and_read_back(world: &World, key: &str) {
    let (writer, other) = (world.reader().unwrap(), world.reader().unwrap());
    for round in 0u8..25 {
        let body = Bytes::from(vec![round; 1000 + usize::from(round)]);
        let crossing = other.get(BUCKET, key, None);
        let writing = writer.put(BUCKET, key, body.clone());
        let (crossed, written) = tokio::join!(crossing, writing);
        written.unwrap().success().await.unwrap();
        drop(crossed);
        let got = writer.get(BUCKET, key, None).await.unwrap().success().await.unwrap();
        assert!(got == body, "round {round} of {key}: read {} bytes", got.len());
    }
    writer.delete(BUCKET, key).await.unwrap().success().await.unwrap();
    let gone = writer.get(BUCKET, key, None).await.unwrap();
    assert_eq!(gone.status, 404, "deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_key_is_asked_for_once_and_found_when_it_is_written() {
    let world = World::start(setup("bounded"), &[]).await.unwrap();
    let reader = world.reader().unwrap();
    for _ in 0..5 {
        assert_eq!(reader.get(BUCKET, "late", None).await.unwrap().status, 404);
    }
    assert!(world.object_requests() <= 2, "{}", world.object_requests());
    reader.put(BUCKET, "late", Bytes::from_static(b"here")).await.unwrap().success().await.unwrap();
    let got = reader.get(BUCKET, "late", None).await.unwrap().success().await.unwrap();
    assert_eq!(got, "here");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_cache_asks_the_origin_whatever_the_mode() {
    let set = PatternSet::new(BUCKET, "k-", 1, 1000);
    let world = World::start(setup("immutable"), &[&set]).await.unwrap();
    let reader = world.reader().unwrap();
    read(&reader, &set.key(0), None).await.unwrap();
    world.origin.overwrite(BUCKET, &set.key(0)).unwrap();
    let ask = forebay_testkit::reader::Ask::new(http::Method::GET, BUCKET, &set.key(0));
    let answer = reader.request(ask.header("cache-control", "no-cache")).await.unwrap();
    let etag = forebay_testkit::Pattern::new(BUCKET, &set.key(0), 2).etag();
    assert_eq!(answer.header("etag"), Some(etag.as_str()));
}
