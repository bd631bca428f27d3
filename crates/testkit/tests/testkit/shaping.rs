//! A shaped origin is as slow as it was told to be, and no slower.

use std::time::Duration;

use forebay_rt::{Clock, SystemClock};
use forebay_testkit::Shape;
use forebay_testkit::process::Usage;
use forebay_testkit::reader::UpTo;

use crate::{MIB, open_origin, reader};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn latency_and_bandwidth_are_kept_within_a_tenth_at_little_cpu() {
    let origin = open_origin().await;
    let rate = 90_000_000;
    origin.put_pattern("b", "big", 90 * MIB);
    origin.set_shape(Shape::distant(Duration::from_millis(30), rate));
    let reader = reader(&origin);

    let before = Usage::of(std::process::id()).unwrap().cpu_seconds;
    let began = SystemClock.now();
    let read = reader.verify_get("b", "big", None, &UpTo(1)).await.unwrap();
    let took = began.elapsed();
    let cpu = Usage::of(std::process::id()).unwrap().cpu_seconds - before;

    let expected = 0.030 + read.bytes as f64 / rate as f64;
    let ratio = took.as_secs_f64() / expected;
    eprintln!("90 MiB at 90 MB/s: {took:?}, {ratio:.3} of the plan, {cpu:.2} s CPU for both ends");
    assert!((0.95..1.10).contains(&ratio), "{ratio}");
    let first_byte = read.first_byte.as_millis();
    assert!((30..80).contains(&first_byte), "{first_byte} ms");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_stream_has_the_bandwidth_to_itself() {
    let origin = open_origin().await;
    origin.set_shape(Shape::distant(Duration::ZERO, 5 * MIB));
    let reader = reader(&origin);
    let began = SystemClock.now();
    let reads: Vec<_> = (0..8)
        .map(|i| {
            let reader = reader.clone();
            forebay_rt::spawn(async move {
                reader.verify_get("b", &format!("data/{i:08}"), None, &UpTo(1)).await.unwrap()
            })
        })
        .collect();
    for read in reads {
        read.await.unwrap();
    }
    let ratio = began.elapsed().as_secs_f64() / 0.2;
    assert!((0.95..1.25).contains(&ratio), "{ratio}");
}

#[tokio::test]
async fn requests_beyond_the_rate_are_told_to_slow_down() {
    let origin = open_origin().await;
    let requests_per_second = Some(50);
    origin.set_shape(Shape { requests_per_second, ..Shape::default() });
    let reader = reader(&origin);
    let began = SystemClock.now();
    let (mut served, mut refused) = (0, 0);
    while began.elapsed() < Duration::from_millis(500) {
        match reader.head("b", "data/00000000").await.unwrap().status.as_u16() {
            200 => served += 1,
            503 => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert!((20..=32).contains(&served), "{served} served, {refused} refused");
    assert!(refused > 0);
}
