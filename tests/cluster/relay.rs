//! A worker that passes on what another one has does not read it.

use forebay_testkit::PatternSet;
use forebay_tests::{BUCKET, ClusterSetup, ClusterWorld};

const MIB: u64 = 1 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn what_another_worker_has_of_a_large_object_is_passed_on_unread_and_right() {
    let set = PatternSet::new(BUCKET, "l/", 8, 40 * MIB + 12_345);
    let world = ClusterWorld::start(ClusterSetup::default(), &[&set]).await.unwrap();
    world.read_all(&set).await.unwrap();
    let before = from_peers_and_unread(&world).await;
    for _ in 0..3 {
        world.read_all(&set).await.unwrap();
    }
    let after = from_peers_and_unread(&world).await;
    let (from_peers, unread) = (after.0 - before.0, after.1 - before.1);
    eprintln!("{from_peers} bytes of other workers, {unread} of them unread");
    assert!(from_peers > 100e6, "{from_peers} bytes came from other workers");
    // What comes with the head of an answer, and a tail of less than 64 KiB, is read.
    assert!(unread > 0.95 * from_peers, "{unread} of {from_peers} bytes went through a pipe");
}

/// Bytes of clients that other workers had, and bytes of other workers that nobody read.
async fn from_peers_and_unread(world: &ClusterWorld) -> (f64, f64) {
    let (mut from_peers, mut unread) = (0.0, 0.0);
    for worker in &world.cluster.workers {
        from_peers += worker.metric("forebay_served_bytes_total", "tier=\"peer\"").await.unwrap();
        unread += worker.metric("forebay_peer_piped_bytes_total", "").await.unwrap();
    }
    (from_peers, unread)
}
