//! What is not a read, as the origin sees it.

use super::world::{Answer, World};
use crate::Auth;
use crate::testing::{self, Signer};
use http::Request;

async fn put(world: &World, head: &str, body: &str) -> Answer {
    let mut client = world.connect().await;
    let head = head.replace('\n', "\r\n");
    let host = if head.contains("host:") { "" } else { "\r\nhost: forebay.test:9000" };
    client.send(format!("{head}{host}\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await;
    client.answer(false).await.expect("an answer")
}

#[tokio::test]
async fn a_write_reaches_the_origin_path_style_and_unsigned() {
    let world = World::open().await;
    let head = "PUT /a%2Fb//+c%20d?x-id=PutObject HTTP/1.1\nhost: b.s3.test\ncontent-md5: abc\n\
                x-amz-meta-k: v\nauthorization: AWS4-HMAC-SHA256 Credential=x\nx-amz-date: d\n\
                x-amz-security-token: t\nx-forebay-trust: me\nconnection: x-private\nx-private: 1";
    let answer = put(&world, head, "hello").await;
    assert_eq!((answer.status(), answer.text()), (200, "forwarded"));
    assert_eq!(answer.header("x-amz-request-id"), Some("origins"));
    assert_eq!(answer.header("x-hop"), None);
    let seen = world.origin.seen.lock();
    assert_eq!(seen[0].target, "PUT /b/a/b//%2Bc%20d?x-id=PutObject");
    assert_eq!(seen[0].body, "hello");
    let names: Vec<&str> = seen[0].headers.keys().map(http::HeaderName::as_str).collect();
    for kept in ["content-md5", "x-amz-meta-k", "content-length"] {
        assert!(names.contains(&kept), "{kept}");
    }
    for dropped in [
        "host",
        "authorization",
        "x-amz-date",
        "x-amz-security-token",
        "x-forebay-trust",
        "connection",
        "x-private",
    ] {
        assert!(!names.contains(&dropped), "{dropped}");
    }
}

#[tokio::test]
async fn after_a_write_a_read_sees_the_new_bytes() {
    let world = World::open().await;
    world.origin.put("k", "old");
    assert_eq!(world.ask("GET /b/k HTTP/1.1").await.text(), "old");
    world.origin.put("k", "newer");
    assert_eq!(put(&world, "PUT /b/k HTTP/1.1", "newer").await.status(), 200);
    assert_eq!(world.ask("GET /b/k HTTP/1.1").await.text(), "newer");
    world.origin.put("k", "newest");
    let xml = "<Delete><Object><Key>k</Key></Object></Delete>";
    assert_eq!(put(&world, "POST /b?delete HTTP/1.1", xml).await.status(), 200);
    assert_eq!(world.ask("GET /b/k HTTP/1.1").await.text(), "newest");
    assert_eq!(world.origin.seen.lock()[1].body, xml);
}

#[tokio::test]
async fn a_wrapped_body_is_forwarded_unwrapped() {
    let world = World::open().await;
    let head = "PUT /b/k HTTP/1.1\nx-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\n\
                content-encoding: gzip, aws-chunked\nx-amz-decoded-content-length: 5\n\
                x-amz-trailer: x-amz-checksum-crc32\nx-amz-sdk-checksum-algorithm: CRC32";
    let body = "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n";
    assert_eq!(put(&world, head, body).await.status(), 200);
    let seen = world.origin.seen.lock();
    assert_eq!(seen[0].body, "hello");
    assert_eq!(seen[0].headers["content-length"], "5");
    assert_eq!(seen[0].headers["content-encoding"], "gzip");
    assert!(!seen[0].headers.keys().any(|name| name.as_str().starts_with("x-amz-")));
}

#[tokio::test]
async fn a_copy_source_is_written_anew() {
    let world = World::open().await;
    let head = "PUT /b/k HTTP/1.1\nx-amz-copy-source: other/a+b%2Fc?versionId=v";
    assert_eq!(put(&world, head, "").await.status(), 200);
    assert_eq!(
        world.origin.seen.lock()[0].headers["x-amz-copy-source"],
        "/other/a%2Bb/c?versionId=v"
    );
    let twice = format!("{head}\nx-amz-copy-source: b/k");
    assert_eq!(put(&world, &twice, "").await.status(), 400);
}

#[tokio::test]
async fn lists_and_unknown_sub_resources_are_the_origins() {
    let world = World::open().await;
    for (target, seen) in [
        (
            "GET /b?list-type=2&prefix=a%2Fb+c&delimiter=",
            "GET /b?list-type=2&prefix=a%2Fb%20c&delimiter=",
        ),
        ("GET /b/k?acl", "GET /b/k?acl"),
        ("GET /b/k?partNumber=1", "GET /b/k?partNumber=1"),
        ("GET /", "GET /"),
        ("DELETE /b/k?versionId=v", "DELETE /b/k?versionId=v"),
    ] {
        assert_eq!(world.ask(&format!("{target} HTTP/1.1")).await.text(), "forwarded", "{target}");
        assert_eq!(world.origin.seen.lock().pop().unwrap().target, seen);
    }
    assert_eq!(world.ask("GET /b?prefix=a&prefix=b HTTP/1.1").await.status(), 400);
    assert!(world.origin.seen.lock().is_empty());
}

#[tokio::test]
async fn a_signed_url_is_forwarded_without_its_signature() {
    let world = World::with(Auth::Keys(testing::keys()), 10).await;
    let signer = Signer::url(std::time::Duration::from_secs(60));
    let request = Request::get("/b/k?acl&x-amz-request-payer=requester").body(()).unwrap();
    let answer = world.connect().await.ask_signed(&signer.sign(request)).await;
    assert_eq!(answer.text(), "forwarded");
    let seen = world.origin.seen.lock();
    assert_eq!(seen[0].target, "GET /b/k?acl");
    assert_eq!(seen[0].headers["x-amz-request-payer"], "requester");
}

#[tokio::test]
async fn a_deletion_that_cannot_be_read_is_not_forwarded() {
    let world = World::open().await;
    for (body, code) in [
        ("<Delete>".to_owned(), "MalformedXML"),
        ("<Delete><Object><Key>&x;</Key></Object></Delete>".to_owned(), "MalformedXML"),
        ("x".repeat((2 << 20) + 1), "EntityTooLarge"),
    ] {
        let answer = put(&world, "POST /b?delete HTTP/1.1", &body).await;
        assert_eq!(answer.status(), 400);
        assert!(answer.text().contains(&format!("<Code>{code}</Code>")));
    }
    assert!(world.origin.seen.lock().is_empty());
}
