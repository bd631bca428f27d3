//! The bounds of a pool, and what they do to readers.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use forebay_rt::{Clock, SystemClock};
use forebay_wire::peer::{Failure, PeekAsk};
use futures_util::StreamExt;
use futures_util::future::{join_all, try_join_all};
use futures_util::task::noop_waker_ref;

use super::world::{
    Asker, CONTENT, OWNER, Owner, SIZE, drain, eventually, head, metric, ms, name, pause, range,
    whole,
};
use crate::{PeerError, PeerLimits};

fn pool_of(connections: usize) -> PeerLimits {
    PeerLimits { connections, ..PeerLimits::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_connections_are_made_than_the_pool_has_places() {
    let owner = Owner::start();
    let asker = Asker::with(owner.addr, pool_of(8));
    let reads = (0..500).map(|_| asker.read_all("wait-5", range(0, 5000)));
    try_join_all(reads).await.unwrap();
    assert_eq!(owner.stub.most_at_once.load(Ordering::Relaxed), 8);
    assert!(owner.connections() <= 8 + 1, "{}", owner.connections());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_readers_share_the_default_pool() {
    let owner = Owner::start();
    let asker = Asker::of(owner.addr);
    let reads = (0..500).map(|_| asker.read_all("file", range(0, 1 << 20)));
    try_join_all(reads).await.unwrap();
    assert!(owner.connections() <= 128 + 1, "{}", owner.connections());
}

#[tokio::test]
async fn a_queue_that_is_full_or_takes_too_long_says_slow_down() {
    let owner = Owner::start();
    let limits = PeerLimits { waiting: 3, wait: ms(200), ..pool_of(1) };
    let asker = Asker::with(owner.addr, limits);
    let slow = Err(PeerError::Failed(Failure::SlowDown));
    let reads = (0..6).map(|_| asker.read_all("wait-400", range(0, 10)));
    let reads = join_all(reads).await;
    assert_eq!(reads.iter().filter(|read| **read == Ok(10)).count(), 1, "{reads:?}");
    assert_eq!(reads.iter().filter(|read| **read == slow).count(), 5, "{reads:?}");
    assert_eq!(asker.read_all("mem", range(0, 10)).await, Ok(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_do_not_read_starve_nobody_and_lose_nothing() {
    let owner = Owner::start();
    let asker = Asker::with(owner.addr, pool_of(4));
    let taken = metric("forebay_peer_connections_taken_total");
    let mut stalled = Vec::new();
    for nth in 0..4 {
        let mut body = asker.read("mem", whole()).await.unwrap();
        let first = if nth == 0 { None } else { Some(body.next().await.unwrap().unwrap()) };
        stalled.push((first.map_or(0, |bytes| bytes.len() as u64), body));
    }
    let begun = SystemClock.now();
    try_join_all((0..8).map(|_| asker.read_all("file", whole()))).await.unwrap();
    assert!(begun.elapsed() < ms(1800), "{:?}", begun.elapsed());
    assert!(metric("forebay_peer_connections_taken_total") >= taken + 1.0);
    for (at, body) in stalled {
        assert_eq!(drain(body, range(at, SIZE)).await, Ok(SIZE - at));
    }
}

#[tokio::test]
async fn what_was_opened_goes_on_as_well_and_what_was_peeked_ends() {
    let owner = Owner::start();
    let asker = Asker::with(owner.addr, pool_of(1));
    let wanted = forebay_types::RangeAsk::FromTo { first: 1000, last: SIZE - 1 };
    let ask = super::world::open_ask("file", Some(wanted));
    let (_, opened) = asker.peers.open(OWNER, ask).await.unwrap();
    let ask = PeekAsk { name: name("half"), stamp: head().stamp, range: whole() };
    let (_, peeked) = asker.peers.peek(OWNER, ask).await.unwrap();
    asker.read_all("mem", whole()).await.unwrap();
    assert_eq!(drain(opened.unwrap(), range(1000, SIZE)).await, Ok(SIZE - 1000));
    let peeked = drain(peeked.unwrap(), range(0, SIZE / 2)).await;
    assert!(matches!(peeked, Err(PeerError::Unreachable(_))), "{peeked:?}");
}

#[tokio::test]
async fn a_call_that_is_not_polled_keeps_its_place_from_nobody() {
    let owner = Owner::start();
    let asker = Asker::with(owner.addr, pool_of(1));
    let cx = &mut Context::from_waker(noop_waker_ref());
    // One with a new connection, then one with the connection that is there.
    for _ in 0..2 {
        let mut left_alone = pin!(asker.read_all("wait-100", whole()));
        for _ in 0..4 {
            assert!(left_alone.as_mut().poll(cx).is_pending());
            pause(50).await;
            assert_eq!(asker.read_all("mem", whole()).await, Ok(SIZE));
        }
        assert_eq!(left_alone.await, Ok(SIZE));
    }
}

#[tokio::test]
async fn a_body_with_bytes_that_nobody_comes_for_is_unread_too() {
    let owner = Owner::start();
    let asker = Asker::with(owner.addr, pool_of(1));
    let mut body = asker.read("rest", whole()).await.unwrap();
    let cx = &mut Context::from_waker(noop_waker_ref());
    let mut at = 0;
    while let Poll::Ready(bytes) = body.poll_next_unpin(cx) {
        let bytes = bytes.unwrap().unwrap();
        assert!(bytes == CONTENT[at as usize..at as usize + bytes.len()]);
        at += bytes.len() as u64;
        tokio::task::yield_now().await;
    }
    // The last poll found nothing, so this reader waits for the peer; two seconds later there is
    // something, and from then on it is the reader who is waited for.
    assert_eq!(asker.read_all("mem", whole()).await, Ok(SIZE));
    assert_eq!(drain(body, range(at, SIZE)).await, Ok(SIZE - at));
}

#[tokio::test]
async fn idle_connections_are_closed_and_unread_ones_as_well() {
    let owner = Owner::start();
    let limits = PeerLimits { idle: ms(300), unread: ms(300), ..PeerLimits::default() };
    let asker = Asker::with(owner.addr, limits);
    let unread = asker.read("mem", whole()).await.unwrap();
    join_all((0..5).map(|_| asker.read_all("wait-50", whole()))).await;
    assert_eq!(owner.connections(), 6);
    eventually("all are closed", || owner.connections() == 0).await;
    assert_eq!(drain(unread, whole()).await, Ok(SIZE));
}
