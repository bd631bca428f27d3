//! A worker that is asked under a ring it has not heard of yet.

use std::sync::Arc;
use std::time::Duration;

use forebay_peer::{PeerLimits, Peers, PeersConfig};
use forebay_rt::{SystemClock, SystemRng};
use forebay_testkit::PatternSet;
use forebay_tests::{BUCKET, ClusterSetup, ClusterWorld};
use forebay_types::{
    BucketName, ByteRange, ETag, Epoch, ObjectKey, ObjectName, RuleId, Stamp, View, WorkerId,
    WorkerInfo, WorkerState,
};
use forebay_wire::ClusterSecret;
use forebay_wire::peer::WarmAsk;
use tokio::sync::watch;

const SIZE_BYTES: u64 = 100_000;
const WORKER: WorkerId = WorkerId(1);
const KNOWN: Epoch = Epoch(0);
const UNHEARD_OF: Epoch = Epoch(1 << 40);

/// Under the ring that it knows, the worker does not own what a leaving one offers; the bytes
/// would come from the origin although somebody has them.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_offered_under_a_ring_not_heard_of_is_not_taken_from_the_origin() {
    let set = PatternSet::new(BUCKET, "k-", 1, SIZE_BYTES);
    let world = ClusterWorld::start(ClusterSetup::default(), &[&set]).await.unwrap();
    let (peers, key) = (as_a_peer(&world), set.key(0));
    world.origin.log().reset();

    let refused = peers.warm_and_wait(WORKER, offer(&world, &key, UNHEARD_OF)).await.unwrap_err();
    assert!(refused.to_string().contains("ring"), "{refused}");
    peers.warm(WORKER, offer(&world, &key, UNHEARD_OF));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(world.origin.log().counts().requests, 0);

    // The same offer counts under a ring that is known: the origin has no such version.
    peers.warm_and_wait(WORKER, offer(&world, &key, KNOWN)).await.unwrap_err();
    assert_ne!(world.origin.log().counts().requests, 0);
}

/// This process, as a worker that knows of one other.
fn as_a_peer(world: &ClusterWorld) -> Peers {
    let worker = WorkerInfo {
        id: WORKER,
        state: WorkerState::Active,
        data_addr: world.cluster.workers[0].data_addr(),
        s3_addr: String::new(),
        zone: String::new(),
        capacity_bytes: 1,
    };
    let view = View { revision: 1, workers: vec![worker], ..View::default() };
    let secret = std::fs::read_to_string(world.cluster.secret_file()).unwrap();
    let config = PeersConfig {
        secret: ClusterSecret::from_text(&secret).unwrap(),
        limits: PeerLimits::default(),
        clock: Arc::new(SystemClock),
        rng: Arc::new(SystemRng),
        views: watch::Sender::new(Arc::new(view)).subscribe(),
    };
    Peers::new(config).0
}

fn offer(world: &ClusterWorld, key: &str, epoch: Epoch) -> WarmAsk {
    let name = ObjectName {
        rule: RuleId::of_origin(&world.origin.endpoint()),
        bucket: BucketName::new(BUCKET).unwrap(),
        key: ObjectKey::new(key).unwrap(),
        version_id: None,
    };
    let stamp = Stamp {
        etag: ETag::new("\"another\""),
        size: SIZE_BYTES,
        last_modified: "Wed, 21 Oct 2015 07:28:00 GMT".into(),
        version_id: None,
    };
    let range = ByteRange::new(0, SIZE_BYTES).unwrap();
    WarmAsk { epoch, name, stamp, range, wait: true }
}
