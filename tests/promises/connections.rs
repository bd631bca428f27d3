//! What clients do with their connections: one for each request, many requests on one, heads
//! that trickle in, ends that are closed half.

use std::sync::Arc;
use std::time::Duration;

use forebay_testkit::{Pattern, PatternSet};
use forebay_tests::{BUCKET, Setup, World, read};
use http::Method;
use tokio::task::JoinSet;

use crate::wire::{Answered, Wire, signed};

const CLIENTS: usize = 100;
const REQUESTS_EACH: usize = 20;
const SLOW_CLIENTS: usize = 200;
/// How often a slow client sends a byte.
const TRICKLE: Duration = Duration::from_millis(200);
/// How often at most: far more than a slow client gets to do it before it is cut.
const TRICKLES_MAX: usize = 600;

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_clients_with_a_connection_for_each_request_are_all_served() {
    let set = PatternSet::new(BUCKET, "k-", 10, 30_000);
    let world = Arc::new(World::start(Setup::default(), &[&set]).await.unwrap());
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (world, set) = (world.clone(), set.clone());
        clients.spawn(async move {
            for request in 0..REQUESTS_EACH {
                let key = set.key((client + request) as u64 % set.count);
                let head = signed(&world, &Method::GET, &format!("/{BUCKET}/{key}"));
                let mut wire = Wire::connect(&world).await;
                wire.send(format!("{head}Connection: close\r\n\r\n")).await;
                let answers = wire.answers_to_the_end().await;
                assert_eq!(answers.len(), 1);
                assert_object(&answers[0], &key, 0, 30_000);
            }
        });
    }
    clients.join_all().await;
    let mut connections = f64::NAN;
    for _ in 0..600 {
        connections = world.worker.metric("forebay_client_connections").await.unwrap();
        if connections == 0.0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(connections == 0.0, "{connections} connections are still counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_answered_in_their_order_however_they_arrive() {
    let set = PatternSet::new(BUCKET, "k-", 50, 100_000);
    let world = World::start(Setup::default(), &[&set]).await.unwrap();
    // Half of them hits, half of them misses.
    for index in 0..set.count / 2 {
        read(&world.reader().unwrap(), &set.key(index * 2), None).await.unwrap();
    }
    let get = |key: &str| signed(&world, &Method::GET, &format!("/{BUCKET}/{key}"));
    let part = |index: u64| {
        let head = get(&set.key(index));
        format!("{head}Range: bytes={index}-{}\r\n\r\n", index + 999)
    };
    let put = signed(&world, &Method::PUT, &format!("/{BUCKET}/written"));
    let last = [
        format!("{put}Content-Length: 7\r\n\r\nwritten"),
        get("written") + "\r\n",
        get("nothing-there") + "\r\n",
        get(&set.key(0)) + "Connection: close\r\n\r\n",
    ];
    let script: String = (0..set.count).map(part).chain(last).collect();

    for piece_bytes in [script.len(), 61] {
        let mut wire = Wire::connect(&world).await;
        for piece in script.as_bytes().chunks(piece_bytes) {
            wire.send(piece).await;
        }
        let answers = wire.answers_to_the_end().await;
        assert_eq!(answers.len() as u64, set.count + 4, "in pieces of {piece_bytes}");
        let (ranges, rest) = answers.split_at(set.count as usize);
        for (index, answer) in ranges.iter().enumerate() {
            assert_eq!(answer.status(), 206);
            assert_object(answer, &set.key(index as u64), index as u64, 1000);
        }
        let statuses: Vec<_> = rest.iter().map(Answered::status).collect();
        assert_eq!(statuses, [200, 200, 404, 200]);
        assert_eq!(rest[1].text(), "written");
        assert_object(&rest[3], &set.key(0), 0, 100_000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_never_finish_what_they_send_are_cut_and_hold_up_nobody() {
    let set = PatternSet::new(BUCKET, "k-", 10, 10_000);
    let world = Arc::new(World::start(Setup::default(), &[&set]).await.unwrap());
    let mut slow = JoinSet::new();
    for client in 0..SLOW_CLIENTS {
        let world = world.clone();
        slow.spawn(async move {
            match client % 3 {
                0 => is_cut_in_its_head(&world, false).await,
                // A connection that has been of use is cut all the same.
                1 => is_cut_in_its_head(&world, true).await,
                _ => is_cut_in_its_body(&world).await,
            }
        });
    }
    let readers: Vec<_> = (0..10).map(|_| world.reader().unwrap()).collect();
    for index in 0..500 {
        read(&readers[index % 10], &set.key(index as u64 % set.count), None).await.unwrap();
    }
    let cut = slow.join_all().await.into_iter().filter(|is_cut| *is_cut).count();
    assert_eq!(cut, SLOW_CLIENTS);
}

async fn is_cut_in_its_head(world: &World, is_of_use_before: bool) -> bool {
    let mut wire = Wire::connect(world).await;
    let head = signed(world, &Method::GET, &format!("/{BUCKET}/k-00000000"));
    if is_of_use_before {
        wire.send(format!("{head}\r\n")).await;
        assert_eq!(wire.answer().await.unwrap().status(), 200);
    }
    wire.send(format!("{head}x-slow: ")).await;
    for _ in 0..TRICKLES_MAX {
        if wire.ends_within(TRICKLE).await {
            return true;
        }
        wire.send("x").await;
    }
    false
}

async fn is_cut_in_its_body(world: &World) -> bool {
    let mut wire = Wire::connect(world).await;
    let head = signed(world, &Method::PUT, &format!("/{BUCKET}/never-whole"));
    wire.send(format!("{head}Content-Length: 100000\r\n\r\nonly this")).await;
    for _ in 0..TRICKLES_MAX {
        if wire.ends_within(TRICKLE).await {
            return true;
        }
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_has_closed_its_half_still_gets_all_of_its_answer() {
    let size_bytes = 40 << 20;
    let set = PatternSet::new(BUCKET, "k-", 1, size_bytes);
    let world = World::start(Setup::default(), &[&set]).await.unwrap();
    let head = signed(&world, &Method::GET, &format!("/{BUCKET}/{}", set.key(0)));
    for what in ["a miss", "a hit"] {
        let mut wire = Wire::connect(&world).await;
        wire.send(format!("{head}\r\n")).await;
        wire.end_sending().await;
        let answers = wire.answers_to_the_end().await;
        assert_eq!(answers.len(), 1, "{what}");
        assert_object(&answers[0], &set.key(0), 0, size_bytes);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_client_leaves_in_mid_body_is_not_made() {
    let world = World::start(Setup::default(), &[]).await.unwrap();
    for (key, framing) in [
        ("by-length", "Content-Length: 100000\r\n\r\nonly this"),
        ("half", "Content-Length: 10\r\n\r\n12345"),
    ] {
        let head = signed(&world, &Method::PUT, &format!("/{BUCKET}/{key}"));
        let mut wire = Wire::connect(&world).await;
        wire.send(format!("{head}{framing}")).await;
        wire.end_sending().await;
        let answers = wire.answers_to_the_end().await;
        assert!(answers.iter().all(|answer| answer.status() >= 400), "{key}: {answers:?}");
        let at_origin = world.direct().unwrap().head(BUCKET, key).await.unwrap();
        assert_eq!(at_origin.status, 404, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_head_is_served_and_a_larger_one_is_refused_and_closed() {
    let set = PatternSet::new(BUCKET, "k-", 1, 1000);
    let world = World::start(Setup::default(), &[&set]).await.unwrap();
    let head = signed(&world, &Method::GET, &format!("/{BUCKET}/{}", set.key(0)));
    let padded = |bytes: usize| format!("{head}x-pad: {}\r\n\r\n", "p".repeat(bytes));
    let mut wire = Wire::connect(&world).await;
    wire.send(padded(30_000)).await;
    assert_object(&wire.answer().await.unwrap(), &set.key(0), 0, 1000);
    wire.send(padded(40_000) + &padded(0)).await;
    let statuses: Vec<_> = wire.answers_to_the_end().await.iter().map(Answered::status).collect();
    assert_eq!(statuses, [431]);
}

fn assert_object(answer: &Answered, key: &str, start: u64, len: u64) {
    assert!([200, 206].contains(&answer.status()), "{key}: {answer:?}");
    assert_eq!(answer.body.len() as u64, len, "{key}");
    Pattern::new(BUCKET, key, 1).verify(start, &answer.body).unwrap();
}
