//! What goes over the wire to an origin, byte for byte, and what is made of odd answers.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

mod raw;
mod world;

use std::time::Duration;

use forebay_origin::{CredentialsSource, MinRate, OriginConfig, OriginError, SetupError};
use forebay_types::{ETag, ObjectName, Stamp};
use futures_util::StreamExt;
use http_body_util::BodyExt;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use raw::{Answer, RawOrigin};
use world::*;

const DATE: &str = "Tue, 01 Sep 2026 10:00:00 GMT";

/// A good answer to `bytes=0-9` of a 10-byte object.
fn ten_bytes() -> Vec<u8> {
    part("bytes 0-9/10", "0123456789")
}

fn part(content_range: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 206 Partial Content\r\nETag: \"e1\"\r\nLast-Modified: {DATE}\r\n\
         Content-Range: {content_range}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into()
}

fn error(status: u16, code: &str) -> Vec<u8> {
    let body = format!("<Error><Code>{code}</Code><Message>because</Message></Error>");
    format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into()
}

fn bare(status: u16) -> Vec<u8> {
    format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n").into()
}

fn stamp() -> Stamp {
    Stamp { etag: ETag::new("\"e1\""), size: 10, last_modified: DATE.into(), version_id: None }
}

async fn get_failing_with(answer: Vec<u8>, pin: Option<&Stamp>) -> OriginError {
    let raw = RawOrigin::start(move |_, _| Answer::Bytes(answer.clone())).await;
    let origin = connect(config(&raw.endpoint)).await;
    origin.get(&object("k"), range(0, 10), pin).await.unwrap_err()
}

#[tokio::test]
async fn keys_arrive_as_they_are() {
    let raw = RawOrigin::start(|_, seen| match seen.method.as_str() {
        "GET" => Answer::Bytes(ten_bytes()),
        _ => Answer::Bytes(bare(200)),
    })
    .await;
    let origin = connect(config(&raw.endpoint)).await;
    let keys = [
        "plain",
        "with space",
        "a+b",
        "a//b",
        "/lead",
        "//",
        "trail/",
        "a/../b",
        "..",
        "./x",
        "%2e%2e/",
        "100%",
        "q?x=1&y#z",
        "ключ/\u{1f600}",
        "a\0b\n",
        "(paren)!*'@:$,;=[]{}|~",
    ];
    for key in keys {
        origin.get(&object(key), range(0, 10), None).await.unwrap();
        let target = format!("/train/{}", percent_encode(key.as_bytes(), NON_ALPHANUMERIC));
        origin.forward(request("PUT", &target, "")).await.unwrap();
        let seen = raw.seen();
        for seen in &seen[seen.len() - 2..] {
            let path: Vec<u8> = percent_decode_str(seen.path()).collect();
            assert_eq!(path, format!("/train/{key}").as_bytes(), "{} {key:?}", seen.method);
        }
        let length = seen.last().unwrap().header("content-length");
        assert_eq!(length, Some("0"), "S3 takes no write that does not say how long it is");
    }
    // What the SDK cannot say is left to be forwarded.
    let unsayable = OriginError::Uncacheable("a key of white space");
    assert_eq!(origin.get(&object(" "), range(0, 10), None).await.unwrap_err(), unsayable);
    assert_eq!(origin.head(&object("\u{a0}\n")).await.unwrap_err(), unsayable);
}

#[tokio::test]
async fn a_pinned_get_names_range_etag_and_version() {
    let versioned = String::from_utf8(ten_bytes()).unwrap();
    let versioned = versioned.replace("ETag", "x-amz-version-id: v7\r\nETag").into_bytes();
    let raw = RawOrigin::start(move |_, _| Answer::Bytes(versioned.clone())).await;
    let origin = connect(config(&raw.endpoint)).await;
    let pin = Stamp { version_id: Some("v7".into()), ..stamp() };
    let body = origin.get(&object("k"), range(0, 10), Some(&pin)).await.unwrap();
    assert_eq!(body.head.stamp, pin);
    assert_eq!(drain(body).await, (b"0123456789".to_vec(), None));
    let seen = &raw.seen()[0];
    assert_eq!(seen.header("range"), Some("bytes=0-9"));
    assert_eq!(seen.header("if-match"), Some("\"e1\""));
    assert!(seen.target.contains("versionId=v7"), "{}", seen.target);
    assert_eq!(seen.header("x-amz-checksum-mode"), None, "checksums are not ours to ask for");
}

#[tokio::test]
async fn object_headers_are_kept_verbatim() {
    let raw = RawOrigin::start(|_, _| {
        let head = "HTTP/1.1 200 OK\r\nETag: \"d41d-12\"\r\nContent-Length: 5368709120\r\n\
            Last-Modified: Tue,  1 Sep 2026 10:00:00 +0000\r\nContent-Type: image/jpeg; q=1\r\n\
            x-amz-meta-Label: caf\u{e9} ; x\r\nx-amz-missing-meta: many\r\nExpires: soon\r\n\
            Cache-Control: max-age=1,  private\r\nDate: x\r\nServer: y\r\nx-amz-id-2: z\r\n\r\n";
        Answer::Bytes(head.into())
    })
    .await;
    let origin = connect(config(&raw.endpoint)).await;
    let head = origin.head(&object("k")).await;
    assert_eq!(
        head.unwrap_err(),
        OriginError::Uncacheable("a header of the answer is malformed"),
        "what the SDK cannot read is passed through, not guessed"
    );

    let raw = RawOrigin::start(|_, _| {
        let head = "HTTP/1.1 200 OK\r\nETag: \"d41d-12\"\r\nContent-Length: 5368709120\r\n\
            Last-Modified: Tue, 01 Sep 2026 10:00:00 GMT\r\nContent-Type: image/jpeg; q=1\r\n\
            x-amz-meta-Label: caf\u{e9} ; x\r\nExpires: soon\r\n\
            Cache-Control: max-age=1,  private\r\nDate: x\r\nServer: y\r\nx-amz-id-2: z\r\n\r\n";
        Answer::Bytes(head.into())
    })
    .await;
    let origin = connect(config(&raw.endpoint)).await;
    let head = origin.head(&object("k")).await.unwrap();
    assert_eq!(head.stamp.size, 5_368_709_120);
    assert_eq!(head.stamp.etag.as_str(), "\"d41d-12\"");
    assert_eq!(&*head.stamp.last_modified, DATE);
    assert_eq!(head.headers["x-amz-meta-label"].as_bytes(), "caf\u{e9} ; x".as_bytes());
    assert_eq!(head.headers["cache-control"], "max-age=1,  private");
    assert_eq!(head.headers["expires"], "soon");
    assert_eq!(head.headers.len(), 6, "{:?}", head.headers);
}

#[tokio::test]
async fn refusals_carry_status_code_and_message() {
    let OriginError::Refused(reply) = get_failing_with(error(404, "NoSuchBucket"), None).await
    else {
        panic!("not refused");
    };
    assert_eq!((reply.status, &*reply.code, &*reply.message), (404, "NoSuchBucket", "because"));
    for (status, code) in [(404, "NoSuchKey"), (403, "AccessDenied")] {
        let raw = RawOrigin::start(move |_, _| Answer::Bytes(bare(status))).await;
        let origin = connect(config(&raw.endpoint)).await;
        let refused = origin.head(&object("k")).await.unwrap_err();
        assert!(
            matches!(&refused, OriginError::Refused(r) if r.status == status && r.code == code),
            "{refused:?}"
        );
        assert_eq!(raw.seen().len(), 1, "a refusal is an answer: it is not asked for again");
    }
}

#[tokio::test]
async fn answers_that_are_not_what_was_asked_are_told_apart() {
    let pin = stamp();
    let whole = || {
        let body = String::from_utf8(ten_bytes()).unwrap();
        body.replace("206 Partial Content", "200 OK").into_bytes()
    };
    let wrong_range = || part("bytes 1-10/11", "0123456789");
    let cases = [
        (error(412, "PreconditionFailed"), Some(&pin), OriginError::Moved),
        (error(416, "InvalidRange"), None, OriginError::Unsatisfiable),
        (error(416, "InvalidRange"), Some(&pin), OriginError::Moved),
        (error(404, "NoSuchVersion"), Some(&pin), OriginError::Moved),
        (whole(), Some(&pin), OriginError::Moved),
        (whole(), None, OriginError::Uncacheable("the origin ignores Range")),
        (wrong_range(), None, OriginError::Moved),
        (part("bytes 0-9/11", "0123456789"), Some(&pin), OriginError::Moved),
    ];
    for (answer, pin, expected) in cases {
        assert_eq!(get_failing_with(answer, pin).await, expected);
    }
}

#[tokio::test]
async fn a_throttled_request_is_tried_again_and_then_asks_to_slow_down() {
    let raw = RawOrigin::start(|nth, _| match nth {
        0 => Answer::Bytes(error(503, "SlowDown")),
        1 => Answer::Bytes(error(429, "TooManyRequests")),
        _ => Answer::Bytes(ten_bytes()),
    })
    .await;
    let origin = connect(config(&raw.endpoint)).await;
    let body = origin.get(&object("k"), range(0, 10), None).await.unwrap();
    assert_eq!(drain(body).await.0.len(), 10);
    assert_eq!(get_failing_with(error(503, "SlowDown"), None).await, OriginError::SlowDown);
}

#[tokio::test]
async fn resets_and_server_errors_are_tried_again_and_then_named() {
    let raw = RawOrigin::start(|nth, _| match nth {
        0 => Answer::Reset,
        1 => Answer::Bytes(error(500, "InternalError")),
        _ => Answer::Bytes(ten_bytes()),
    })
    .await;
    let origin = connect(config(&raw.endpoint)).await;
    origin.get(&object("k"), range(0, 10), None).await.unwrap();
    assert_eq!(raw.seen().len(), 3);

    let failed = get_failing_with(error(500, "InternalError"), None).await;
    assert_eq!(unavailable(Some(failed)), "500 InternalError");
    let raw = RawOrigin::start(|_, _| Answer::Reset).await;
    let origin = connect(config(&raw.endpoint)).await;
    let failed = origin.head(&object("k")).await.unwrap_err();
    assert!(!unavailable(Some(failed)).is_empty());
    assert_eq!(raw.seen().len(), 3);
}

#[tokio::test]
async fn an_origin_that_does_not_answer_is_given_up_in_time() {
    let raw = RawOrigin::start(|_, _| Answer::BytesThenHang(Vec::new())).await;
    let first_byte_timeout = Duration::from_millis(50);
    let origin = connect(OriginConfig { first_byte_timeout, ..config(&raw.endpoint) }).await;
    let failed = origin.get(&object("k"), range(0, 10), None).await.unwrap_err();
    assert_eq!(unavailable(Some(failed)), "no answer within 50 ms");
    assert_eq!(raw.seen().len(), 3);
}

#[tokio::test]
async fn a_body_that_ends_early_is_an_error_in_place_of_the_missing_bytes() {
    let short = || ten_bytes()[..ten_bytes().len() - 4].to_vec();
    let raw = RawOrigin::start(move |_, _| Answer::BytesThenClose(short())).await;
    let origin = connect(config(&raw.endpoint)).await;
    let body = origin.get(&object("k"), range(0, 10), None).await.unwrap();
    let (bytes, error) = drain(body).await;
    assert_eq!(bytes, b"012345");
    let detail = unavailable(error);
    assert!(detail.ends_with("after 6 of 10 bytes"), "{detail}");
    assert_eq!(raw.seen().len(), 1, "who reads knows where to resume; nothing is repeated here");
}

#[tokio::test]
async fn a_body_that_stands_still_is_given_up() {
    let short = || ten_bytes()[..ten_bytes().len() - 4].to_vec();
    let raw = RawOrigin::start(move |_, _| Answer::BytesThenHang(short())).await;
    let stall_timeout = Duration::from_millis(50);
    let origin = connect(OriginConfig { stall_timeout, ..config(&raw.endpoint) }).await;
    let body = origin.get(&object("k"), range(0, 10), None).await.unwrap();
    let (bytes, error) = drain(body).await;
    assert_eq!(bytes, b"012345");
    let detail = unavailable(error);
    assert_eq!(detail, "body is too slow: no byte for 50 ms after 6 of 10 bytes");
}

#[tokio::test]
async fn a_request_is_in_flight_until_its_body_has_ended_or_is_dropped() {
    let raw = RawOrigin::start(|_, _| Answer::Bytes(ten_bytes())).await;
    let limits = OriginConfig {
        max_in_flight: 1,
        max_waiting: 1,
        wait_timeout: Duration::from_millis(50),
        min_rate: MinRate { bytes_per_s: 0, window: Duration::from_secs(1) },
        ..config(&raw.endpoint)
    };
    let origin = connect(limits).await;
    let (key, asked) = (object("k"), range(0, 10));
    let held = origin.get(&key, asked, None).await.unwrap();
    assert_eq!(origin.get(&key, asked, None).await.unwrap_err(), OriginError::SlowDown);
    assert_eq!(raw.seen().len(), 1, "over the limit nothing is sent");
    let forwarded = origin.forward(request("GET", "/train?list-type=2", "")).await;
    assert_eq!(forwarded.unwrap_err(), OriginError::SlowDown, "forwarded requests count too");
    let (waiting, ()) = tokio::join!(origin.get(&key, asked, None), async { drop(held) });
    assert_eq!(drain(waiting.unwrap()).await.1, None);
    let listed = origin.forward(request("GET", "/train?list-type=2", "")).await.unwrap();
    body_of(listed).await;
    origin.get(&key, asked, None).await.unwrap();
}

#[tokio::test]
async fn the_queue_for_a_slot_is_bounded() {
    let raw = RawOrigin::start(|_, _| Answer::Bytes(ten_bytes())).await;
    let limits = OriginConfig {
        max_in_flight: 1,
        max_waiting: 1,
        wait_timeout: Duration::from_mins(1),
        ..config(&raw.endpoint)
    };
    let origin = connect(limits).await;
    let (key, asked) = (object("k"), range(0, 10));
    let held = origin.get(&key, asked, None).await.unwrap();
    let (first, second) = tokio::join!(origin.get(&key, asked, None), async {
        let second = origin.get(&key, asked, None).await;
        drop(held);
        second
    });
    assert!(first.is_ok());
    assert_eq!(second.unwrap_err(), OriginError::SlowDown);
}

#[tokio::test]
async fn a_forwarded_request_keeps_its_headers_and_gets_our_signature() {
    let raw = RawOrigin::start(|_, _| {
        let answer = "HTTP/1.1 409 Conflict\r\nx-amz-request-id: r1\r\nETag: \"new\"\r\n\
            Connection: x-hop\r\nx-hop: 1\r\nContent-Length: 5\r\n\r\nhello";
        Answer::Bytes(answer.into())
    })
    .await;
    let origin = connect(config(&raw.endpoint)).await;
    let mut put = request("PUT", "/train/a(b)%2Fc?partNumber=1&uploadId=x%2By", "body");
    for (name, value) in [
        ("content-length", "4"),
        ("content-md5", "hBotaJrYa9FhFEdFPCLG/A=="),
        ("if-none-match", "*"),
        ("x-amz-meta-a", "b"),
        ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
        ("expect", "100-continue"),
        ("connection", "x-mine"),
        ("x-mine", "1"),
        ("authorization", "theirs"),
    ] {
        put.headers_mut().insert(name, value.parse().unwrap());
    }
    let response = origin.forward(put).await.unwrap();
    assert_eq!(response.status(), 409);
    assert_eq!(response.headers()["x-amz-request-id"], "r1");
    assert_eq!(response.headers()["content-length"], "5");
    assert!(!response.headers().contains_key("x-hop"));
    assert_eq!(body_of(response).await, b"hello");

    let seen = &raw.seen()[0];
    assert_eq!(seen.target, "/train/a%28b%29/c?partNumber=1&uploadId=x%2By");
    assert_eq!(seen.body, b"body");
    assert_eq!(seen.header("x-amz-content-sha256"), Some("UNSIGNED-PAYLOAD"));
    assert_eq!((seen.header("expect"), seen.header("x-mine")), (None, None));
    let signature = seen.header("authorization").unwrap();
    assert!(signature.starts_with(&format!("AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/")));
    let signed = signature.split("SignedHeaders=").nth(1).unwrap().split(',').next().unwrap();
    for name in ["content-md5", "host", "if-none-match", "x-amz-date", "x-amz-meta-a"] {
        assert!(signed.split(';').any(|header| header == name), "{name} in {signed}");
        assert!(seen.header(name).is_some(), "{name}");
    }
}

#[tokio::test]
async fn a_body_in_frames_is_said_to_be_one_signed_or_not() {
    let raw = RawOrigin::start(|_, _| Answer::Bytes(bare(200))).await;
    let signed = connect(config(&raw.endpoint)).await;
    let credentials = CredentialsSource::Anonymous;
    let unsigned = connect(OriginConfig { credentials, ..config(&raw.endpoint) }).await;
    let framed = "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n";
    for origin in [&signed, &unsigned] {
        let mut put = request("PUT", "/train/k", framed);
        put.headers_mut().insert("x-amz-trailer", "x-amz-checksum-crc32".parse().unwrap());
        origin.forward(put).await.unwrap();
    }
    for (seen, is_signed) in raw.seen().iter().zip([true, false]) {
        let hash = seen.header("x-amz-content-sha256");
        assert_eq!(hash, Some("STREAMING-UNSIGNED-PAYLOAD-TRAILER"));
        assert_eq!(seen.body, framed.as_bytes());
        let signature = seen.header("authorization");
        assert_eq!(signature.is_some_and(|text| text.contains("x-amz-trailer")), is_signed);
    }
}

#[tokio::test]
async fn a_body_of_unknown_length_is_refused_as_s3_refuses_it() {
    let raw = RawOrigin::start(|_, _| Answer::Bytes(bare(200))).await;
    let origin = connect(config(&raw.endpoint)).await;
    let known = request("PUT", "/train/k", "body");
    let unknown = known.map(|body| {
        let frames = futures_util::stream::once(body.collect());
        let frames = frames.map(|all| Ok(http_body::Frame::data(all?.to_bytes())));
        http_body_util::StreamBody::new(frames).boxed_unsync()
    });
    let refused = origin.forward(unknown).await.unwrap_err();
    assert!(
        matches!(&refused, OriginError::Refused(r) if r.status == 411
            && r.code == "MissingContentLength"),
        "{refused:?}"
    );
    assert!(raw.seen().is_empty());
}

#[tokio::test]
async fn only_forwarded_reads_are_sent_twice() {
    let raw = RawOrigin::start(|nth, _| match nth {
        0 | 2 => Answer::Reset,
        _ => Answer::Bytes(bare(503)),
    })
    .await;
    let origin = connect(config(&raw.endpoint)).await;
    let listed = origin.forward(request("GET", "/train?list-type=2", "")).await.unwrap();
    assert_eq!(listed.status(), 503, "an answer, whatever it is, is the client's");
    assert_eq!(raw.seen().len(), 2);
    origin.forward(request("PUT", "/train/k", "body")).await.unwrap_err();
    assert_eq!(raw.seen().len(), 3);
}

#[tokio::test]
async fn an_unsigned_origin_gets_unsigned_requests() {
    let raw = RawOrigin::start(|_, seen| match seen.method.as_str() {
        "GET" => Answer::Bytes(ten_bytes()),
        _ => Answer::Bytes(bare(200)),
    })
    .await;
    let credentials = CredentialsSource::Anonymous;
    let origin = connect(OriginConfig { credentials, ..config(&raw.endpoint) }).await;
    origin.get(&object("k"), range(0, 10), None).await.unwrap();
    origin.forward(request("DELETE", "/train/k", "")).await.unwrap();
    for seen in raw.seen() {
        assert_eq!(seen.header("authorization"), None);
    }
}

#[tokio::test]
async fn a_named_version_is_asked_for_and_its_absence_is_the_readers() {
    let raw = RawOrigin::start(|_, _| Answer::Bytes(error(404, "NoSuchVersion"))).await;
    let origin = connect(config(&raw.endpoint)).await;
    let named = ObjectName { version_id: Some("v1".into()), ..object("k") };
    let pin = Stamp { version_id: Some("v1".into()), ..stamp() };
    let refused = origin.get(&named, range(0, 10), Some(&pin)).await.unwrap_err();
    assert!(matches!(&refused, OriginError::Refused(r) if r.code == "NoSuchVersion"));
    assert!(raw.seen()[0].target.contains("versionId=v1"));
}

#[tokio::test]
async fn an_unreachable_origin_is_named_by_the_probe_with_what_to_do() {
    let origin = connect(config("http://127.0.0.1:1")).await;
    let error = origin.probe(&bucket("train")).await.unwrap_err();
    assert!(matches!(error, SetupError::Unreachable { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("http://127.0.0.1:1") && text.contains("check that it runs"), "{text}");
    let failed = origin.head(&object("k")).await.unwrap_err();
    assert!(unavailable(Some(failed)).contains("refused"));
}

#[tokio::test]
async fn the_probe_tells_wrong_keys_from_denied_and_missing_buckets_and_regions() {
    let raw = RawOrigin::start(|_, seen| {
        let head = seen.method == "HEAD";
        Answer::Bytes(match seen.path().trim_matches('/') {
            "good" => bare(200),
            "missing" => bare(404),
            "elsewhere" => b"HTTP/1.1 301 X\r\nx-amz-bucket-region: eu-west-1\r\n\
                Content-Length: 0\r\n\r\n"
                .to_vec(),
            _ if head => bare(403),
            "unknown" => error(403, "InvalidAccessKeyId"),
            "late" => error(403, "RequestTimeTooSkewed"),
            _ => error(403, "AccessDenied"),
        })
    })
    .await;
    let origin = connect(config(&raw.endpoint)).await;
    origin.probe(&bucket("good")).await.unwrap();
    for (name, next_step) in [
        ("missing", "create it or correct its name"),
        ("elsewhere", "set the region to eu-west-1"),
        ("unknown", "InvalidAccessKeyId); check the access key, its secret"),
        ("late", "set this machine's time"),
        ("denied", "AccessDenied); grant s3:ListBucket"),
    ] {
        let error = origin.probe(&bucket(name)).await.unwrap_err().to_string();
        assert!(error.contains(next_step) && error.contains(&raw.endpoint), "{name}: {error}");
        assert!(!error.contains(SECRET));
    }
}
