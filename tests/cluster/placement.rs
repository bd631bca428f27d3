//! Workers come and go, and what was cached stays cached.

use std::time::Duration;

use forebay_testkit::PatternSet;
use forebay_tests::{BUCKET, ClusterSetup, ClusterWorld};

const MIB: u64 = 1 << 20;
const WARM_PASSES: u32 = 5;

/// Small objects and large ones: what moves are blocks.
fn sets() -> [PatternSet; 2] {
    let small =
        PatternSet { size_max_bytes: 120_000, ..PatternSet::new(BUCKET, "s/", 600, 80_000) };
    [small, PatternSet::new(BUCKET, "l/", 8, 40 * MIB)]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_joins_takes_what_moves_to_it_from_those_who_had_it() {
    let [small, large] = sets();
    let mut world = ClusterWorld::start(ClusterSetup::default(), &[&small, &large]).await.unwrap();
    let bytes = read_until_warm(&world, &[&small, &large]).await;
    let joined = world.cluster.add_worker().await.unwrap();
    world.cluster.until_active(4).await.unwrap();
    let status = world.cluster.workers[joined].status().await.unwrap();
    let share = status["cluster"]["owned_ratio"].as_f64().unwrap();
    world.origin.log().reset();
    for _ in 0..2 {
        world.read_all(&small).await.unwrap();
        world.read_all(&large).await.unwrap();
    }
    let moved = bytes as f64 * share;
    let fetched = world.origin.log().counts().bytes_sent as f64;
    eprintln!("{:.0} MiB moved, {:.2} MiB fetched", moved / MIB as f64, fetched / MIB as f64);
    let by_key = world.origin.log().keys();
    assert!(moved > 0.0 && fetched <= 0.01 * moved, "{fetched} of {moved} bytes: {by_key:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_drained_leaves_what_it_held_to_the_others() {
    let [small, large] = sets();
    let setup = ClusterSetup { workers: 4, ..ClusterSetup::default() };
    let mut world = ClusterWorld::start(setup, &[&small, &large]).await.unwrap();
    let bytes = read_until_warm(&world, &[&small, &large]).await;
    let load = world.load(&small, 4).unwrap();
    world.cluster.workers[3].terminate(Duration::from_secs(40)).await.unwrap();
    world.cluster.until_active(3).await.unwrap();
    load.stop().await.unwrap().assert_untouched();
    world.read_all(&small).await.unwrap();
    world.read_all(&large).await.unwrap();
    let fetched = world.origin.log().counts().bytes_sent as f64;
    eprintln!(
        "{:.0} MiB cached, {:.2} MiB fetched",
        bytes as f64 / MIB as f64,
        fetched / MIB as f64
    );
    let by_key = world.origin.log().keys();
    assert!(fetched <= 0.02 * bytes as f64, "{fetched} of {bytes} bytes: {by_key:?}");
}

/// Reads everything until nothing of it comes from the origin: on a busy machine a worker that is
/// slow to answer is passed over once, and its block is then with another. Returns its bytes, and
/// leaves an empty log.
async fn read_until_warm(world: &ClusterWorld, sets: &[&PatternSet]) -> u64 {
    for _ in 0..WARM_PASSES {
        world.origin.log().reset();
        let mut bytes = 0;
        for set in sets {
            bytes += world.read_all(set).await.unwrap();
        }
        if world.origin.log().counts().bytes_sent == 0 {
            return bytes;
        }
    }
    panic!("{:?} after {WARM_PASSES} passes", world.origin.log().counts());
}
