//! What a read does when all is well, and when workers end, lie, or fall silent.

#![allow(unreachable_pub, reason = "a test target has no outside")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test target uses other parts of the fakes")]

mod fakes;

use std::sync::Arc;
use std::time::Duration;

use fakes::{Fake, Fault, Held, Seen, Version, ring};
use forebay_client::{Client, ClientConfig, OriginConfig, RangeAsk, ReadError};
use forebay_rt::{Clock, ManualClock, SeededRng, SystemClock, spawn, timeout};
use forebay_types::{BLOCK_BYTES, BlockIndex};
use futures_util::{StreamExt, TryStreamExt};
use http::StatusCode;

const MIB: u64 = 1 << 20;

/// Two workers in a ring, and the origin behind them. All have the same objects.
struct World {
    workers: [Fake; 2],
    origin: Fake,
    client: Client,
    clock: ManualClock,
}

impl World {
    async fn start() -> Self {
        let (one, two, origin) = (Fake::start().await, Fake::start().await, Fake::start().await);
        for worker in [&one, &two] {
            worker.tell(&ring(1, &[&one, &two]));
        }
        let clock = ManualClock::new();
        let mut config = ClientConfig::new(vec![one.uri()]);
        config.origin = Some(OriginConfig::new(origin.uri()));
        config.clock = Arc::new(clock.clone());
        config.rng = Arc::new(SeededRng::new(1));
        let client = Client::connect(config).await.unwrap();
        Self { workers: [one, two], origin, client, clock }
    }

    fn put(&self, key: &str, version: &Version) {
        for server in self.workers.iter().chain([&self.origin]) {
            server.put(&path(key), version);
        }
    }

    fn hold(&self, held: Held) {
        for worker in &self.workers {
            worker.hold(held);
        }
    }

    /// Positions of the owner of a block and of the other worker.
    fn places(&self, key: &str, block: u64) -> (usize, usize) {
        let owners = self.client.owners("train", key, BlockIndex(block)).unwrap();
        assert_eq!(owners.len(), 2);
        let owner = usize::from(owners[0] != self.workers[0].address.to_string());
        (owner, 1 - owner)
    }
}

fn path(key: &str) -> String {
    format!("/train/{key}")
}

/// Waits for what other tasks do.
async fn until(is_so: impl Fn() -> bool) {
    for _ in 0..2000 {
        if is_so() {
            return;
        }
        SystemClock.sleep(Duration::from_millis(5)).await;
    }
    panic!("did not happen within ten seconds");
}

#[tokio::test]
async fn the_owner_is_asked_and_nobody_else() {
    let world = World::start().await;
    let mut owned = [0, 0];
    for n in 0..40u64 {
        let (key, version) = (format!("k{n}"), Version::new(n, 1000 + n));
        world.put(&key, &version);
        let object = world.client.get("train", &key).await.unwrap();
        assert_eq!(object.head.stamp.etag.as_str(), version.etag);
        assert_eq!(object.head.headers["x-amz-meta-colour"], "blue");
        assert_eq!(object.range.unwrap().len(), 1000 + n);
        assert_eq!(object.body.bytes().await.unwrap(), version.bytes);

        let (owner, other) = world.places(&key, 0);
        assert_eq!(world.workers[owner].take_seen().len(), 1);
        assert_eq!(world.workers[other].take_seen(), []);
        owned[owner] += 1;
    }
    assert!(owned[0] > 5 && owned[1] > 5, "{owned:?}");
    assert_eq!(world.origin.take_seen(), []);
}

#[tokio::test]
async fn a_large_read_asks_every_owner_for_its_blocks_of_one_version() {
    let world = World::start().await;
    let version = Version::new(1, 9 * BLOCK_BYTES + 12345);
    world.put("shard", &version);
    let object = world.client.get("train", "shard").await.unwrap();
    assert_eq!(object.range.unwrap().len(), version.bytes.len() as u64);
    let chunks: Vec<_> = object.body.into_stream().try_collect().await.unwrap();
    assert_eq!(chunks.concat(), version.bytes);

    let seen = world.workers.each_ref().map(Fake::take_seen);
    assert_eq!(seen[0].len() + seen[1].len(), 10);
    for block in 0..10 {
        let (owner, _) = world.places("shard", block);
        let first = BlockIndex(block).start();
        let end = if block == 9 { version.bytes.len() as u64 } else { first + BLOCK_BYTES };
        let range = format!("bytes={first}-{}", end - 1);
        let asked = seen[owner].iter().find(|seen| seen.range.as_ref() == Some(&range)).unwrap();
        assert_eq!(asked.if_match, (block > 0).then(|| version.etag.clone()));
    }
}

#[tokio::test]
async fn several_blocks_are_on_their_way_at_once_and_no_more_than_the_bound() {
    let world = World::start().await;
    let version = Version::new(1, 9 * BLOCK_BYTES);
    world.put("shard", &version);
    world.hold(Held::Pinned);
    let object = world.client.get("train", "shard").await.unwrap();
    let asked = || world.workers.iter().map(Fake::count_seen).sum::<usize>();
    until(|| asked() == 1 + 4).await;
    SystemClock.sleep(Duration::from_millis(50)).await;
    assert_eq!(asked(), 1 + 4);
    world.hold(Held::Nothing);
    assert_eq!(object.body.bytes().await.unwrap(), version.bytes);
}

#[tokio::test]
async fn a_read_that_is_dropped_asks_no_more() {
    let world = World::start().await;
    world.put("shard", &Version::new(1, 40 * BLOCK_BYTES));
    drop(world.client.get("train", "shard").await.unwrap());
    SystemClock.sleep(Duration::from_millis(100)).await;
    let asked: usize = world.workers.iter().map(Fake::count_seen).sum();
    assert!(asked <= 1 + 4, "{asked}");
}

#[tokio::test]
async fn readers_that_fill_the_room_ahead_do_not_stop_each_other() {
    let world = World::start().await;
    let version = Version::new(1, 6 * BLOCK_BYTES);
    world.put("shard", &version);
    let mut bodies = Vec::new();
    for _ in 0..12 {
        bodies.push(world.client.get("train", "shard").await.unwrap().body.into_stream().boxed());
    }
    // One caller reads them in turns: the last has no room as long as the first is not read.
    let mut lens = [0; 12];
    while lens.iter().any(|len| *len < version.bytes.len()) {
        for (body, len) in bodies.iter_mut().zip(&mut lens) {
            *len += body.next().await.map_or(0, |chunk| chunk.unwrap().len());
        }
    }
}

#[tokio::test]
async fn the_next_owner_answers_for_a_dead_one() {
    let mut world = World::start().await;
    let keys: Vec<_> = (0..30).map(|n| format!("k{n}")).collect();
    let version = Version::new(1, 5000);
    for key in &keys {
        world.put(key, &version);
    }
    world.workers[0].stop().await;
    for key in &keys {
        let object = world.client.get("train", key).await.unwrap();
        assert_eq!(object.body.bytes().await.unwrap(), version.bytes);
    }
    assert_eq!(world.workers[1].take_seen().len(), 30);
    assert_eq!(world.origin.take_seen(), []);
}

#[tokio::test]
async fn a_body_cut_in_the_middle_goes_on_at_its_offset_under_if_match() {
    let world = World::start().await;
    let version = Version::new(1, 3 * MIB);
    world.put("shard", &version);
    let (owner, other) = world.places("shard", 0);
    world.workers[owner].fault(Fault::CutAfter(MIB as usize));
    let object = world.client.get("train", "shard").await.unwrap();
    assert_eq!(object.body.bytes().await.unwrap(), version.bytes);

    let seen = world.workers[other].take_seen();
    let [Seen { range: Some(range), if_match, .. }] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!(*if_match, Some(version.etag));
    let first = range.strip_prefix("bytes=").and_then(|range| range.split_once('-')).unwrap();
    let at: u64 = first.0.parse().unwrap();
    assert!((1..=MIB).contains(&at) && first.1 == (3 * MIB - 1).to_string(), "{range}");
}

#[tokio::test]
async fn blocks_cut_ahead_of_the_reader_go_on_too() {
    let world = World::start().await;
    let version = Version::new(1, 8 * BLOCK_BYTES);
    world.put("shard", &version);
    let object = world.client.get("train", "shard").await.unwrap();
    for cut in [1, 700_000, 5_000_000] {
        for worker in &world.workers {
            worker.fault(Fault::CutAfter(cut));
        }
    }
    assert_eq!(object.body.bytes().await.unwrap(), version.bytes);
}

#[tokio::test]
async fn a_worker_killed_in_mid_body_is_replaced_by_the_others() {
    let mut world = World::start().await;
    let version = Version::new(1, 12 * BLOCK_BYTES);
    world.put("shard", &version);
    let mut body = world.client.get("train", "shard").await.unwrap().body;
    let mut bytes = Vec::new();
    while bytes.len() < (3 * BLOCK_BYTES) as usize {
        bytes.extend_from_slice(&body.chunk().await.unwrap().unwrap());
    }
    world.workers[0].stop().await;
    bytes.extend_from_slice(&body.bytes().await.unwrap());
    assert!(bytes == version.bytes);
    assert_eq!(world.origin.take_seen(), []);
}

#[tokio::test]
async fn with_all_workers_dead_the_origin_is_read() {
    let mut world = World::start().await;
    let version = Version::new(1, 3 * BLOCK_BYTES);
    world.put("shard", &version);
    for worker in &mut world.workers {
        worker.stop().await;
    }
    let object = world.client.get("train", "shard").await.unwrap();
    assert_eq!(object.body.bytes().await.unwrap(), version.bytes);
    assert_eq!(world.origin.take_seen().len(), 3);
    assert_eq!(world.client.head("train", "shard").await.unwrap().stamp.size, 3 * BLOCK_BYTES);
}

#[tokio::test]
async fn a_version_that_moves_in_mid_read_is_an_error_and_not_a_mixture() {
    let old = Version::new(1, 20 * BLOCK_BYTES);
    let copied = Version { last_modified: "Thu, 02 Jan 2025 00:00:00 GMT".into(), ..old.clone() };
    let grown = Version { etag: old.etag.clone(), ..Version::new(2, 21 * BLOCK_BYTES) };
    for new in [Version::new(2, 20 * BLOCK_BYTES), Version::new(3, 10), copied, grown] {
        for ignore_if_match in [false, true] {
            let world = World::start().await;
            for worker in &world.workers {
                worker.ignore_if_match(ignore_if_match);
            }
            world.put("shard", &old);
            let mut body = world.client.get("train", "shard").await.unwrap().body;
            world.put("shard", &new);
            let mut read = 0;
            let error = loop {
                match body.chunk().await {
                    Ok(Some(chunk)) => {
                        assert_eq!(chunk, old.bytes[read..read + chunk.len()]);
                        read += chunk.len();
                    }
                    Ok(None) => panic!("a mixture of {read} bytes"),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, ReadError::VersionMoved), "{error}");
            assert!(matches!(body.chunk().await, Err(ReadError::VersionMoved)));
        }
    }
}

#[tokio::test]
async fn an_object_deleted_in_mid_read_has_moved() {
    let world = World::start().await;
    world.put("shard", &Version::new(1, MIB));
    let (owner, other) = world.places("shard", 0);
    world.workers[owner].fault(Fault::CutAfter(1000));
    world.workers[other].fault(Fault::Status(StatusCode::NOT_FOUND));
    let object = world.client.get("train", "shard").await.unwrap();
    assert!(matches!(object.body.bytes().await, Err(ReadError::VersionMoved)));
}

#[tokio::test]
async fn a_worker_that_answers_with_an_error_is_passed_over() {
    let world = World::start().await;
    let version = Version::new(1, 1000);
    world.put("k", &version);
    for status in [500, 503, 429, 301] {
        let (owner, other) = world.places("k", 0);
        world.workers[owner].fault(Fault::Status(StatusCode::from_u16(status).unwrap()));
        let object = world.client.get("train", "k").await.unwrap();
        assert_eq!(object.body.bytes().await.unwrap(), version.bytes);
        assert_eq!(world.workers[other].take_seen().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_body_that_stalls_goes_on_elsewhere() {
    let world = World::start().await;
    let version = Version::new(1, MIB);
    world.put("k", &version);
    let (owner, other) = world.places("k", 0);
    world.workers[owner].fault(Fault::StallAfter(300_000));
    let object = world.client.get("train", "k").await.unwrap();
    let bytes = spawn(object.body.bytes());
    until(|| {
        world.clock.advance(Duration::from_millis(100));
        world.workers[other].count_seen() == 1
    })
    .await;
    assert_eq!(bytes.await.unwrap().unwrap(), version.bytes);
}

#[tokio::test]
async fn a_stopped_worker_costs_one_read_its_patience_and_others_nothing() {
    let world = World::start().await;
    let version = Version::new(1, 1000);
    world.put("k", &version);
    let (owner, other) = world.places("k", 0);
    let read = || {
        let client = world.client.clone();
        let read = async move { client.get("train", "k").await.unwrap().body.bytes().await };
        spawn(timeout(&SystemClock, Duration::from_secs(20), read))
    };
    world.workers[owner].hold(Held::All);
    let first = read();
    until(|| {
        world.clock.advance(Duration::from_millis(100));
        world.workers[other].count_seen() == 1
    })
    .await;
    assert_eq!(first.await.unwrap().unwrap().unwrap(), version.bytes);

    // Time stands still: whoever asked the stopped worker would wait for ever.
    for _ in 0..20 {
        assert_eq!(read().await.unwrap().unwrap().unwrap(), version.bytes);
    }
    assert_eq!(world.workers[other].take_seen().len(), 21);

    // What it was asked before it went on is answered now; the follower finds it, and then
    // it is asked for what it owns.
    world.workers[owner].hold(Held::Nothing);
    for _ in 0..500 {
        world.clock.advance(Duration::from_millis(100));
        world.workers[other].take_seen();
        assert_eq!(read().await.unwrap().unwrap().unwrap(), version.bytes);
        if world.workers[other].take_seen().is_empty() {
            return;
        }
    }
    panic!("the worker that went on was not asked");
}

#[tokio::test]
async fn where_nobody_gives_the_bytes_the_read_ends_and_says_so() {
    let mut world = World::start().await;
    for worker in &mut world.workers {
        worker.stop().await;
    }
    world.origin.stop().await;
    let client = world.client.clone();
    let read = spawn(async move { client.get("train", "k").await });
    until(|| {
        world.clock.advance(Duration::from_millis(100));
        read.is_finished()
    })
    .await;
    let error = read.await.unwrap().unwrap_err();
    assert!(matches!(error, ReadError::Unavailable(_)), "{error}");
}

#[tokio::test]
async fn what_is_refused_is_not_asked_elsewhere() {
    let world = World::start().await;
    world.put("k", &Version::new(1, 100));
    let refusal = async |key, range| match world.client.get_range("train", key, range).await {
        Err(ReadError::Refused { status, code }) => (status.as_u16(), code),
        other => panic!("{other:?}"),
    };
    let past = RangeAsk::From { first: 100 };
    assert_eq!(refusal("k", past).await, (416, "InvalidRange".to_owned()));
    assert_eq!(refusal("none", RangeAsk::Whole).await, (404, "NoSuchKey".to_owned()));
    let backwards = RangeAsk::FromTo { first: 5, last: 4 };
    assert_eq!(refusal("k", backwards).await, (416, "InvalidRange".to_owned()));
    let asked: usize = world.workers.iter().map(Fake::count_seen).sum();
    assert_eq!((asked, world.origin.count_seen()), (2, 0));
    assert!(matches!(world.client.get("no/bucket", "k").await, Err(ReadError::Name(_))));
    assert!(matches!(world.client.head("train", "").await, Err(ReadError::Name(_))));
}

#[tokio::test]
async fn ranges_are_what_they_are_at_any_s3_server() {
    let world = World::start().await;
    let len = 2 * BLOCK_BYTES + 1000;
    let version = Version::new(1, len);
    world.put("shard", &version);
    for (range, from, to) in [
        (RangeAsk::FromTo { first: 10, last: 19 }, 10, 20),
        (
            RangeAsk::FromTo { first: BLOCK_BYTES - 5, last: BLOCK_BYTES + 4 },
            BLOCK_BYTES - 5,
            BLOCK_BYTES + 5,
        ),
        (RangeAsk::FromTo { first: 5, last: u64::MAX }, 5, len),
        (RangeAsk::From { first: BLOCK_BYTES }, BLOCK_BYTES, len),
        (RangeAsk::Suffix { len: 7 }, len - 7, len),
        (RangeAsk::Suffix { len: BLOCK_BYTES + 1 }, len - BLOCK_BYTES - 1, len),
        (RangeAsk::Suffix { len: u64::MAX }, 0, len),
    ] {
        let object = world.client.get_range("train", "shard", range).await.unwrap();
        assert_eq!(object.head.stamp.size, len);
        let said = object.range.unwrap();
        assert_eq!((said.start(), said.end()), (from, to), "{range:?}");
        let bytes = object.body.bytes().await.unwrap();
        assert!(bytes == version.bytes[from as usize..to as usize], "{range:?}");
    }
}

#[tokio::test]
async fn an_empty_object_is_read_like_any_other() {
    let world = World::start().await;
    world.put("empty", &Version::new(1, 0));
    let object = world.client.get("train", "empty").await.unwrap();
    assert_eq!((object.range, object.head.stamp.size), (None, 0));
    assert_eq!(object.body.bytes().await.unwrap(), "");
    let (owner, _) = world.places("empty", 0);
    assert_eq!(world.workers[owner].take_seen().len(), 2);
}

#[tokio::test]
async fn without_a_strong_tag_a_read_is_one_answer_or_an_error() {
    let world = World::start().await;
    let weak = Version { etag: "W/\"x\"".into(), ..Version::new(1, 2 * BLOCK_BYTES) };
    world.put("weak", &weak);
    let (owner, other) = world.places("weak", 0);
    let object = world.client.get("train", "weak").await.unwrap();
    assert_eq!(object.body.bytes().await.unwrap(), weak.bytes);
    assert_eq!(world.workers[owner].take_seen().pop().unwrap().range, None);

    let small = Version { bytes: weak.bytes.slice(..1000), ..weak };
    world.put("weak", &small);
    world.workers[owner].fault(Fault::CutAfter(500));
    let object = world.client.get("train", "weak").await.unwrap();
    assert!(matches!(object.body.bytes().await, Err(ReadError::Broken(_))));
    assert_eq!(world.workers[other].take_seen(), []);
}
