//! The key of an object is the decoded path, whatever it looks like: never normalised, never a
//! file name, never taken for another key.

use bytes::Bytes;
use forebay_testkit::reader::Ask;
use forebay_testkit::{Op, Reader};
use forebay_tests::{BUCKET, Setup, World};
use http::Method;

/// Keys that are different, and that something on the way may take for the same or for none.
fn keys() -> Vec<String> {
    let short = [
        " a",
        "a ",
        "a b",
        "a+b",
        "a%20b",
        "a%2Bb",
        "a%2Fb",
        "a/b",
        "a%252Fb",
        "a//b",
        "a///b",
        "/a/b",
        "//",
        "/",
        "//a",
        "a/",
        "a//",
        ".",
        "..",
        "../..",
        "../a",
        "a/../b",
        "a/./b",
        "./a",
        "%2e%2e/a",
        "..%2Fa",
        "-/ring",
        "-",
        "~",
        "*",
        "a*b?",
        "?",
        "?acl",
        "#",
        "a#b",
        "a&b=c",
        "a;b",
        "a,b",
        "a:b",
        "a=b",
        "a@b",
        "!$'()",
        "\"",
        "<k>",
        "a&amp;b",
        "{}|\\^`[]",
        "\u{e9}",
        "e\u{301}",
        "\u{1f600}",
        "\u{65e5}\u{672c}/\u{8a9e}",
        "\u{fffd}",
        "\u{feff}",
        "\u{202e}",
        "\u{1}",
        "\u{1f}",
        "\u{7f}",
        "\u{80}",
        "a\0b",
        "\0",
        "\ta",
        "a\nb",
        "a\r\nb",
        "index.html",
        "FOREBAY",
        "segments/1.seg",
        "null",
        "x?versionId=1",
    ];
    let long = [
        "k".repeat(1024),
        format!("k{}", " ".repeat(1023)),
        "\u{e9}".repeat(512),
        "/".repeat(1024),
    ];
    let deep = format!("{}k", "../".repeat(341));
    short.into_iter().map(str::to_owned).chain(long).chain([deep]).collect()
}

/// Bytes that no other key has.
fn bytes_of(key: &str) -> Bytes {
    Bytes::from(format!("the bytes of {key:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_key_is_written_read_and_listed_as_itself() {
    let world = World::start(Setup::default(), &[]).await.unwrap();
    let (reader, direct) = (world.reader().unwrap(), world.direct().unwrap());
    let keys = keys();
    for key in &keys {
        reader.put(BUCKET, key, bytes_of(key)).await.unwrap().success().await.unwrap();
    }
    let written: Vec<_> = world.origin.log().records();
    let written = written.into_iter().filter(|r| r.op == Op::PutObject).map(|r| r.key);
    assert_eq!(written.collect::<Vec<_>>(), keys, "the origin saw other keys");
    // Only now: each of them would show if another one had been written over it.
    for key in &keys {
        assert_eq!(get(&direct, key).await, bytes_of(key), "{key:?} at the origin");
        assert_eq!(get(&reader, key).await, bytes_of(key), "{key:?} cold");
    }
    world.origin.log().reset();
    for key in &keys {
        assert_eq!(get(&reader, key).await, bytes_of(key), "{key:?} warm");
        let head = reader.head(BUCKET, key).await.unwrap();
        let length = head.header("content-length").unwrap_or_default();
        assert_eq!((head.status.as_u16(), length), (200, &*bytes_of(key).len().to_string()));
    }
    assert_eq!(world.origin.log().counts().requests, 0, "what is warm asks nobody");
    assert_eq!(listed(&reader).await, listed(&direct).await);
    assert_eq!(listed(&reader).await.len(), keys.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_a_copy_source_or_a_deletion_is_the_same_key() {
    let world = World::start(Setup::default(), &[]).await.unwrap();
    let (reader, direct) = (world.reader().unwrap(), world.direct().unwrap());
    for (index, key) in keys().iter().enumerate() {
        reader.put(BUCKET, key, bytes_of(key)).await.unwrap().success().await.unwrap();
        let source = format!("/{BUCKET}/{}", forebay_testkit::sign::encode_path(key));
        let copy = format!("copy-{index}");
        let ask = Ask::new(Method::PUT, BUCKET, &copy).header("x-amz-copy-source", &source);
        reader.request(ask).await.unwrap().success().await.unwrap();
        assert_eq!(get(&reader, &copy).await, bytes_of(key), "a copy of {key:?}");
        assert_eq!(get(&reader, key).await, bytes_of(key));
        reader.delete(BUCKET, key).await.unwrap().success().await.unwrap();
        for client in [&reader, &direct] {
            assert_eq!(client.get(BUCKET, key, None).await.unwrap().status, 404, "{key:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_key_is_refused_before_the_origin_is_asked() {
    let world = World::start(Setup::default(), &[]).await.unwrap();
    world.origin.log().reset();
    for key in ["k".repeat(1025), "\u{e9}".repeat(513), format!("/{}", "k".repeat(1024))] {
        for method in [Method::GET, Method::PUT, Method::DELETE] {
            let ask = Ask::new(method.clone(), BUCKET, &key);
            let answer = world.reader().unwrap().request(ask).await.unwrap();
            assert_eq!(answer.status, 400, "{method}");
            let body = answer.bytes().await.unwrap();
            let body = String::from_utf8_lossy(&body);
            assert!(body.contains("<Code>KeyTooLongError</Code>"), "{method}: {body}");
        }
    }
    assert_eq!(world.origin.log().counts().requests, 0);
}

async fn get(reader: &Reader, key: &str) -> Bytes {
    let answer = reader.get(BUCKET, key, None).await.unwrap().success().await;
    answer.unwrap_or_else(|error| panic!("{key:?}: {error}"))
}

/// The keys of the bucket, in the escapes that the origin lists them in.
async fn listed(reader: &Reader) -> Vec<String> {
    let ask = Ask::new(Method::GET, BUCKET, "").query("list-type", "2");
    let page = reader.list(ask.query("encoding-type", "url")).await.unwrap();
    assert_eq!(page.next, None);
    page.objects.into_iter().map(|object| object.key).collect()
}
