//! Each page is fetched from the origin at most once per version.

use forebay_testkit::{Op, PatternSet};
use forebay_tests::{BUCKET, Setup, World, is_long, read};
use forebay_types::ByteRange;

const MIB: u64 = 1 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_100_kib_range_of_a_cold_1_gib_object_fetches_192_kib_once_and_keeps_it() {
    let set = PatternSet::new(BUCKET, "big-", 1, 1 << 30);
    let world = World::start(Setup::default(), &[&set]).await.unwrap();
    let start = 512 * MIB + 12_345;
    let range = ByteRange::new(start, start + (100 << 10));
    for _ in 0..3 {
        read(&world.reader().unwrap(), &set.key(0), range).await.unwrap();
    }
    let counts = world.origin.log().counts();
    assert!(counts.bytes_sent <= 192 << 10, "{} bytes", counts.bytes_sent);
    assert_eq!(world.origin.log().requests(Op::GetObject), 1);
    eprintln!("100 KiB of 1 GiB: {} bytes from the origin in one request", counts.bytes_sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_cold_readers_of_one_object_ask_for_each_page_once() {
    let size = if is_long() { 1024 * MIB } else { 128 * MIB };
    let set = PatternSet::new(BUCKET, "herd-", 1, size);
    let world = World::start(Setup::default(), &[&set]).await.unwrap();
    herd(&world, &set.key(0), 16).await;
    assert_each_page_once(&world, &set.key(0), size);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_herd_whose_first_reader_goes_away_asks_for_each_page_once() {
    let size = if is_long() { 1024 * MIB } else { 128 * MIB };
    let set = PatternSet::new(BUCKET, "left-", 1, size);
    let world = World::start(Setup::default(), &[&set]).await.unwrap();
    let mut first = world.reader().unwrap().get(BUCKET, &set.key(0), None).await.unwrap();
    first.chunk().await.unwrap().expect("a first chunk");
    drop(first);
    herd(&world, &set.key(0), 15).await;
    assert_each_page_once(&world, &set.key(0), size);
}

#[tokio::test(flavor = "multi_thread")]
async fn small_objects_cost_one_origin_request_each_and_a_second_epoch_none() {
    let set = PatternSet { size_max_bytes: 120_000, ..PatternSet::new(BUCKET, "s/", 500, 80_000) };
    let world = World::start(Setup::default(), &[&set]).await.unwrap();
    let reader = world.reader().unwrap();
    for epoch in 1..=2 {
        world.origin.log().reset();
        for index in 0..set.count {
            read(&reader, &set.key(index), None).await.unwrap();
        }
        let expected = if epoch == 1 { set.count } else { 0 };
        assert_eq!(world.origin.log().counts().requests, expected, "epoch {epoch}");
    }
}

async fn herd(world: &World, key: &str, readers: usize) {
    let mut reading = tokio::task::JoinSet::new();
    for _ in 0..readers {
        let (reader, key) = (world.reader().unwrap(), key.to_owned());
        reading.spawn(async move { read(&reader, &key, None).await });
    }
    while let Some(result) = reading.join_next().await {
        result.unwrap().unwrap();
    }
}

fn assert_each_page_once(world: &World, key: &str, size: u64) {
    let pages = world.pages_asked(key);
    assert_eq!(pages.len() as u64, size.div_ceil(forebay_types::PAGE_BYTES));
    let most = pages.values().max();
    assert_eq!(most, Some(&1), "a page was asked for {most:?} times");
    assert_eq!(world.origin.log().counts().bytes_sent, size);
}
