//! Each page is fetched once per cluster, whichever worker is read.

use std::time::Duration;

use forebay_testkit::reader::UpTo;
use forebay_testkit::{PatternSet, Shape};
use forebay_tests::{BUCKET, ClusterSetup, ClusterWorld, is_long};
use forebay_types::PAGE_BYTES;

const MIB: u64 = 1 << 20;
const READERS: usize = 48;

#[tokio::test(flavor = "multi_thread")]
async fn forty_eight_cold_readers_through_three_workers_ask_for_each_page_once() {
    let size = if is_long() { 1024 * MIB } else { 128 * MIB };
    let set = PatternSet::new(BUCKET, "herd-", 1, size);
    let world = ClusterWorld::start(ClusterSetup::default(), &[&set]).await.unwrap();
    let mut herd = start_herd(&world, &set.key(0));
    while let Some(read) = herd.join_next().await {
        assert_eq!(read.unwrap().unwrap().bytes, size);
    }
    let pages = world.pages_asked(&set.key(0));
    assert_eq!(pages.len() as u64, size.div_ceil(PAGE_BYTES));
    assert_eq!(pages.values().max(), Some(&1));
    assert_eq!(world.origin.log().counts().bytes_sent, size);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_under_a_cold_herd_makes_no_page_asked_more_than_twice() {
    let size = if is_long() { 1024 * MIB } else { 256 * MIB };
    let set = PatternSet::new(BUCKET, "killed-", 1, size);
    let shape = Shape::distant(Duration::from_millis(15), 60_000_000);
    let setup = ClusterSetup { shape, read_ahead_blocks: 2, ..ClusterSetup::default() };
    let mut world = ClusterWorld::start(setup, &[&set]).await.unwrap();
    let mut herd = start_herd(&world, &set.key(0));
    let a_third_came = size / 3;
    while world.origin.log().counts().bytes_sent < a_third_came {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    world.cluster.workers[1].kill_9().unwrap();
    while let Some(read) = herd.join_next().await {
        assert_eq!(read.unwrap().unwrap().bytes, size);
    }
    let pages = world.pages_asked(&set.key(0));
    let again = pages.values().filter(|asked| **asked == 2).count();
    eprintln!("{again} of {} pages were asked for twice", pages.len());
    assert!(pages.values().all(|asked| *asked <= 2), "{:?}", pages.values().max());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_epoch_through_any_worker_is_the_second_one_of_all() {
    let set = PatternSet { size_max_bytes: 120_000, ..PatternSet::new(BUCKET, "s/", 600, 80_000) };
    let world = ClusterWorld::start(ClusterSetup::default(), &[&set]).await.unwrap();
    for epoch in 1..=3u64 {
        world.origin.log().reset();
        let reader = world.reader(epoch as usize - 1).unwrap();
        for index in 0..set.count {
            reader.verify_get(BUCKET, &set.key(index), None, &UpTo(1)).await.unwrap();
        }
        let expected = if epoch == 1 { set.count } else { 0 };
        assert_eq!(world.origin.log().counts().requests, expected, "epoch {epoch}");
    }
}

type Herd = tokio::task::JoinSet<
    Result<forebay_testkit::reader::Verified, forebay_testkit::reader::VerifyError>,
>;

fn start_herd(world: &ClusterWorld, key: &str) -> Herd {
    let mut herd = Herd::new();
    for first in 0..READERS {
        let (any, key) = (world.any_reader().unwrap(), key.to_owned());
        herd.spawn(async move { any.verify_get(first, (BUCKET, &key), None, &UpTo(1)).await });
    }
    herd
}
