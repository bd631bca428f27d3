//! What is asked is what comes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use forebay_rt::{Rng, SeededRng, Shutdown, SystemClock, SystemRng, spawn, timeout};
use forebay_testkit::FaultProxy;
use forebay_types::RangeAsk;
use forebay_wire::peer::{Failure, ForgetAsk, InHeader, PeekAsk, RecallAsk, Vouching};
use forebay_wire::{Handshake, Purpose};
use futures_util::StreamExt;
use futures_util::future::try_join_all;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::world::{
    Asker, OWNER, Owner, SIZE, drain, eventually, head, ms, name, open_ask, pause, range, read_ask,
    secret, warm_ask, whole,
};
use crate::{PeerError, ServerLimits};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_every_size_arrive_as_they_are() {
    let owner = Owner::start();
    let asker = Asker::of(owner.addr);
    let sizes = [1, 2, 3, 100, 4096, 65_535, 65_536, 131_071, 131_072, 131_073, 1 << 20, SIZE];
    for key in ["mem", "file"] {
        for size in sizes {
            for start in [0, 1, SIZE - size] {
                let range = range(start, (start + size).min(SIZE));
                assert_eq!(asker.read_all(key, range).await, Ok(range.len()), "{key} {range}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_readers_each_get_their_own_bytes() {
    let owner = Owner::start();
    let asker = &Asker::of(owner.addr);
    let readers = (0..64).map(|reader| async move {
        let rng = SeededRng::new(reader);
        for _ in 0..20 {
            let start = rng.next_u64() % (SIZE - 1);
            let len = 1 + rng.next_u64() % (SIZE - start).min(700_000);
            let key = if rng.next_u64().is_multiple_of(2) { "mem" } else { "file" };
            // Some leave early, and the next reader must not get what they left.
            let range = range(start, start + len);
            if rng.next_u64().is_multiple_of(4) {
                asker.read(key, range).await?.next().await;
            } else {
                asker.read_all(key, range).await?;
            }
        }
        Ok::<_, PeerError>(())
    });
    try_join_all(readers.collect::<Vec<_>>()).await.unwrap();
}

#[tokio::test]
async fn an_open_brings_the_version_and_its_first_bytes() {
    let owner = Owner::start();
    let asker = Asker::of(owner.addr);
    let wanted = RangeAsk::FromTo { first: 10, last: 70_009 };
    let (opened, body) = asker.peers.open(OWNER, open_ask("mem", Some(wanted))).await.unwrap();
    assert_eq!(opened.head.stamp, head().stamp);
    assert_eq!(opened.head.headers, head().headers);
    assert_eq!(opened.age, Some(ms(1500)));
    assert_eq!(opened.range, Some(range(10, 70_010)));
    assert_eq!(drain(body.unwrap(), range(10, 70_010)).await, Ok(70_000));

    let (opened, body) = asker.peers.open(OWNER, open_ask("mem", None)).await.unwrap();
    assert!(opened.range.is_none() && body.is_none());
}

#[tokio::test]
async fn a_peek_brings_what_is_on_the_shelf_and_no_more() {
    let owner = Owner::start();
    let asker = Asker::of(owner.addr);
    let ask = |key| PeekAsk { name: name(key), stamp: head().stamp, range: whole() };
    let (peeked, body) = asker.peers.peek(OWNER, ask("half")).await.unwrap();
    assert_eq!(peeked.range, Some(range(0, SIZE / 2)));
    assert_eq!(drain(body.unwrap(), range(0, SIZE / 2)).await, Ok(SIZE / 2));

    let (peeked, body) = asker.peers.peek(OWNER, ask("nothing")).await.unwrap();
    assert!(peeked.range.is_none() && body.is_none());

    let recalled = |key| asker.peers.recall(OWNER, RecallAsk { name: name(key) });
    assert_eq!(
        recalled("remembered").await.unwrap().head.map(|head| head.stamp),
        Some(head().stamp)
    );
    assert!(recalled("other").await.unwrap().head.is_none());
    assert_eq!(owner.stub.asked.load(Ordering::Relaxed), 0, "a peek asks no owner");
}

#[tokio::test]
async fn forgetting_is_answered_name_by_name() {
    let owner = Owner::start();
    let asker = Asker::of(owner.addr);
    let mut names: Vec<_> =
        (0..999).map(|nth| name(&format!("{nth}{}", "k".repeat(900)))).collect();
    names.push(name("soon"));
    let answer = asker.peers.forget(OWNER, &ForgetAsk { names }).await.unwrap();
    assert_eq!(answer.vouching.len(), 1000);
    assert_eq!(answer.vouching[998..], [Vouching::Yes, Vouching::NotYet(ms(1500))]);
}

#[tokio::test]
async fn an_ask_may_be_as_long_as_a_header_and_one_that_is_longer_fails_here() {
    let owner = Owner::start();
    let asker = Asker::of(owner.addr);
    for (bytes, fits) in [(33_000, true), (40_000, false)] {
        let mut ask = read_ask(&format!("mem{}", "k".repeat(1021)), range(0, 100));
        ask.stamp.last_modified = "x".repeat(bytes).into();
        let read = asker.peers.read(OWNER, ask).await;
        assert_eq!(read.is_ok(), fits, "{bytes}: {read:?}");
    }
    assert_eq!(owner.stub.asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_worker_says_what_it_knows_and_that_it_lives() {
    let owner = Owner::start();
    let asker = Asker::of(owner.addr);
    *owner.stub.epoch.lock() = 12;
    assert_eq!(asker.peers.view(OWNER).await.unwrap().revision, 12);
    assert_eq!(asker.peers.ping(OWNER).await, Ok(()));
}

#[tokio::test]
async fn a_failure_arrives_as_what_it_is() {
    let owner = Owner::start();
    let asker = Asker::of(owner.addr);
    let failed = asker.read_all("moved", whole()).await;
    assert_eq!(failed, Err(PeerError::Failed(Failure::Moved)));
}

#[tokio::test]
async fn a_body_that_breaks_off_is_an_error_and_never_a_short_one() {
    let owner = Owner::start();
    let asker = Asker::of(owner.addr);
    for key in ["cut", "short", "long"] {
        for size in [10, 100_000, SIZE] {
            let failed = asker.read_all(key, range(0, size)).await;
            assert!(matches!(failed, Err(PeerError::Unreachable(_))), "{key} {size}: {failed:?}");
        }
    }
    assert_eq!(asker.read_all("mem", whole()).await, Ok(SIZE), "and the next one is whole");
}

#[tokio::test]
async fn a_panic_is_an_answer_like_any_other() {
    let owner = Owner::start();
    let asker = Asker::of(owner.addr);
    let failed = asker.read_all("panic", whole()).await;
    assert!(matches!(failed, Err(PeerError::Failed(Failure::Internal(_)))), "{failed:?}");
    assert_eq!(asker.read_all("mem", whole()).await, Ok(SIZE));
}

#[tokio::test]
async fn one_connection_serves_request_after_request() {
    let owner = Owner::start();
    let proxy = FaultProxy::start(owner.addr).await.unwrap();
    let asker = Asker::of(proxy.address());
    for _ in 0..50 {
        asker.read_all("file", range(5, 300_000)).await.unwrap();
        asker.peers.ping(OWNER).await.unwrap();
        asker.peers.open(OWNER, open_ask("mem", None)).await.unwrap();
        asker.read_all("moved", whole()).await.unwrap_err();
        asker.peers.warm_and_wait(OWNER, warm_ask("mem")).await.unwrap();
    }
    assert_eq!(proxy.counts().connections, 1);
}

#[tokio::test]
async fn a_worker_that_was_restarted_is_asked_as_if_nothing_had_been() {
    let owner = Owner::start();
    let asker = Asker::of(owner.addr);
    let reads = || try_join_all((0..10).map(|_| asker.read_all("mem", range(0, 1000))));
    reads().await.unwrap();
    owner.shutdown.begin();
    owner.serving.await.unwrap();
    owner.shutdown.finished().await;
    let again = Owner::at(owner.addr, ServerLimits::default());
    reads().await.unwrap();
    assert_eq!(again.stub.asked.load(Ordering::Relaxed), 10);
}

#[tokio::test]
async fn shutdown_finishes_what_has_begun_and_takes_nothing_new() {
    let owner = Owner::start();
    let asker = Asker::of(owner.addr);
    let body = asker.read("rest", whole()).await.unwrap();
    asker.read_all("mem", whole()).await.unwrap();
    let Owner { shutdown, serving, addr, .. } = owner;
    shutdown.begin();
    serving.await.unwrap();
    eventually("the idle connection is closed", || shutdown.in_flight() == 1).await;
    assert_eq!(Asker::of(addr).peers.ping(OWNER).await, Err(PeerError::Gone));
    assert_eq!(drain(body, whole()).await, Ok(SIZE));
    shutdown.finished().await;
}

#[tokio::test]
async fn hints_are_sent_one_after_the_other_and_dropped_when_too_many() {
    let owner = Owner::start();
    let asker = Asker::of(owner.addr);
    let limit = crate::PeerLimits::default().warms;
    asker.peers.warm(OWNER, warm_ask("wait-300"));
    eventually("the first is on its way", || owner.connections() == 1).await;
    for _ in 0..limit + 50 {
        asker.peers.warm(OWNER, warm_ask("mem"));
    }
    eventually("they arrive", || owner.stub.warmed.lock().len() == limit + 1).await;
    pause(50).await;
    assert_eq!(owner.stub.warmed.lock().len(), limit + 1);
    assert!(owner.stub.warmed.lock().iter().all(|ask| !ask.wait));

    asker.peers.warm_and_wait(OWNER, warm_ask("wait-100")).await.unwrap();
    assert!(owner.stub.warmed.lock().last().unwrap().wait, "it returns when it is done");
}

/// Speaks to the data port as a peer that makes mistakes.
async fn ask_badly(owner: &Owner, request: Request<Full<Bytes>>) -> (u16, Option<Failure>) {
    let mut stream = TcpStream::connect(owner.addr).await.unwrap();
    let handshake = Handshake::new(secret("s"), Arc::new(SystemClock), Arc::new(SystemRng));
    handshake.offer(&mut stream, Purpose::Data).await.unwrap();
    let http = hyper::client::conn::http1::handshake(TokioIo::new(stream));
    let (mut sender, connection) = http.await.unwrap();
    spawn(connection);
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.headers()["x-forebay-epoch"], "1");
    let failure = response.headers().get("x-forebay-answer");
    let failure = failure.map(|failure| Failure::from_header(failure).unwrap());
    let status = response.status().as_u16();
    assert!(response.collect().await.unwrap().to_bytes().is_empty());
    (status, failure)
}

#[tokio::test]
async fn asks_that_cannot_be_read_are_refused_with_a_reason() {
    let owner = Owner::start();
    let good = read_ask("mem", whole()).to_header().unwrap();
    let asks = [
        Request::get("/").body(Full::default()),
        Request::get("/v1/warm").header("x-forebay-ask", &good).body(Full::default()),
        Request::get("/v1/read").body(Full::default()),
        Request::get("/v1/read").header("x-forebay-ask", "%%%").body(Full::default()),
        Request::get("/v1/read").header("x-forebay-ask", "AAAA").body(Full::default()),
        Request::get("/v1/open").header("x-forebay-ask", &good).body(Full::default()),
        Request::post("/v1/forget").body(Full::from("what is this")),
        Request::post("/v1/forget").body(Full::from(vec![0; 4 << 20])),
    ];
    for ask in asks {
        let ask = ask.unwrap();
        let what = format!("{ask:?}");
        let (status, failure) = ask_badly(&owner, ask).await;
        assert_eq!(status, 400, "{what}");
        assert!(matches!(failure, Some(Failure::Internal(_))), "{what}: {failure:?}");
    }
    assert_eq!(owner.stub.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_reader_that_leaves_takes_its_connection_with_it() {
    let owner = Owner::start();
    let asker = Asker::of(owner.addr);
    let mut body = asker.read("mem", whole()).await.unwrap();
    body.next().await.unwrap().unwrap();
    drop(body);
    let waiting = asker.read("wait-60000", whole());
    assert!(timeout(&SystemClock, ms(100), waiting).await.is_err());
    let shutdown: Shutdown = owner.shutdown.clone();
    eventually("both connections are closed", || shutdown.in_flight() == 0).await;
}
