//! After a write through Forebay is acknowledged, no later GET through any worker returns the
//! older version. Random schedules of it are in crates/cache/tests/simulation.rs.

use bytes::Bytes;
use forebay_tests::{BUCKET, ClusterSetup, ClusterWorld};

const KEYS: usize = 20;
const WRITES: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn a_write_through_any_worker_is_seen_through_every_worker() {
    let setup = ClusterSetup { freshness: "bounded", ..ClusterSetup::default() };
    let mut world = ClusterWorld::start(setup, &[]).await.unwrap();
    check_writes(&world, 3).await;
    // With a worker gone, and nobody told yet, its keys have another authority or none.
    world.cluster.workers[2].kill_9().unwrap();
    check_writes(&world, 2).await;
}

/// Writes each key through one worker after the other and reads it through all of them.
async fn check_writes(world: &ClusterWorld, workers: usize) {
    let readers: Vec<_> = (0..workers).map(|worker| world.reader(worker).unwrap()).collect();
    for round in 0..WRITES {
        for key in 0..KEYS {
            let name = format!("written-{key}");
            let text = Bytes::from(format!("{key} {round} {workers}"));
            let written = readers[round % workers].put(BUCKET, &name, text.clone()).await.unwrap();
            assert!(written.status.is_success(), "{name}: {}", written.status);
            for reader in &readers {
                let read = reader.get(BUCKET, &name, None).await.unwrap();
                assert_eq!(read.success().await.unwrap(), text, "{name} in round {round}");
            }
        }
    }
}
