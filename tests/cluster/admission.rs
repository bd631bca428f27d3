//! Data and control ports answer holders of the cluster secret, and nobody else.

use std::time::Duration;

use forebay_testkit::PatternSet;
use forebay_tests::{BUCKET, ClusterSetup, ClusterWorld};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test(flavor = "multi_thread")]
async fn strangers_get_nothing_from_data_and_control_ports() {
    let set = PatternSet::new(BUCKET, "k-", 4, 100_000);
    let world = ClusterWorld::start(ClusterSetup::default(), &[&set]).await.unwrap();
    world.read_all(&set).await.unwrap();
    let ports = [world.cluster.workers[0].data_addr(), world.cluster.voters[0].control_addr()];
    let openings: [&[u8]; 4] = [
        b"GET /v1/view HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
        &[0xff; 300],
    ];
    for port in &ports {
        for opening in openings {
            let mut stranger = TcpStream::connect(port).await.unwrap();
            stranger.write_all(opening).await.unwrap();
            let mut answer = Vec::new();
            let ended = stranger.read_to_end(&mut answer);
            let ended = tokio::time::timeout(Duration::from_secs(15), ended).await;
            assert!(ended.is_ok(), "{port} keeps a stranger");
            let text = String::from_utf8_lossy(&answer);
            assert!(!text.contains("HTTP"), "{port} answered {text:?}");
        }
    }
    world.read_all(&set).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_who_say_nothing_do_not_keep_workers_apart() {
    let set = PatternSet::new(BUCKET, "k-", 40, 100_000);
    let world = ClusterWorld::start(ClusterSetup::default(), &[&set]).await.unwrap();
    world.origin.log().reset();
    let mut silent = Vec::new();
    for worker in &world.cluster.workers {
        for _ in 0..600 {
            silent.push(TcpStream::connect(worker.data_addr()).await.unwrap());
        }
    }
    // As long as they push in, a worker may find no place in time; then it asks the next one.
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.read_all(&set).await.unwrap();
    assert_eq!(world.origin.log().counts().requests, set.count, "reads went by the owners");
    drop(silent);
}
