//! `kill -9` at any instruction leaves a cache that opens, serves right bytes, and stays warm.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use forebay_testkit::{Op, PatternSet};
use forebay_tests::{BUCKET, Setup, World, is_long, read};

#[tokio::test(flavor = "multi_thread")]
async fn killed_under_load_again_and_again_it_stays_right_and_warm() {
    let kills = 20;
    let per_round = if is_long() { 400 } else { 100 };
    let set = PatternSet::new(BUCKET, "r/", per_round * (kills + 1), 100_000);
    let mut world = World::start(Setup::default(), &[&set]).await.unwrap();
    let (mut hits, mut earlier, mut slowest_ms) = (0, 0, 0);
    for round in 0..kills {
        let mine = round * per_round..(round + 1) * per_round;
        for index in mine.clone() {
            read(&world.reader().unwrap(), &set.key(index), None).await.unwrap();
        }
        let mut stored = Vec::new();
        for index in mine {
            if becomes_a_hit(&world, &set.key(index)).await {
                stored.push(index);
            }
        }
        let load = Load::start(&world, &set, (round + 1) * per_round);
        tokio::time::sleep(Duration::from_millis(20 + round * 7)).await;
        world.worker.process.kill_9().unwrap();
        let wrong = load.stop().await;
        assert_eq!(wrong, 0, "round {round}");
        world.restart().await.unwrap();
        slowest_ms = slowest_ms.max(world.worker.listening_after.as_millis());
        world.origin.log().reset();
        let reader = world.reader().unwrap();
        for index in &stored {
            read(&reader, &set.key(*index), None).await.unwrap();
        }
        earlier += stored.len() as u64;
        hits += stored.len() as u64 - world.origin.log().requests(Op::GetObject);
    }
    eprintln!(
        "{kills} kills under load: {hits} of {earlier} earlier hits are hits again, 0 wrong, \
         listening after at most {slowest_ms} ms"
    );
    assert!(hits * 100 >= earlier * 99, "{hits} of {earlier}");
    assert!(earlier >= kills * per_round * 9 / 10, "{earlier}");
}

/// Reads until the answer comes from the disk. What is not stored yet, because the disk is slow,
/// is served from memory, and would not be there after a kill.
async fn becomes_a_hit(world: &World, key: &str) -> bool {
    let reader = world.reader().unwrap();
    for _ in 0..500 {
        if read(&reader, key, None).await.unwrap().cache.as_deref() == Some("hit") {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_told_to_stop_finishes_what_is_in_flight() {
    let set = PatternSet::new(BUCKET, "t-", 1, 64 << 20);
    let mut world = World::start(Setup::default(), &[&set]).await.unwrap();
    let mut answer = world.reader().unwrap().get(BUCKET, &set.key(0), None).await.unwrap();
    let mut got = answer.chunk().await.unwrap().expect("a first chunk").len() as u64;
    let reading = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        while let Some(bytes) = answer.chunk().await.unwrap() {
            got += bytes.len() as u64;
        }
        got
    };
    let (got, status) = tokio::join!(reading, world.worker.stop());
    assert_eq!(got, 64 << 20);
    assert!(status.unwrap().success());
}

/// Readers of objects that are not cached yet, while the worker is killed under them.
struct Load {
    ended: Arc<AtomicBool>,
    wrong: Arc<AtomicU64>,
    readers: tokio::task::JoinSet<()>,
}

impl Load {
    fn start(world: &World, set: &PatternSet, first: u64) -> Self {
        let (ended, wrong): (Arc<AtomicBool>, Arc<AtomicU64>) = Default::default();
        let mut readers = tokio::task::JoinSet::new();
        for lane in 0..8 {
            let (reader, set) = (world.reader().unwrap(), set.clone());
            let (ended, wrong) = (ended.clone(), wrong.clone());
            readers.spawn(async move {
                let mut index = first + lane;
                while !ended.load(Ordering::Relaxed) && index < set.count {
                    if let Err(error) = read(&reader, &set.key(index), None).await {
                        wrong.fetch_add(u64::from(error.is_wrong()), Ordering::Relaxed);
                    }
                    index += 8;
                }
            });
        }
        Self { ended, wrong, readers }
    }

    async fn stop(mut self) -> u64 {
        self.ended.store(true, Ordering::Relaxed);
        while self.readers.join_next().await.is_some() {}
        self.wrong.load(Ordering::Relaxed)
    }
}
