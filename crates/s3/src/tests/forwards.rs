//! What is not a read, as the origin sees it.

use super::world::World;
use crate::testing::{self, Signer};
use http::Request;

#[tokio::test]
async fn a_write_reaches_the_origin_path_style_and_unsigned() {
    let world = World::open().await;
    let head = "PUT /a%2Fb//+c%20d?x-id=PutObject HTTP/1.1\nhost: b.s3.test\ncontent-md5: abc\n\
                x-amz-meta-k: v\nauthorization: AWS4-HMAC-SHA256 Credential=x\nx-amz-date: d\n\
                x-amz-security-token: t\nx-forebay-trust: me\nconnection: x-private\nx-private: 1";
    let answer = world.put(head, "hello").await;
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
    assert_eq!(world.put("PUT /b/k HTTP/1.1", "newer").await.status(), 200);
    assert_eq!(world.ask("GET /b/k HTTP/1.1").await.text(), "newer");
    world.origin.put("k", "newest");
    let xml = "<Delete><Object><Key>k</Key></Object></Delete>";
    assert_eq!(world.put("POST /b?delete HTTP/1.1", xml).await.status(), 200);
    assert_eq!(world.ask("GET /b/k HTTP/1.1").await.text(), "newest");
    assert_eq!(world.origin.seen.lock()[1].body, xml);
}

const TRAILING: &str = "PUT /b/k HTTP/1.1\nx-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\n\
    content-encoding: gzip, aws-chunked\nx-amz-decoded-content-length: 5\n\
    x-amz-trailer: x-amz-checksum-crc32\nx-amz-sdk-checksum-algorithm: CRC32";
const HELLO: &str = "2\r\nhe\r\n3\r\nllo\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n";

#[tokio::test]
async fn a_checksum_that_follows_a_body_follows_it_to_the_origin() {
    let world = World::open().await;
    assert_eq!(world.put(TRAILING, HELLO).await.status(), 200);
    let seen = world.origin.seen.lock();
    assert_eq!(seen[0].body, "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n");
    for (name, value) in [
        ("content-length", "46"),
        ("content-encoding", "aws-chunked,gzip"),
        ("x-amz-decoded-content-length", "5"),
        ("x-amz-trailer", "x-amz-checksum-crc32"),
        ("x-amz-sdk-checksum-algorithm", "CRC32"),
    ] {
        assert_eq!(seen[0].headers[name], value, "{name}");
    }
    assert_eq!(seen[0].headers["content-length"].to_str().unwrap(), seen[0].body.len().to_string());
}

#[tokio::test]
async fn an_origin_that_knows_no_trailers_gets_bodies_alone_from_the_second_try_on() {
    let world = World::open().await;
    let error = "<Error><Code>XAmzContentSHA256Mismatch</Code><Message/></Error>";
    *world.origin.answer_once.lock() = Some((400, error));
    let first = world.put(TRAILING, HELLO).await;
    assert_eq!((first.status(), first.header("retry-after")), (503, Some("1")));
    assert_eq!(world.put(TRAILING, HELLO).await.status(), 200);
    let wrong = HELLO.replace("llo", "lla");
    assert!(world.put(TRAILING, &wrong).await.text().contains("BadDigest"));
    let seen = world.origin.seen.lock();
    assert_eq!((seen.len(), &seen[1].body[..]), (2, &b"hello"[..]));
    assert_eq!(seen[1].headers["content-length"], "5");
    assert_eq!(seen[1].headers["content-encoding"], "gzip");
    assert!(!seen[1].headers.keys().any(|name| name.as_str().starts_with("x-amz-")));
}

#[tokio::test]
async fn another_refusal_of_the_origin_is_handed_on_and_changes_nothing() {
    let world = World::open().await;
    let error = "<Error><Code>BadDigest</Code><Message/></Error>";
    *world.origin.answer_once.lock() = Some((400, error));
    let refused = world.put(TRAILING, HELLO).await;
    assert_eq!((refused.status(), refused.text()), (400, error));
    assert_eq!(world.put(TRAILING, HELLO).await.status(), 200);
    assert_eq!(world.origin.seen.lock()[1].headers["x-amz-trailer"], "x-amz-checksum-crc32");
}

#[tokio::test]
async fn a_body_that_is_not_what_its_trailer_says_never_reaches_the_origin_whole() {
    let world = World::open().await;
    let head = "PUT /b/k HTTP/1.1\nx-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\n\
                x-amz-decoded-content-length: 5\nx-amz-trailer: x-amz-checksum-crc32";
    for (body, code) in [
        ("5\r\njello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n", "BadDigest"),
        ("5\r\nhello\r\n0\r\n\r\n", "MalformedTrailerError"),
        ("5\r\nhel", "IncompleteBody"),
    ] {
        let answer = world.put(head, body).await;
        assert_eq!(answer.status(), 400, "{body}");
        assert!(answer.text().contains(&format!("<Code>{code}</Code>")), "{}", answer.text());
    }
    assert!(world.origin.seen.lock().is_empty());
    let other = head.replace("checksum-crc32", "meta-a");
    assert_eq!(world.put(&other, "5\r\nhello\r\n0\r\n\r\n").await.status(), 400);
}

#[tokio::test]
async fn a_body_without_a_length_is_taken_where_its_real_one_is_declared() {
    let world = World::open().await;
    let mut client = world.connect().await;
    let wrapped = "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n";
    let head = "PUT /b/k HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\
                expect: 100-continue\r\nx-amz-decoded-content-length: 5\r\n\
                x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\r\n\
                x-amz-trailer: x-amz-checksum-crc32\r\n\r\n";
    client.send(head).await;
    assert_eq!(client.answer(false).await.unwrap().status(), 100);
    client.send(format!("{:x}\r\n{wrapped}\r\n0\r\n\r\n", wrapped.len())).await;
    assert_eq!(client.answer(false).await.unwrap().text(), "forwarded");
    let seen = world.origin.seen.lock();
    assert!(seen[0].body.starts_with(b"5\r\nhello\r\n0\r\n"), "{:?}", seen[0].body);
    assert_eq!(seen[0].headers["x-amz-decoded-content-length"], "5");
    assert!(!seen[0].headers.contains_key("expect"));
}

#[tokio::test]
async fn a_signed_body_that_is_another_one_is_refused_as_s3_refuses_it() {
    let world = World::with(testing::auth(), 10).await;
    let signed = |body: &'static [u8]| {
        let mut signer = Signer::header();
        signer.body = aws_sigv4::http_request::SignableBody::Bytes(body);
        signer.sign(Request::put("/b/k").header("content-length", "5").body(()).unwrap())
    };
    for (body, status) in [("hello", 200), ("jello", 400)] {
        let mut client = world.connect().await;
        client.send(head_of(&signed(b"hello"))).await;
        client.send(body).await;
        let answer = client.answer(false).await.unwrap();
        assert_eq!(answer.status(), status, "{}", answer.text());
        let says = answer.text().contains("<Code>XAmzContentSHA256Mismatch</Code>");
        assert_eq!(says, status == 400);
    }
    assert_eq!(world.origin.seen.lock().len(), 1);
}

fn head_of(request: &Request<()>) -> String {
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method(), request.uri());
    for (name, value) in request.headers() {
        head.extend([name.as_str(), ": ", value.to_str().unwrap(), "\r\n"]);
    }
    head + "\r\n"
}

#[tokio::test]
async fn conditions_of_a_write_are_the_origins_to_judge() {
    let world = World::open().await;
    let head = "PUT /b/k HTTP/1.1\nif-none-match: *\nif-match: \"abc-2\"";
    assert_eq!(world.put(head, "x").await.status(), 200);
    let seen = world.origin.seen.lock();
    assert_eq!(seen[0].headers["if-none-match"], "*");
    assert_eq!(seen[0].headers["if-match"], "\"abc-2\"");
}

#[tokio::test]
async fn a_copy_source_is_written_anew() {
    let world = World::open().await;
    let head = "PUT /b/k HTTP/1.1\nx-amz-copy-source: other/a+b%2Fc?versionId=v";
    assert_eq!(world.put(head, "").await.status(), 200);
    assert_eq!(
        world.origin.seen.lock()[0].headers["x-amz-copy-source"],
        "/other/a%2Bb/c?versionId=v"
    );
    let twice = format!("{head}\nx-amz-copy-source: b/k");
    assert_eq!(world.put(&twice, "").await.status(), 400);
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
    let world = World::with(testing::auth(), 10).await;
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
        let answer = world.put("POST /b?delete HTTP/1.1", &body).await;
        assert_eq!(answer.status(), 400);
        assert!(answer.text().contains(&format!("<Code>{code}</Code>")));
    }
    assert!(world.origin.seen.lock().is_empty());
}

#[tokio::test]
async fn every_kind_of_write_reaches_the_origin_as_it_was_meant() {
    let world = World::open().await;
    for target in [
        "PUT /b",
        "DELETE /b",
        "PUT /b?versioning",
        "PUT /b/k?tagging",
        "PUT /b/k?acl",
        "DELETE /b/k?tagging",
        "POST /b/k?uploads",
        "PUT /b/k?partNumber=2&uploadId=u%2B1",
        "POST /b/k?uploadId=u%2B1",
        "DELETE /b/k?uploadId=u%2B1",
        "POST /b/k?restore",
    ] {
        let answer = world.put(&format!("{target} HTTP/1.1\ncontent-md5: x"), "<Body/>").await;
        assert_eq!((answer.status(), answer.text()), (200, "forwarded"), "{target}");
        let seen = world.origin.seen.lock().pop().unwrap();
        assert_eq!((seen.target.as_str(), &seen.body[..]), (target, &b"<Body/>"[..]));
        assert_eq!(seen.headers["content-md5"], "x");
    }
    let part = "PUT /b/k?partNumber=1&uploadId=u HTTP/1.1\nx-amz-copy-source: /other/k\n\
                x-amz-copy-source-range: bytes=0-9";
    assert_eq!(world.put(part, "").await.status(), 200);
    let seen = world.origin.seen.lock().pop().unwrap();
    assert_eq!(seen.headers["x-amz-copy-source"], "/other/k");
    assert_eq!(seen.headers["x-amz-copy-source-range"], "bytes=0-9");
}

#[tokio::test]
async fn a_missing_key_is_there_as_soon_as_it_is_written() {
    let world = World::open().await;
    assert_eq!(world.ask("GET /b/k HTTP/1.1").await.status(), 404);
    world.origin.put("k", "new");
    assert_eq!(world.put("PUT /b/k HTTP/1.1", "new").await.status(), 200);
    assert_eq!(world.ask("GET /b/k HTTP/1.1").await.text(), "new");
}
