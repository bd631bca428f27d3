//! What an operator can see of an origin.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

mod world;

use forebay_origin::OriginConfig;
use forebay_telemetry::Exporter;
use forebay_testkit::{AccessKey, Fault, FaultOrigin, FaultRule};
use world::*;

#[tokio::test]
async fn requests_bytes_retries_and_outcomes_are_counted_once() {
    let exporter = Exporter::install().unwrap();
    let config_of_origin = forebay_testkit::OriginConfig {
        access_keys: vec![AccessKey::new(ACCESS_KEY, SECRET)],
        ..Default::default()
    };
    let origin = FaultOrigin::start(config_of_origin).await.unwrap();
    origin.put_pattern("train", "k", 1000);
    let metric_buckets = vec![bucket("train")];
    let connected = connect(OriginConfig { metric_buckets, ..config(&origin.endpoint()) }).await;

    let slow_down = Fault::Status { status: 503, code: "SlowDown".into() };
    origin.fault(FaultRule::new("once", slow_down).times(1));
    let body = connected.get(&object("k"), range(0, 700), None).await.unwrap();
    let in_flight = "forebay_origin_inflight_requests";
    assert!(exporter.render().contains(&format!("{in_flight} 1\n")));
    drain(body).await;
    connected.head(&object("none")).await.unwrap_err();
    drop(connected.get(&object("k"), range(0, 700), None).await.unwrap());
    let mut elsewhere = object("k");
    elsewhere.bucket = bucket("whatever-a-client-says");
    connected.head(&elsewhere).await.unwrap_err();
    let put = connected.forward(request("PUT", "/train/new", "12345")).await.unwrap();
    body_of(put).await;

    let page = exporter.render();
    let requests = "forebay_origin_requests_total{bucket=\"train\",op";
    for line in [
        format!("{requests}=\"get\",outcome=\"ok\"}} 1"),
        format!("{requests}=\"get\",outcome=\"503\"}} 1"),
        format!("{requests}=\"get\",outcome=\"dropped\"}} 1"),
        format!("{requests}=\"head\",outcome=\"4xx\"}} 1"),
        format!("{requests}=\"forward\",outcome=\"ok\"}} 1"),
        "forebay_origin_requests_total{bucket=\"other\",op=\"head\",outcome=\"4xx\"} 1".into(),
        "forebay_origin_bytes_total{bucket=\"train\"} 700".into(),
        "forebay_origin_retries_total{reason=\"503\"} 1".into(),
        "forebay_origin_first_byte_seconds_count{op=\"get\"} 2".into(),
        format!("{in_flight} 0"),
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
}
