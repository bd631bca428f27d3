//! The native client asks owners itself, and goes on when workers do not.

use forebay_client::{BlockIndex, Client, ClientConfig, Credentials, OriginConfig, RangeAsk};
use forebay_testkit::{Pattern, PatternSet};
use forebay_tests::{BUCKET, CLIENT, ClusterSetup, ClusterWorld, ORIGIN};

const MIB: u64 = 1 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_native_client_asks_the_owner_of_each_block_and_survives_all_workers() {
    let set = PatternSet::new(BUCKET, "n-", 4, 40 * MIB);
    let mut world = ClusterWorld::start(ClusterSetup::default(), &[&set]).await.unwrap();
    let client = connect(&world).await;
    check_all(&client, &set).await;
    assert_eq!(world.origin.log().counts().bytes_sent, 4 * 40 * MIB, "each page once");

    // What went to the owner was served from its own disk or fill, never by way of another.
    let mut by_peers = 0.0;
    for worker in &world.cluster.workers {
        by_peers += worker.metric("forebay_served_bytes_total", "tier=\"peer\"").await.unwrap();
    }
    assert!(by_peers.abs() < f64::EPSILON, "{by_peers} bytes went through two workers");
    let owners = client.owners(BUCKET, &set.key(0), BlockIndex(0)).unwrap();
    assert_eq!(owners.len(), 3, "{owners:?}");

    world.cluster.workers[0].kill_9().unwrap();
    check_all(&client, &set).await;
    world.cluster.workers[1].kill_9().unwrap();
    world.cluster.workers[2].kill_9().unwrap();
    check_all(&client, &set).await;
}

async fn connect(world: &ClusterWorld) -> Client {
    let endpoints = world.cluster.workers.iter().map(|worker| worker.endpoint().parse().unwrap());
    let mut origin = OriginConfig::new(world.origin.endpoint().parse().unwrap());
    origin.credentials = Some(Credentials::new(ORIGIN.0, ORIGIN.1));
    let mut config = ClientConfig::new(endpoints.collect());
    config.credentials = Some(Credentials::new(CLIENT.0, CLIENT.1));
    config.origin = Some(origin);
    Client::connect(config).await.unwrap()
}

/// Whole objects and a range over two blocks, every byte.
async fn check_all(client: &Client, set: &PatternSet) {
    for index in 0..set.count {
        let key = set.key(index);
        let object = client.get(BUCKET, &key).await.unwrap();
        let tag = object.head.stamp.etag.as_str().to_owned();
        let (_, pattern) = Pattern::find(BUCKET, &key, &tag, 1..=1).unwrap();
        let whole = object.body.bytes().await.unwrap();
        assert_eq!(whole.len() as u64, 40 * MIB);
        pattern.verify(0, &whole).unwrap();
        let (first, last) = (8 * MIB - 1000, 16 * MIB + 1000);
        let part = client.get_range(BUCKET, &key, RangeAsk::FromTo { first, last }).await.unwrap();
        let part = part.body.bytes().await.unwrap();
        assert_eq!(part.len() as u64, last - first + 1);
        pattern.verify(first, &part).unwrap();
    }
}
