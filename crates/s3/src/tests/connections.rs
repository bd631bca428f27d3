//! Connections: their bounds, their end, and heads that try to be two things at once.

use std::time::Duration;

use super::world::World;
use crate::Auth;
use forebay_rt::{SystemClock, timeout};

const GET: &str = "GET /b/k HTTP/1.1";

async fn world(max_connections: usize) -> World {
    let world = World::with(Auth::None, max_connections).await;
    world.origin.put("k", "bytes");
    world
}

#[tokio::test]
async fn a_connection_serves_many_requests() {
    let world = world(10).await;
    let mut client = world.connect().await;
    for _ in 0..3 {
        assert_eq!(client.ask(GET).await.text(), "bytes");
    }
}

#[tokio::test]
async fn connections_beyond_the_bound_wait_for_a_place() {
    let world = world(1).await;
    let mut first = world.connect().await;
    assert_eq!(first.ask(GET).await.text(), "bytes");
    let mut second = world.connect().await;
    second.send(format!("{GET}\r\nhost: h\r\n\r\n")).await;
    let soon = Duration::from_millis(100);
    assert!(timeout(&SystemClock, soon, second.answer(false)).await.is_err());
    drop(first);
    assert_eq!(second.answer(false).await.unwrap().text(), "bytes");
}

#[tokio::test]
async fn shutdown_closes_idle_connections_and_ends_the_listener() {
    let world = world(10).await;
    let mut client = world.connect().await;
    assert_eq!(client.ask(GET).await.text(), "bytes");
    world.shutdown.begin();
    assert!(client.is_closed().await);
    world.serving.await.unwrap();
    world.shutdown.finished().await;
}

#[tokio::test]
async fn a_head_with_two_lengths_is_refused() {
    let world = world(10).await;
    let mut client = world.connect().await;
    client
        .send("PUT /b/k HTTP/1.1\r\nhost: h\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab")
        .await;
    assert_eq!(client.answer(false).await.unwrap().status(), 400);
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn what_hides_behind_a_chunked_body_is_never_a_request() {
    let world = world(10).await;
    for lengths in [
        "content-length: 5\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 5",
    ] {
        let mut client = world.connect().await;
        let hidden = format!("{GET}\r\nhost: h\r\n\r\n");
        client
            .send(format!("PUT /b/k HTTP/1.1\r\nhost: h\r\n{lengths}\r\n\r\n0\r\n\r\n{hidden}"))
            .await;
        assert_eq!(client.answer(false).await.unwrap().text(), "forwarded", "{lengths}");
        assert!(client.is_closed().await, "{lengths}");
        let seen = world.origin.seen.lock().pop().unwrap();
        assert!(seen.body.is_empty() && world.origin.seen.lock().is_empty());
        assert!(!seen.headers.contains_key("transfer-encoding"));
    }
}

#[tokio::test]
async fn heads_that_are_too_large_or_malformed_are_refused() {
    let world = world(10).await;
    let long = format!("{GET}\r\nhost: h\r\nx-long: {}\r\n\r\n", "x".repeat(64 << 10));
    let many = format!("{GET}\r\nhost: h\r\n{}\r\n", "x-a: b\r\n".repeat(101));
    let folded = format!("{GET}\r\nhost: h\r\nx-a: b\r\n c\r\n\r\n");
    let spaced = format!("{GET}\r\nhost: h\r\ncontent-length : 0\r\n\r\n");
    for (head, status) in [(long, 431), (many, 431), (folded, 400), (spaced, 400)] {
        let mut client = world.connect().await;
        client.send(head).await;
        assert_eq!(client.answer(false).await.unwrap().status(), status);
    }
}

#[tokio::test]
async fn what_a_server_before_us_may_have_read_otherwise_is_refused_and_closed() {
    let world = world(10).await;
    let hidden = "DELETE /b/k HTTP/1.1\r\nhost: h\r\n\r\n";
    let put = |lines: &str| format!("PUT /b/k HTTP/1.1\r\n{lines}\r\n\r\n0\r\n\r\n{hidden}");
    for (sent, status) in [
        (put("host: h\r\ntransfer-encoding: identity, chunked"), 501),
        (put("host: h\r\ntransfer-encoding: gzip, chunked"), 501),
        (put("host: h\r\ntransfer-encoding: chunked, chunked"), 501),
        (put("host: h\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked"), 501),
        (format!("{GET}\r\n\r\n{hidden}"), 400),
        (format!("{GET}\r\nhost: h\r\nhost: h\r\n\r\n{hidden}"), 400),
        (format!("GET http://other/b/k HTTP/1.1\r\nhost: h\r\n\r\n{hidden}"), 400),
    ] {
        let mut client = world.connect().await;
        client.send(&sent).await;
        let answer = client.answer(false).await.unwrap();
        assert_eq!(
            (answer.status(), answer.header("connection")),
            (status, Some("close")),
            "{sent}"
        );
        assert!(client.is_closed().await, "{sent}");
    }
    assert!(world.origin.seen.lock().is_empty());
    let mut client = world.connect().await;
    client.send("GET http://H/b/k HTTP/1.1\r\nhost: h\r\n\r\n").await;
    assert_eq!(client.answer(false).await.unwrap().text(), "bytes");
}
