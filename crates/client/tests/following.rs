//! How a client learns the ring, and how it notices that the ring has changed.

#![allow(unreachable_pub, reason = "a test target has no outside")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test target uses other parts of the fakes")]

mod fakes;

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use fakes::{Fake, Version, ring};
use forebay_client::{BlockIndex, Client, ClientConfig, ConnectError, OriginConfig};
use forebay_rt::{Clock, ManualClock, SeededRng, SystemClock};

fn config(endpoints: &[&Fake]) -> (ClientConfig, ManualClock) {
    let clock = ManualClock::new();
    let mut config = ClientConfig::new(endpoints.iter().map(|fake| fake.uri()).collect());
    config.clock = Arc::new(clock.clone());
    config.rng = Arc::new(SeededRng::new(1));
    (config, clock)
}

fn owners(client: &Client) -> Vec<String> {
    let mut owners = client.owners("train", "k", BlockIndex(0)).unwrap();
    owners.sort();
    owners
}

fn addresses(fakes: &[&Fake]) -> Vec<String> {
    let mut addresses: Vec<_> = fakes.iter().map(|fake| fake.address.to_string()).collect();
    addresses.sort();
    addresses
}

/// Lets `step` of the client's time pass, again and again, until it is so.
async fn until(clock: &ManualClock, step: Duration, is_so: impl Fn() -> bool) {
    for _ in 0..2000 {
        if is_so() {
            return;
        }
        clock.advance(step);
        SystemClock.sleep(Duration::from_millis(5)).await;
    }
    panic!("did not happen within ten seconds");
}

#[tokio::test]
async fn a_new_ring_is_followed_and_an_old_one_is_not() {
    let (one, two) = (Fake::start().await, Fake::start().await);
    one.tell(&ring(5, &[&one]));
    let (config, clock) = config(&[&one]);
    let client = Client::connect(config).await.unwrap();
    assert_eq!(owners(&client), addresses(&[&one]));

    one.tell(&ring(6, &[&one, &two]));
    two.tell(&ring(4, &[&two]));
    let second = Duration::from_secs(1);
    until(&clock, second, || owners(&client) == addresses(&[&one, &two])).await;

    // What is behind is asked as well, and not believed.
    until(&clock, second, || two.ring_asked().len() >= 3).await;
    assert_eq!(owners(&client), addresses(&[&one, &two]));
}

#[tokio::test]
async fn an_unchanged_ring_is_asked_for_every_few_seconds_and_not_sent_again() {
    let worker = Fake::start().await;
    worker.tell(&ring(5, &[&worker]));
    let (config, clock) = config(&[&worker]);
    let client = Client::connect(config).await.unwrap();
    assert_eq!(worker.ring_asked(), [None]);
    let begun = clock.now();
    until(&clock, Duration::from_millis(100), || worker.ring_asked().len() > 10).await;
    let passed = clock.now() - begun;
    assert!(passed >= Duration::from_secs(10), "{passed:?}");
    assert!(worker.ring_asked()[1..].iter().all(Option::is_some));
    assert_eq!(owners(&client).len(), 1);
}

#[tokio::test]
async fn a_failure_makes_the_client_ask_at_once() {
    let (mut one, two, three) = (Fake::start().await, Fake::start().await, Fake::start().await);
    one.tell(&ring(1, &[&one, &two]));
    let (config, _clock_that_stands_still) = config(&[&one, &two]);
    let client = Client::connect(config).await.unwrap();
    two.tell(&ring(2, &[&two, &three]));
    one.stop().await;
    let dead = one.address.to_string();
    let owned = |key: &String| client.owners("train", key, BlockIndex(0)).unwrap()[0] == dead;
    let key = (0..1000).map(|n| format!("k{n}")).find(owned).unwrap();
    two.put(&format!("/train/{key}"), &Version::new(1, 10));
    client.get("train", &key).await.unwrap();
    for _ in 0..2000 {
        if owners(&client) == addresses(&[&two, &three]) {
            return;
        }
        SystemClock.sleep(Duration::from_millis(5)).await;
    }
    panic!("the ring was not asked for");
}

#[tokio::test]
async fn any_living_endpoint_is_enough_to_begin() {
    let (mut dead, living) = (Fake::start().await, Fake::start().await);
    dead.stop().await;
    living.tell(&ring(1, &[&living]));
    for seed in 0..5 {
        let (mut config, _) = config(&[&dead, &living]);
        config.rng = Arc::new(SeededRng::new(seed));
        assert_eq!(owners(&Client::connect(config).await.unwrap()).len(), 1);
    }
}

#[tokio::test]
async fn without_a_worker_only_a_client_that_knows_the_origin_begins() {
    let (mut worker, origin) = (Fake::start().await, Fake::start().await);
    worker.stop().await;
    let (config, clock) = config(&[&worker]);
    let refused = Client::connect(config.clone()).await;
    assert!(matches!(refused, Err(ConnectError::Unavailable(_))), "{refused:?}");

    let version = Version::new(1, 1000);
    origin.put("/train/k", &version);
    let config = ClientConfig { origin: Some(OriginConfig::new(origin.uri())), ..config };
    let client = Client::connect(config).await.unwrap();
    let object = client.get("train", "k").await.unwrap();
    assert_eq!(object.body.bytes().await.unwrap(), version.bytes);

    // Workers that come later are found.
    worker.tell(&ring(1, &[&worker]));
    worker.listen().await;
    until(&clock, Duration::from_millis(100), || !owners(&client).is_empty()).await;
}

#[tokio::test]
async fn a_cluster_that_refuses_is_a_mistake_to_mend() {
    let worker = Fake::start().await;
    let (config, _) = config(&[&worker]);
    match Client::connect(config).await {
        Err(ConnectError::Refused { status, code }) => {
            assert_eq!((status.as_u16(), code.as_str()), (403, "AccessDenied"));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn endpoints_that_are_none_are_refused_at_once() {
    for endpoints in [vec![], vec!["10.0.0.5:9000"], vec!["http://h/base"]] {
        let endpoints = endpoints.iter().map(|uri| uri.parse().unwrap()).collect();
        let refused = Client::connect(ClientConfig::new(endpoints)).await;
        assert!(matches!(refused, Err(ConnectError::Config(_))), "{refused:?}");
    }
}

#[tokio::test]
async fn the_last_client_to_go_ends_the_following() {
    let worker = Fake::start().await;
    worker.tell(&ring(1, &[&worker]));
    let (config, clock) = config(&[&worker]);
    let client = Client::connect(config).await.unwrap();
    let other = client.clone();
    drop(client);
    until(&clock, Duration::from_secs(1), || worker.ring_asked().len() > 2).await;
    drop(other);
    SystemClock.sleep(Duration::from_millis(50)).await;
    let asked = worker.ring_asked().len();
    for _ in 0..20 {
        clock.advance(Duration::from_secs(10));
        SystemClock.sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(worker.ring_asked().len(), asked);
}

/// An origin over https is spoken to in TLS, and is no origin if it answers otherwise.
#[tokio::test]
async fn https_is_tls() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let hello = forebay_rt::spawn_blocking(move || {
        let mut hello = [0; 3];
        listener.accept().unwrap().0.read_exact(&mut hello).unwrap();
        hello
    });
    let mut worker = Fake::start().await;
    worker.stop().await;
    let (mut config, _) = config(&[&worker]);
    config.clock = Arc::new(SystemClock);
    config.origin = Some(OriginConfig::new(format!("https://{address}").parse().unwrap()));
    match Client::connect(config).await {
        Ok(client) => {
            assert!(client.get("train", "k").await.is_err());
            assert_eq!(hello.await.unwrap(), [0x16, 3, 1]);
        }
        Err(ConnectError::Config(why)) => assert!(why.contains("root certificates"), "{why}"),
        Err(other) => panic!("{other}"),
    }
}
