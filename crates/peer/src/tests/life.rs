//! Peers that are silent, slow, gone, and back.

use std::time::{Duration, Instant};

use forebay_rt::{Clock, SystemClock, spawn};
use forebay_testkit::FaultProxy;
use forebay_testkit::proxy::{Cut, Ending, Link, Weather};
use forebay_types::WorkerId;
use futures_util::future::join_all;
use tokio::net::TcpListener;

use super::world::{Asker, OWNER, Owner, SIZE, drain, ms, open_ask, pause, range, view, whole};
use crate::{PeerError, PeerLimits, ServerLimits};

fn is_unreachable<T: std::fmt::Debug>(result: &Result<T, PeerError>) -> bool {
    matches!(result, Err(PeerError::Unreachable(_)))
}

fn now() -> Instant {
    SystemClock.now()
}

/// How long a silent peer may keep a reader, and what a busy machine adds to that.
fn patience() -> Duration {
    let limits = PeerLimits::default();
    limits.silence + limits.tick + limits.ping + ms(500)
}

/// A process that is stopped: the kernel accepts for it, and nothing else happens.
async fn stopped() -> (TcpListener, std::net::SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    (listener, addr)
}

/// Nothing gets through in either direction, and nobody is told.
fn silence() -> Weather {
    let cut = Some(Cut { after_bytes: 0, ending: Ending::Stall });
    let link = Link { cut, ..Link::default() };
    Weather { up: link, down: link }
}

#[tokio::test]
async fn a_silent_peer_costs_a_second_once_and_then_nothing() {
    let (_listener, addr) = stopped().await;
    let asker = Asker::of(addr);
    let begun = now();
    assert!(is_unreachable(&asker.read_all("mem", whole()).await));
    assert!(begun.elapsed() < patience(), "{:?}", begun.elapsed());
    let begun = now();
    for _ in 0..100 {
        assert!(is_unreachable(&asker.read_all("mem", whole()).await));
        assert!(is_unreachable(&asker.peers.open(OWNER, open_ask("mem", None)).await));
    }
    assert!(begun.elapsed() < ms(50), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_who_wait_for_a_peer_that_falls_silent_fail_at_once_and_are_served_when_it_is_back() {
    let owner = Owner::start();
    let proxy = FaultProxy::start(owner.addr).await.unwrap();
    let asker = Asker::of(proxy.address());
    // Ten wait for a head, one in the middle of a body; all of them would be waited for.
    let heads = join_all((0..10).map(|_| asker.read_all("wait-20000", whole())));
    let body = asker.read("rest", whole()).await.unwrap();
    let body = drain(body, whole());
    let falls = async {
        pause(700).await;
        proxy.set(silence());
        now()
    };
    let (heads, body, silent_at) = tokio::join!(heads, body, falls);
    assert!(heads.iter().all(is_unreachable) && is_unreachable(&body), "{heads:?} {body:?}");
    let waited = silent_at.elapsed();
    assert!(ms(400) < waited && waited < patience(), "{waited:?}");
    let begun = now();
    assert!(is_unreachable(&asker.read_all("mem", whole()).await));
    assert!(begun.elapsed() < ms(20));

    proxy.set(Weather::default());
    let back_at = now();
    while asker.read_all("mem", whole()).await.is_err() {
        pause(10).await;
    }
    assert!(back_at.elapsed() < ms(1500), "{:?}", back_at.elapsed());
}

#[tokio::test]
async fn a_peer_that_is_only_slow_is_waited_for() {
    let owner = Owner::start();
    let asker = Asker::of(owner.addr);
    let (head, body) = tokio::join!(
        asker.read_all("wait-2000", range(0, 1000)), // Two seconds before the head,
        asker.read_all("rest", whole()),             // or in the middle of the body.
    );
    assert_eq!((head, body), (Ok(1000), Ok(SIZE)));
}

#[tokio::test]
async fn a_peer_without_a_process_is_gone_and_is_found_when_it_is_back() {
    let (listener, addr) = stopped().await;
    drop(listener);
    let asker = Asker::of(addr);
    let begun = now();
    for _ in 0..100 {
        assert_eq!(asker.read_all("mem", whole()).await, Err(PeerError::Gone));
    }
    assert!(begun.elapsed() < ms(200), "{:?}", begun.elapsed());
    let _owner = Owner::at(addr, ServerLimits::default());
    let back_at = now();
    while asker.read_all("mem", whole()).await.is_err() {
        pause(10).await;
    }
    assert!(back_at.elapsed() < ms(1000), "{:?}", back_at.elapsed());
}

#[tokio::test]
async fn a_peer_is_asked_where_the_latest_view_says_it_is() {
    let (one, two) = (Owner::start(), Owner::start());
    let asker = Asker::of(one.addr);
    let under_way = asker.read("rest", whole()).await.unwrap();
    asker.views.send_replace(view(1, two.addr));
    asker.read_all("mem", whole()).await.unwrap();
    assert_eq!((one.connections(), two.connections()), (1, 1));
    assert_eq!(drain(under_way, whole()).await, Ok(SIZE), "what has begun goes on");

    let unknown = asker.peers.ping(WorkerId(99)).await;
    assert!(is_unreachable(&unknown), "{unknown:?}");
}

#[tokio::test]
async fn a_peer_that_has_moved_while_silent_is_given_up_as_well() {
    let owner = Owner::start();
    let proxy = FaultProxy::start(owner.addr).await.unwrap();
    let asker = Asker::of(proxy.address());
    let body = asker.read("rest", whole()).await.unwrap();
    proxy.set(silence());
    asker.views.send_replace(view(1, owner.addr));
    asker.read_all("mem", whole()).await.unwrap();
    let begun = now();
    assert!(is_unreachable(&drain(body, whole()).await));
    assert!(begun.elapsed() < patience(), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_connection_that_breaks_in_the_handshake_is_no_answer() {
    let (listener, addr) = stopped().await;
    spawn(async move {
        loop {
            drop(listener.accept().await.unwrap());
        }
    });
    let begun = now();
    assert!(is_unreachable(&Asker::of(addr).read_all("mem", whole()).await));
    assert!(begun.elapsed() < ms(500));
}
