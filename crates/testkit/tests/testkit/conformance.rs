//! The origin answers reads and listings as S3 does.

use forebay_testkit::Pattern;
use forebay_testkit::origin::Op;
use forebay_testkit::reader::{Ask, ReadError, UpTo};
use http::{Method, StatusCode};

use crate::{MIB, open_origin, range, reader};

const KEY: &str = "data/00000003";

#[tokio::test]
async fn every_range_form_gets_exactly_its_bytes() {
    let origin = open_origin().await;
    let reader = reader(&origin);
    let pattern = Pattern::new("b", KEY, 1);
    let size = MIB;
    for (asked, first, last) in [
        ("bytes=0-0", 0, 0),
        ("bytes=5-70000", 5, 70_000),
        ("bytes=1048575-", size - 1, size - 1),
        ("bytes=1000-99999999", 1000, size - 1),
        ("bytes=-7", size - 7, size - 1),
        ("bytes=-99999999", 0, size - 1),
    ] {
        let ask = Ask::new(Method::GET, "b", KEY).header("range", asked);
        let answer = reader.request(ask).await.unwrap();
        assert_eq!(answer.status, StatusCode::PARTIAL_CONTENT, "{asked}");
        let content_range = format!("bytes {first}-{last}/{size}");
        assert_eq!(answer.header("content-range"), Some(content_range.as_str()));
        assert_eq!(answer.header("content-length"), Some((last - first + 1).to_string().as_str()));
        let body = answer.bytes().await.unwrap();
        assert_eq!(body.len() as u64, last - first + 1);
        pattern.verify(first, &body).unwrap();
    }
}

#[tokio::test]
async fn ranges_that_s3_ignores_get_the_whole_and_those_past_the_end_416() {
    let origin = open_origin().await;
    let reader = reader(&origin);
    for asked in ["bytes=0-1,4-5", "bytes=9-2", "lines=1-2", "bytes=x-"] {
        let ask = Ask::new(Method::GET, "b", KEY).header("range", asked);
        let answer = reader.request(ask).await.unwrap();
        assert_eq!(answer.status, StatusCode::OK, "{asked}");
        assert_eq!(answer.bytes().await.unwrap().len() as u64, MIB);
    }
    for asked in ["bytes=1048576-", "bytes=2000000-3000000", "bytes=-0"] {
        let ask = Ask::new(Method::GET, "b", KEY).header("range", asked);
        let answer = reader.request(ask).await.unwrap();
        assert_eq!(answer.header("content-range"), Some("bytes */1048576"), "{asked}");
        let error = answer.success().await.unwrap_err();
        assert_eq!(error.to_string(), "status 416 Range Not Satisfiable: InvalidRange");
    }
}

#[tokio::test]
async fn head_says_what_get_says_and_both_carry_what_clients_need() {
    let origin = open_origin().await;
    let reader = reader(&origin);
    let get = reader.get("b", KEY, None).await.unwrap();
    let head = reader.head("b", KEY).await.unwrap();
    for name in ["etag", "last-modified", "content-length", "content-type", "accept-ranges"] {
        assert!(head.header(name).is_some(), "{name}");
        assert_eq!(head.header(name), get.header(name), "{name}");
    }
    assert_eq!(head.header("x-amz-meta-pattern-version"), Some("1"));
    assert!(head.header("x-amz-request-id").is_some());
    assert_eq!(head.header("etag"), Some(Pattern::new("b", KEY, 1).etag().as_str()));
    assert!(head.bytes().await.unwrap().is_empty());
    let ask = Ask::new(Method::HEAD, "b", KEY).header("range", "bytes=0-9");
    let part = reader.request(ask).await.unwrap();
    assert_eq!((part.status.as_u16(), part.header("content-length")), (206, Some("10")));
}

#[tokio::test]
async fn conditions_are_answered_304_and_412() {
    let origin = open_origin().await;
    let reader = reader(&origin);
    let etag = Pattern::new("b", KEY, 1).etag();
    let status = async |name: &str, value: &str| {
        let ask = Ask::new(Method::GET, "b", KEY).header(name, value);
        reader.request(ask).await.unwrap().status.as_u16()
    };
    assert_eq!(status("if-none-match", &etag).await, 304);
    assert_eq!(status("if-none-match", "\"other\"").await, 200);
    assert_eq!(status("if-match", &etag).await, 200);
    assert_eq!(status("if-match", "\"other\"").await, 412);
    assert_eq!(status("if-modified-since", "Wed, 01 Jan 2025 00:00:00 GMT").await, 304);
    assert_eq!(status("if-modified-since", "Tue, 31 Dec 2024 00:00:00 GMT").await, 200);
    assert_eq!(status("if-unmodified-since", "Tue, 31 Dec 2024 00:00:00 GMT").await, 412);
    origin.overwrite("b", KEY).unwrap();
    assert_eq!(status("if-match", &etag).await, 412);
    assert_eq!(status("if-none-match", &etag).await, 200);
}

#[tokio::test]
async fn if_range_asks_for_the_whole_once_the_object_has_changed() {
    let origin = open_origin().await;
    let reader = reader(&origin);
    let etag = Pattern::new("b", KEY, 1).etag();
    let status = async || {
        let ask = Ask::new(Method::GET, "b", KEY).header("range", "bytes=0-9");
        reader.request(ask.header("if-range", &etag)).await.unwrap().status.as_u16()
    };
    assert_eq!(status().await, 206);
    origin.overwrite("b", KEY).unwrap();
    assert_eq!(status().await, 200);
}

#[tokio::test]
async fn an_overwrite_changes_bytes_etag_and_last_modified() {
    let origin = open_origin().await;
    let reader = reader(&origin);
    let before = reader.head("b", KEY).await.unwrap();
    assert_eq!(origin.overwrite("b", KEY), Some(2));
    let after = reader.head("b", KEY).await.unwrap();
    assert_ne!(before.header("etag"), after.header("etag"));
    assert_ne!(before.header("last-modified"), after.header("last-modified"));
    let read = reader.verify_get("b", KEY, None, &UpTo(5)).await.unwrap();
    assert_eq!((read.version, read.bytes), (2, MIB));

    origin.delete("b", KEY);
    let error = reader.get("b", KEY, None).await.unwrap().success().await.unwrap_err();
    assert!(matches!(error, ReadError::Status { code, .. } if code == "NoSuchKey"));
}

#[tokio::test]
async fn missing_buckets_and_unknown_operations_have_their_codes() {
    let origin = open_origin().await;
    let reader = reader(&origin);
    let code = async |ask: Ask| match reader.request(ask).await.unwrap().success().await {
        Err(ReadError::Status { status, code }) => format!("{} {code}", status.as_u16()),
        other => panic!("{other:?}"),
    };
    assert_eq!(code(Ask::new(Method::GET, "no", "k")).await, "404 NoSuchBucket");
    let tagging = Ask::new(Method::GET, "b", KEY).query("tagging", "");
    assert_eq!(code(tagging).await, "501 NotImplemented");
    let version = Ask::new(Method::GET, "b", KEY).query("versionId", "abc");
    assert_eq!(code(version).await, "404 NoSuchVersion");
}

#[tokio::test]
async fn listings_page_through_every_key_once_and_in_order() {
    let origin = open_origin().await;
    let reader = reader(&origin);
    for version in [2, 1] {
        let mut keys = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let mut ask = Ask::new(Method::GET, "b", "").query("max-keys", "3");
            if version == 2 {
                ask = ask.query("list-type", "2");
            }
            if let Some(next) = &next {
                let name = if version == 2 { "continuation-token" } else { "marker" };
                ask = ask.query(name, next);
            }
            let page = reader.list(ask).await.unwrap();
            assert!(page.objects.len() <= 3);
            keys.extend(page.objects.iter().map(|object| object.key.clone()));
            // V1 without a delimiter leaves the marker to the client.
            next = page.next.or_else(|| keys.last().filter(|_| version == 1).cloned());
            if page.objects.len() < 3 {
                break;
            }
        }
        let expected: Vec<_> = (0..10).map(|i| format!("data/{i:08}")).collect();
        assert_eq!(keys, expected, "version {version}");
    }
}

#[tokio::test]
async fn listings_roll_up_common_prefixes_across_pages() {
    let origin = open_origin().await;
    let reader = reader(&origin);
    for key in ["data/sub/x", "data/sub/y", "data/sub0", "top", "a b+%/\u{e9}"] {
        origin.put_pattern("b", key, 7);
    }
    let mut entries = Vec::new();
    let mut token: Option<String> = None;
    loop {
        let mut ask = Ask::new(Method::GET, "b", "").query("list-type", "2");
        ask = ask.query("delimiter", "/").query("max-keys", "1");
        if let Some(token) = &token {
            ask = ask.query("continuation-token", token);
        }
        let page = reader.list(ask).await.unwrap();
        entries.extend(page.prefixes);
        entries.extend(page.objects.into_iter().map(|object| object.key));
        token = page.next;
        if token.is_none() {
            break;
        }
    }
    assert_eq!(entries, ["a b+%/", "data/", "top"]);

    let ask = Ask::new(Method::GET, "b", "").query("list-type", "2").query("prefix", "data/s");
    let page = reader.list(ask.query("delimiter", "/").query("start-after", "data/s")).await;
    let page = page.unwrap();
    assert_eq!(page.prefixes, ["data/sub/"]);
    assert_eq!(page.objects[0].key, "data/sub0");
    assert_eq!(page.objects[0].size_bytes, 7);

    let ask = Ask::new(Method::GET, "b", "").query("list-type", "2").query("prefix", "a");
    let page = reader.list(ask.query("encoding-type", "url")).await.unwrap();
    assert_eq!(page.objects[0].key, "a%20b%2B%25/%C3%A9");
}

#[tokio::test]
async fn keys_that_look_like_paths_stay_apart() {
    let origin = open_origin().await;
    let reader = reader(&origin);
    let keys = ["a/../k", "k", "/k", "a//k", "./k", "a/%2e%2e/k", "k+1", "k 1", "\u{1f600}"];
    for (i, key) in keys.iter().enumerate() {
        origin.put_pattern("b", key, 100 + i as u64);
    }
    for (i, key) in keys.iter().enumerate() {
        let read = reader.verify_get("b", key, None, &UpTo(1)).await.unwrap();
        assert_eq!(read.bytes, 100 + i as u64, "{key}");
    }
}

#[tokio::test]
async fn the_log_counts_every_request_and_byte_before_the_client_has_it() {
    let origin = open_origin().await;
    let reader = reader(&origin).named("loader/1");
    for _ in 0..50 {
        reader.verify_get("b", KEY, range(10, 200_010), &UpTo(1)).await.unwrap();
        let sent = origin.log().counts().bytes_sent;
        assert_eq!(sent % 200_000, 0, "{sent}");
    }
    reader.head("b", KEY).await.unwrap();
    let counts = origin.log().key("b", KEY);
    assert_eq!((counts.gets, counts.heads, counts.bytes_sent), (50, 1, 10_000_000));
    assert_eq!(origin.log().requests(Op::GetObject), 50);
    let record = &origin.log().records()[0];
    assert_eq!(record.range.as_deref(), Some("bytes=10-200009"));
    assert_eq!(record.user_agent.as_deref(), Some("loader/1"));
    assert_eq!((record.status, record.bytes_sent), (Some(206), 200_000));
    origin.log().reset();
    assert_eq!(origin.log().counts().requests, 0);
}
