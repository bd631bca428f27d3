//! GET and HEAD as clients see them.

use super::world::World;
use crate::testing::{self, Signer};
use forebay_cache::OriginReply;
use http::Request;

const KEY: &str = "data/shard 0";
const GET: &str = "GET /b/data/shard%200 HTTP/1.1";
const HEAD: &str = "HEAD /b/data/shard%200 HTTP/1.1";

fn bytes() -> Vec<u8> {
    (0..300_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

async fn world() -> World {
    let world = World::open().await;
    world.origin.put(KEY, bytes());
    world
}

#[tokio::test]
async fn a_get_returns_the_bytes_and_everything_the_origin_said_of_them() {
    let answer = world().await.ask(GET).await;
    assert_eq!(answer.status(), 200);
    assert!(answer.body == bytes());
    for (name, value) in [
        ("content-length", "300000"),
        ("content-type", "application/x-tar"),
        ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("x-amz-meta-a", "b"),
        ("accept-ranges", "bytes"),
        ("x-forebay-cache", "miss"),
        ("age", "0"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    for name in ["etag", "date", "server", "x-amz-request-id", "x-amz-id-2"] {
        assert!(answer.header(name).is_some(), "{name}");
    }
}

#[tokio::test]
async fn ranges_are_clamped_to_the_object() {
    let world = world().await;
    for (range, first, last) in [
        ("0-8388607", 0, 299_999),
        ("100-199", 100, 199),
        ("299999-", 299_999, 299_999),
        ("-16", 299_984, 299_999),
        ("-9999999", 0, 299_999),
    ] {
        let answer = world.ask(&format!("{GET}\nrange: bytes={range}")).await;
        assert_eq!(answer.status(), 206, "{range}");
        let expected = format!("bytes {first}-{last}/300000");
        assert_eq!(answer.header("content-range"), Some(expected.as_str()));
        assert!(answer.body == bytes()[first..=last], "{range}");
    }
    let several = world.ask(&format!("{GET}\nrange: bytes=0-1,5-6")).await;
    assert_eq!((several.status(), several.body.len()), (200, 300_000));
}

#[tokio::test]
async fn a_range_past_the_end_is_416_with_the_size() {
    let answer = world().await.ask(&format!("{GET}\nrange: bytes=300000-")).await;
    assert_eq!(answer.status(), 416);
    assert_eq!(answer.header("content-range"), Some("bytes */300000"));
    assert!(answer.text().contains("<Code>InvalidRange</Code>"));
}

#[tokio::test]
async fn head_is_get_without_its_bytes() {
    let world = world().await;
    let mut client = world.connect().await;
    for lines in ["", "\nrange: bytes=5-9", "\nrange: bytes=-1"] {
        let get = client.ask(&format!("{GET}{lines}")).await;
        let head = client.ask(&format!("{HEAD}{lines}")).await;
        assert_eq!(head.status(), get.status());
        assert_eq!(head.significant(), get.significant());
        assert!(head.body.is_empty());
    }
}

#[tokio::test]
async fn conditions_are_answered_with_304_and_412() {
    let world = world().await;
    let mut client = world.connect().await;
    let first = client.ask(GET).await;
    let etag = first.header("etag").unwrap();
    let same = client.ask(&format!("{GET}\nif-none-match: {etag}")).await;
    assert_eq!((same.status(), same.header("etag")), (304, Some(etag)));
    assert!(same.header("last-modified").is_some() && same.body.is_empty());
    let other = client.ask(&format!("{GET}\nif-match: \"other\"")).await;
    assert_eq!(other.status(), 412);
    assert!(other.text().contains("<Code>PreconditionFailed</Code>"));
    let matching = client.ask(&format!("{GET}\nif-match: {etag}\nrange: bytes=0-0")).await;
    assert_eq!((matching.status(), matching.body.len()), (206, 1));
}

#[tokio::test]
async fn what_is_not_there_is_an_xml_error_and_to_head_an_empty_one() {
    let world = world().await;
    let mut client = world.connect().await;
    let missing = client.ask("GET /b/no&such HTTP/1.1").await;
    assert_eq!(missing.status(), 404);
    let xml = missing.text();
    assert!(xml.contains("<Code>NoSuchKey</Code>") && xml.contains("<Resource>/b/no&amp;such<"));
    assert!(xml.contains(&format!("<RequestId>{}<", missing.header("x-amz-request-id").unwrap())));
    let head = client.ask("HEAD /b/none HTTP/1.1").await;
    assert_eq!((head.status(), head.body.len()), (404, 0));
    let bucket = client.ask("GET /nobody/k HTTP/1.1").await;
    assert!(bucket.status() == 404 && bucket.text().contains("<Code>NoSuchBucket</Code>"));
}

#[tokio::test]
async fn an_empty_object_is_an_empty_body() {
    let world = world().await;
    world.origin.put("empty", "");
    let answer = world.ask("GET /b/empty HTTP/1.1").await;
    assert_eq!((answer.status(), answer.header("content-length")), (200, Some("0")));
    assert_eq!(world.ask("GET /b/empty HTTP/1.1\nrange: bytes=0-9").await.status(), 416);
}

#[tokio::test]
async fn overridden_headers_are_those_of_one_answer() {
    let world = World::with(testing::auth(), 10).await;
    world.origin.put("k", "bytes");
    let mut client = world.connect().await;
    let get = |target: &str| Signer::header().sign(Request::get(target).body(()).unwrap());
    let html = "/b/k?response-content-type=text%2Fhtml&response-expires=never";
    let answer = client.ask_signed(&get(html)).await;
    assert_eq!(answer.header("content-type"), Some("text/html"));
    assert_eq!(answer.header("expires"), Some("never"));
    let plain = client.ask_signed(&get("/b/k")).await;
    assert_eq!(plain.header("content-type"), Some("application/x-tar"));
    assert_eq!(plain.header("expires"), None);

    let unsigned = World::open().await;
    assert_eq!(unsigned.ask(&format!("GET {html} HTTP/1.1")).await.status(), 400);
}

#[tokio::test]
async fn a_hit_is_checked_exactly_like_a_miss() {
    let world = World::with(testing::auth(), 10).await;
    world.origin.put("k", "bytes");
    let mut client = world.connect().await;
    let signed = Signer::header().sign(Request::get("/b/k").body(()).unwrap());
    assert_eq!(client.ask_signed(&signed).await.text(), "bytes");
    assert_eq!(client.ask("GET /b/k HTTP/1.1").await.status(), 403);
    let wrong = Signer { secret: "wrong", ..Signer::header() };
    let wrong = wrong.sign(Request::get("/b/k").body(()).unwrap());
    let answer = client.ask_signed(&wrong).await;
    assert_eq!(answer.status(), 403);
    assert!(answer.text().contains("<Code>SignatureDoesNotMatch</Code>"));
    let url = Signer::url(std::time::Duration::from_secs(60));
    let url = url.sign(Request::get("/b/k").body(()).unwrap());
    assert_eq!(client.ask_signed(&url).await.text(), "bytes");
}

#[tokio::test]
async fn what_a_job_reads_is_counted_under_its_name() {
    let world = world().await;
    let mut client = world.connect().await;
    for agent in ["Boto3/1.43.2 app/train-7 Botocore/1.43.2", "curl/8.5.0"] {
        assert_eq!(client.ask(&format!("{GET}\nuser-agent: {agent}")).await.status(), 200);
    }
    client.ask(&format!("{HEAD}\nuser-agent: app/train-7")).await;
    let page = world.apps.page();
    for sample in [
        "forebay_app_served_bytes_total{app=\"train-7\",tier=\"origin\"} 300000",
        "forebay_app_served_requests_total{app=\"train-7\",tier=\"origin\"} 1",
        "forebay_app_first_byte_seconds_count{app=\"train-7\"} 2",
    ] {
        assert!(page.contains(&format!("{sample}\n")), "{sample} in\n{page}");
    }
    assert_eq!(page.matches("first_byte_seconds_count").count(), 1);
}

#[tokio::test]
async fn whoever_is_not_let_in_gets_no_series() {
    let world = World::with(testing::auth(), 10).await;
    world.origin.put("k", "bytes");
    let stranger = world.ask("GET /b/k HTTP/1.1\nuser-agent: app/train-7").await;
    assert_eq!((stranger.status(), world.apps.page().as_str()), (403, ""));
}

#[tokio::test]
async fn a_body_that_cannot_be_finished_is_cut_before_its_length() {
    let world = World::open().await;
    world.origin.put("big", vec![7; 40 << 20]);
    *world.origin.break_after.lock() = Some(20 << 20);
    let answer = world.ask("GET /b/big HTTP/1.1").await;
    assert_eq!((answer.status(), answer.header("content-length")), (200, Some("41943040")));
    assert!(!answer.complete && answer.body.len() < 40 << 20);
}

#[tokio::test]
async fn what_cannot_be_cached_is_forwarded_as_it_is() {
    let world = world().await;
    *world.origin.uncacheable.lock() = true;
    let answer = world.ask(&format!("{GET}\nrange: bytes=1-2")).await;
    assert_eq!(answer.text(), "forwarded");
    let seen = world.origin.seen.lock();
    assert_eq!(seen[0].target, "GET /b/data/shard%200");
    assert_eq!(seen[0].headers["range"], "bytes=1-2");
}

#[tokio::test]
async fn a_bucket_may_be_in_the_host() {
    let world = world().await;
    let answer = world.ask("GET /data/shard%200 HTTP/1.1\nhost: b.s3.test:9000").await;
    assert_eq!((answer.status(), answer.body.len()), (200, 300_000));
}

#[tokio::test]
async fn a_version_that_is_named_is_an_object_of_its_own() {
    let world = World::open().await;
    world.origin.put("k", "current");
    world.origin.put("k?versionId=v1", "older");
    let mut client = world.connect().await;
    for _ in 0..2 {
        assert_eq!(client.ask("GET /b/k HTTP/1.1").await.text(), "current");
        assert_eq!(client.ask("GET /b/k?versionId=v1 HTTP/1.1").await.text(), "older");
    }
    assert_eq!(client.ask("GET /b/k?versionId=v2 HTTP/1.1").await.status(), 404);
}

#[tokio::test]
async fn if_match_is_never_failed_from_memory_alone() {
    let world = World::open().await;
    world.origin.put("k", "newer");
    let newer = world.ask("HEAD /b/k HTTP/1.1").await;
    let newer = newer.header("etag").unwrap();
    world.origin.put("k", "older");
    let older = world.ask("HEAD /b/k HTTP/1.1\ncache-control: no-cache").await;
    assert_ne!(older.header("etag"), Some(newer));
    world.origin.put("k", "newer");
    let found = world.ask(&format!("GET /b/k HTTP/1.1\nif-match: {newer}")).await;
    assert_eq!((found.status(), found.text()), (200, "newer"));
}

#[tokio::test]
async fn no_cache_asks_the_origin_and_nothing_else_does() {
    let world = World::open().await;
    world.origin.put("k", "older");
    let mut client = world.connect().await;
    let older = client.ask("HEAD /b/k HTTP/1.1").await;
    world.origin.put("k", "newer!");
    for line in ["", "\ncache-control: max-age=0", "\nx-id: 1"] {
        let known = client.ask(&format!("HEAD /b/k HTTP/1.1{line}")).await;
        assert_eq!(known.header("etag"), older.header("etag"), "{line}");
        assert_eq!(known.header("x-forebay-cache"), Some("hit"), "{line}");
    }
    let newer = client.ask("HEAD /b/k HTTP/1.1\ncache-control: max-age=1, no-cache").await;
    assert_eq!(newer.header("content-length"), Some("6"));
    assert_eq!((newer.header("x-forebay-cache"), newer.header("age")), (Some("miss"), Some("0")));
}

#[tokio::test]
async fn ranges_that_are_several_or_none_get_the_whole_object() {
    let world = world().await;
    let mut client = world.connect().await;
    for range in ["bytes=0-1,3-4", "bytes=9-5", "bytes=a-b", "items=0-1", "bytes=", "bytes=--1"] {
        let get = client.ask(&format!("{GET}\nrange: {range}")).await;
        assert_eq!((get.status(), get.header("content-range")), (200, None), "{range}");
        assert!(get.body == bytes(), "{range}");
    }
    let none = client.ask(&format!("{GET}\nrange: bytes=-0")).await;
    assert_eq!((none.status(), none.header("content-range")), (416, Some("bytes */300000")));
}

#[tokio::test]
async fn what_only_the_origin_knows_is_asked_of_it() {
    let world = World::open().await;
    world.origin.put("k", "bytes");
    let mut client = world.connect().await;
    for ask in [
        "HEAD /b/k HTTP/1.1\nx-amz-checksum-mode: ENABLED",
        "HEAD /b/k?partNumber=1 HTTP/1.1",
        "GET /b/k?partNumber=1 HTTP/1.1",
        "GET /b/k HTTP/1.1\nx-amz-server-side-encryption-customer-algorithm: AES256",
        "GET /b/k HTTP/1.1\nx-amz-expected-bucket-owner: 1",
    ] {
        assert_eq!(client.ask(ask).await.header("x-amz-request-id"), Some("origins"), "{ask}");
    }
    let delete_marker =
        OriginReply { status: 405, code: "MethodNotAllowed".into(), message: String::new() };
    *world.origin.refusal.lock() = Some(delete_marker);
    let marker = client.ask("GET /b/k?versionId=m HTTP/1.1").await;
    assert_eq!(marker.header("x-amz-request-id"), Some("origins"));
    assert_eq!(world.origin.seen.lock().last().unwrap().target, "GET /b/k?versionId=m");
}
