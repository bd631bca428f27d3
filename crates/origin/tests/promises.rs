//! What an origin gives, held against one that checks signatures and lies on request.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

mod world;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_origin::{MinRate, Origin, OriginConfig, OriginError, SetupError};
use forebay_testkit::{AccessKey, Fault, FaultOrigin, FaultRule, Op, Pattern};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use world::*;

const SIZE: u64 = (1 << 20) + 5;

/// An origin with one object `k`, and a connection to it.
async fn world() -> (FaultOrigin, Arc<Origin>) {
    let origin = fault_origin().await;
    let connected = connect(config(&origin.endpoint())).await;
    (origin, connected)
}

async fn fault_origin() -> FaultOrigin {
    let config = forebay_testkit::OriginConfig {
        buckets: vec!["train".into()],
        access_keys: vec![AccessKey::new(ACCESS_KEY, SECRET)],
        ..Default::default()
    };
    let origin = FaultOrigin::start(config).await.unwrap();
    origin.put_pattern("train", "k", SIZE);
    origin
}

#[tokio::test]
async fn a_ranged_get_gives_exactly_the_bytes_and_the_version_they_are_of() {
    let (_origin, connected) = world().await;
    let pattern = Pattern::new("train", "k", 1);
    let head = connected.head(&object("k")).await.unwrap();
    assert_eq!((head.stamp.size, head.stamp.etag.as_str()), (SIZE, &*pattern.etag()));
    for (start, end) in [(0, 1), (4095, 300_001), (SIZE - 1, SIZE)] {
        let asked = range(start, end);
        let body = connected.get(&object("k"), asked, Some(&head.stamp)).await.unwrap();
        assert_eq!((body.range, &body.head.stamp), (asked, &head.stamp));
        assert_eq!(body.head.headers, head.headers);
        let (bytes, error) = drain(body).await;
        assert_eq!((bytes.len() as u64, error), (asked.len(), None));
        pattern.verify(start, &bytes).unwrap();
    }
    let past_the_end = connected.get(&object("k"), range(9, SIZE + 9), None).await.unwrap();
    assert_eq!(past_the_end.range, range(9, SIZE));
}

#[tokio::test]
async fn an_object_that_changed_is_moved_whether_or_not_the_origin_minds_if_match() {
    let (origin, connected) = world().await;
    let old = connected.head(&object("k")).await.unwrap().stamp;
    origin.overwrite("train", "k").unwrap();
    let pinned = || async { connected.get(&object("k"), range(0, 10), Some(&old)).await };
    assert_eq!(pinned().await.unwrap_err(), OriginError::Moved);
    origin.fault(FaultRule::new("deaf", Fault::IgnoreIfMatch));
    assert_eq!(pinned().await.unwrap_err(), OriginError::Moved);
    assert_eq!(origin.fired("deaf"), 1);
    let new = connected.get(&object("k"), range(0, 10), None).await.unwrap();
    assert_ne!(new.head.stamp, old);
}

#[tokio::test]
async fn a_lying_head_is_found_out_before_a_byte_is_given() {
    let (origin, connected) = world().await;
    let pin = connected.head(&object("k")).await.unwrap().stamp;
    let ignores = OriginError::Uncacheable("the origin ignores Range");
    let no_etag = || OriginError::Uncacheable("no strong ETag");
    for (fault, unpinned) in [
        (Fault::WholeInsteadOfRange, ignores),
        (Fault::WrongContentRange { shift_bytes: 1 }, OriginError::Moved),
        (Fault::WrongContentLength { delta: 5 }, OriginError::Moved),
        (Fault::MissingEtag, no_etag()),
        (Fault::WeakEtag, no_etag()),
    ] {
        origin.fault(FaultRule::new("lie", fault.clone()));
        let result = connected.get(&object("k"), range(0, 10), None).await;
        assert_eq!(result.unwrap_err(), unpinned, "{fault:?}");
        let result = connected.get(&object("k"), range(0, 10), Some(&pin)).await;
        assert_eq!(result.unwrap_err(), OriginError::Moved, "{fault:?}");
        assert_eq!(origin.fired("lie"), 2, "{fault:?}");
    }
    origin.fault(FaultRule::new("lie", Fault::WrongEtag));
    let result = connected.get(&object("k"), range(0, 10), Some(&pin)).await;
    assert_eq!(result.unwrap_err(), OriginError::Moved);
}

#[tokio::test]
async fn a_broken_body_gives_its_true_bytes_and_then_an_error() {
    let (origin, connected) = world().await;
    let pattern = Pattern::new("train", "k", 1);
    for fault in [Fault::Truncate { after_bytes: 70_000 }, Fault::Reset { after_bytes: 70_000 }] {
        origin.fault(FaultRule::new("cut", fault.clone()));
        let body = connected.get(&object("k"), range(3, 200_003), None).await.unwrap();
        let (bytes, error) = drain(body).await;
        assert!(bytes.len() <= 70_000, "{fault:?}: {}", bytes.len());
        pattern.verify(3, &bytes).unwrap();
        let expected = format!("after {} of 200000 bytes", bytes.len());
        assert!(unavailable(error).ends_with(&expected), "{fault:?}");
        assert_eq!(origin.fired("cut"), 1, "{fault:?}");
    }
}

#[tokio::test]
async fn bytes_after_the_end_of_a_body_are_nobodys() {
    let (origin, connected) = world().await;
    origin.fault(FaultRule::new("extra", Fault::ExtraBytes { bytes: 100 }).times(1));
    for _ in 0..2 {
        let body = connected.get(&object("k"), range(0, 1000), None).await.unwrap();
        let (bytes, error) = drain(body).await;
        assert_eq!((bytes.len(), error), (1000, None));
        Pattern::new("train", "k", 1).verify(0, &bytes).unwrap();
    }
    assert_eq!(origin.fired("extra"), 1);
}

#[tokio::test]
async fn a_dripping_body_is_given_up() {
    let (origin, _) = world().await;
    let min_rate = MinRate { bytes_per_s: 1 << 20, window: Duration::from_millis(200) };
    let connected = connect(OriginConfig { min_rate, ..config(&origin.endpoint()) }).await;
    origin.fault(FaultRule::new("drip", Fault::SlowDrip { bytes_per_second: 10_000 }));
    let body = connected.get(&object("k"), range(0, SIZE), None).await.unwrap();
    let (bytes, error) = drain(body).await;
    assert!(bytes.len() < 100_000, "{}", bytes.len());
    let detail = unavailable(error);
    assert!(detail.starts_with("body is too slow: only"), "{detail}");
}

#[tokio::test]
async fn throttling_and_resets_are_ridden_out() {
    let (origin, connected) = world().await;
    let slow_down = Fault::Status { status: 503, code: "SlowDown".into() };
    for fault in [slow_down, Fault::ResetBeforeHead] {
        origin.fault(FaultRule::new("twice", fault).times(2));
        let body = connected.get(&object("k"), range(0, 10), None).await.unwrap();
        assert_eq!(drain(body).await.1, None);
        assert_eq!(origin.fired("twice"), 2);
    }
}

#[tokio::test]
async fn an_origin_that_is_down_is_unavailable_and_works_again_when_it_is_up() {
    let (origin, connected) = world().await;
    connected.head(&object("k")).await.unwrap();
    origin.set_reachable(false);
    let failed = connected.head(&object("k")).await.unwrap_err();
    assert!(!unavailable(Some(failed)).contains(SECRET));
    origin.set_reachable(true);
    connected.head(&object("k")).await.unwrap();
}

#[tokio::test]
async fn what_is_not_there_is_refused_with_its_code() {
    let (origin, connected) = world().await;
    let code = |error: OriginError| match error {
        OriginError::Refused(reply) => (reply.status, reply.code),
        other => panic!("not refused: {other:?}"),
    };
    let missing = connected.get(&object("none"), range(0, 10), None).await.unwrap_err();
    assert_eq!(code(missing), (404, "NoSuchKey".into()));
    let mut elsewhere = object("k");
    elsewhere.bucket = bucket("nowhere");
    let missing = connected.get(&elsewhere, range(0, 10), None).await.unwrap_err();
    assert_eq!(code(missing), (404, "NoSuchBucket".into()));
    let past = connected.get(&object("k"), range(SIZE, SIZE + 1), None).await.unwrap_err();
    assert_eq!(past, OriginError::Unsatisfiable);
    origin.put_pattern("train", "empty", 0);
    let empty = connected.get(&object("empty"), range(0, 10), None).await.unwrap_err();
    assert_eq!(empty, OriginError::Unsatisfiable);
    assert_eq!(connected.head(&object("empty")).await.unwrap().stamp.size, 0);
}

#[tokio::test]
async fn wrong_keys_are_refused_and_the_probe_says_what_to_do() {
    let (origin, connected) = world().await;
    connected.probe(&bucket("train")).await.unwrap();
    let missing = connected.probe(&bucket("nowhere")).await.unwrap_err();
    assert!(matches!(missing, SetupError::NoSuchBucket { .. }), "{missing:?}");
    for (id, secret, expected) in [
        ("AKIDUNKNOWN", SECRET, "InvalidAccessKeyId"),
        (ACCESS_KEY, "not the secret", "SignatureDoesNotMatch"),
    ] {
        let credentials = keys(id, secret);
        let stranger = OriginConfig { credentials, ..config(&origin.endpoint()) };
        let stranger = connect(stranger).await;
        let refused = stranger.get(&object("k"), range(0, 10), None).await.unwrap_err();
        assert!(matches!(&refused, OriginError::Refused(r) if r.code == expected), "{refused:?}");
        let error = stranger.probe(&bucket("train")).await.unwrap_err();
        assert!(matches!(&error, SetupError::WrongCredentials { code, .. } if code == expected));
        assert!(!format!("{error} {error:?} {stranger:?}").contains(secret));
    }
}

#[tokio::test]
async fn forwarded_writes_are_read_back_under_every_odd_key() {
    let (_origin, connected) = world().await;
    let keys = ["plain", "with%20space", "a%2Bb", "a//b", "a/../b", "%25", "(raw)!*'", "k%D0%BB"];
    for key in keys {
        let target = format!("/train/{key}");
        let put = connected.forward(request("PUT", &target, key)).await.unwrap();
        assert_eq!(put.status(), 200, "{key}");
        let got = connected.forward(request("GET", &target, "")).await.unwrap();
        assert_eq!(got.status(), 200, "{key}");
        assert_eq!(body_of(got).await, key.as_bytes());
    }
    let listed = connected.forward(request("GET", "/train?list-type=2&prefix=a%2F..", "")).await;
    let listed = String::from_utf8(body_of(listed.unwrap()).await).unwrap();
    assert!(listed.contains("<Key>a/../b</Key>"), "{listed}");
    let gone = connected.forward(request("DELETE", "/train/a//b", "")).await.unwrap();
    assert_eq!(gone.status(), 204);
    let missing = connected.forward(request("GET", "/train/a//b", "")).await.unwrap();
    assert_eq!(missing.status(), 404);
    assert!(String::from_utf8(body_of(missing).await).unwrap().contains("NoSuchKey"));
}

#[tokio::test]
async fn a_write_with_its_checksum_behind_it_is_read_back() {
    let (_origin, connected) = world().await;
    let framed = "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n";
    let mut put = request("PUT", "/train/trailing", framed);
    for (name, value) in [
        ("x-amz-trailer", "x-amz-checksum-crc32"),
        ("x-amz-decoded-content-length", "5"),
        ("content-encoding", "aws-chunked"),
    ] {
        put.headers_mut().insert(name, value.parse().unwrap());
    }
    assert_eq!(connected.forward(put).await.unwrap().status(), 200);
    let got = connected.forward(request("GET", "/train/trailing", "")).await.unwrap();
    assert_eq!(body_of(got).await, b"hello");
}

#[tokio::test]
async fn a_multipart_upload_passes_through() {
    let (_origin, connected) = world().await;
    let created = connected.forward(request("POST", "/train/big?uploads", "")).await.unwrap();
    let created = String::from_utf8(body_of(created).await).unwrap();
    let id = created.split("<UploadId>").nth(1).unwrap().split('<').next().unwrap();
    let parts = [vec![b'a'; 5 << 20], vec![b'b'; 17]];
    let mut listed = String::new();
    for (number, part) in (1..).zip(&parts) {
        let target = format!("/train/big?partNumber={number}&uploadId={id}");
        let put = connected.forward(request("PUT", &target, part.clone())).await.unwrap();
        let etag = put.headers()["etag"].to_str().unwrap();
        let part = format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>");
        listed.push_str(&part);
    }
    let body = format!("<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>");
    let target = format!("/train/big?uploadId={id}");
    let done = connected.forward(request("POST", &target, body)).await.unwrap();
    assert_eq!(done.status(), 200);
    let head = connected.head(&object("big")).await.unwrap();
    assert_eq!(head.stamp.size, (5 << 20) + 17);
    let tail = range((5 << 20) - 1, (5 << 20) + 17);
    let body = connected.get(&object("big"), tail, Some(&head.stamp)).await.unwrap();
    let (bytes, error) = drain(body).await;
    assert_eq!((&bytes[..2], error), (&b"ab"[..], None));
}

#[tokio::test]
async fn forwarded_bodies_stream_in_both_directions() {
    const PIECES: u64 = 64;
    const PIECE: usize = 256 << 10;
    let (origin, connected) = world().await;
    let pieces = (0..PIECES).map(|_| Ok(Frame::data(Bytes::from(vec![7; PIECE]))));
    let body = StreamBody::new(futures_util::stream::iter(pieces)).boxed_unsync();
    let size = PIECES * PIECE as u64;
    let put = http::Request::put("/train/streamed").header("content-length", size);
    let put = connected.forward(put.body(body).unwrap()).await.unwrap();
    assert_eq!(put.status(), 200);

    let hang = Fault::Hang { after_bytes: 1 << 20 };
    origin.fault(FaultRule::new("hang", hang).prefix("streamed"));
    let got = connected.forward(request("GET", "/train/streamed", "")).await.unwrap();
    let mut body = got.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.iter().all(|byte| *byte == 7), "the first bytes do not wait for the last");
    assert_eq!(origin.log().requests(Op::PutObject), 1);
}
