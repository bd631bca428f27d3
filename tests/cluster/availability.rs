//! Reads through any living worker succeed, whatever other workers and voters do.

use std::time::Duration;

use forebay_testkit::PatternSet;
use forebay_tests::{BUCKET, ClusterSetup, ClusterWorld};

const MIB: u64 = 1 << 20;
const READERS: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_and_started_again_fails_no_read_and_costs_no_more_than_it_held() {
    let set = PatternSet::new(BUCKET, "k-", 60, 4 * MIB);
    let mut world = ClusterWorld::start(ClusterSetup::default(), &[&set]).await.unwrap();
    world.read_all(&set).await.unwrap();
    let held = world.cluster.workers[0].status().await.unwrap();
    let held = held["disks"][0]["used_bytes"].as_u64().unwrap();
    world.origin.log().reset();

    let load = world.load(&set, READERS).unwrap();
    sleep(1).await;
    world.cluster.workers[0].kill_9().unwrap();
    world
        .cluster
        .until("the dead worker is down", LIMIT, |seen| states(seen, "down") == 1)
        .await
        .unwrap();
    sleep(1).await;
    world.cluster.workers[0].start().await.unwrap();
    world.cluster.until_active(3).await.unwrap();
    sleep(1).await;
    load.stop().await.unwrap().assert_untouched();

    let fetched = world.origin.log().counts().bytes_sent;
    eprintln!("the dead worker held {} MiB, {} MiB were fetched", held / MIB, fetched / MIB);
    assert!(fetched <= held, "{fetched} bytes fetched, {held} held");
    world.origin.log().reset();
    world.read_all(&set).await.unwrap();
    assert_eq!(world.origin.log().counts().bytes_sent, 0, "it came back with what it held");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_owner_is_left_out_within_two_seconds() {
    let set = PatternSet::new(BUCKET, "k-", 60, MIB);
    let mut world = ClusterWorld::start(ClusterSetup::default(), &[&set]).await.unwrap();
    world.read_all(&set).await.unwrap();
    // The readers stay away from the worker that will be paused: as its clients, they would hang.
    world.cluster.workers.swap(0, 2);
    let paused = world.cluster.workers.pop().unwrap();
    let mut paused = paused;
    let load = world.load(&set, READERS).unwrap();
    sleep(2).await;
    paused.process().unwrap().pause().unwrap();
    sleep(20).await;
    paused.process().unwrap().resume().unwrap();
    sleep(3).await;
    let load = load.stop().await.unwrap();
    load.assert_untouched();
    let p99 =
        |from: u64, until: u64| load.p99(Duration::from_secs(from), Duration::from_secs(until));
    let (before, pause, after) = (p99(0, 2).unwrap(), p99(4, 22).unwrap(), p99(23, 25).unwrap());
    eprintln!("p99 before {before:?}, from 2 s into the pause {pause:?}, after {after:?}");
    // The first reads may wait out one sign of life each; none may do so from 2 s on.
    let slowest = load.took.iter().filter(|(at, _)| *at > Duration::from_secs(5));
    let slowest = slowest.map(|(_, took)| *took).max().unwrap();
    assert!(slowest < Duration::from_millis(900), "{slowest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_leader_is_replaced_within_three_seconds_and_no_read_notices() {
    let set = PatternSet::new(BUCKET, "k-", 60, MIB);
    let mut world = ClusterWorld::start(ClusterSetup::default(), &[&set]).await.unwrap();
    world.read_all(&set).await.unwrap();
    let leader = world.cluster.leader().await.expect("a leader");
    let load = world.load(&set, READERS).unwrap();
    sleep(1).await;
    world.cluster.voters[leader].kill_9().unwrap();
    let killed = tokio::time::Instant::now();
    while world.cluster.leader().await.is_none() {
        assert!(killed.elapsed() < Duration::from_secs(3), "no new leader after 3 s");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    eprintln!("a new leader after {:?}", killed.elapsed());
    sleep(12).await;
    load.stop().await.unwrap().assert_untouched();
    world.cluster.until_active(3).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_any_voter_reads_go_on_and_a_worker_can_restart() {
    let set = PatternSet::new(BUCKET, "k-", 60, MIB);
    let mut world = ClusterWorld::start(ClusterSetup::default(), &[&set]).await.unwrap();
    world.read_all(&set).await.unwrap();
    let load = world.load(&set, READERS).unwrap();
    for voter in &mut world.cluster.voters {
        voter.kill_9().unwrap();
    }
    sleep(7).await;
    world.cluster.workers[1].kill_9().unwrap();
    sleep(1).await;
    world.cluster.workers[1].start().await.unwrap();
    sleep(7).await;
    load.stop().await.unwrap().assert_untouched();
    world.origin.log().reset();
    world.read_all(&set).await.unwrap();
    assert_eq!(world.origin.log().counts().bytes_sent, 0, "the restarted worker knows its ring");
}

const LIMIT: Duration = Duration::from_secs(15);

async fn sleep(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn states(seen: &serde_json::Value, state: &str) -> usize {
    let workers = seen["workers"].as_array().into_iter().flatten();
    workers.filter(|worker| worker["state"] == state).count()
}
