//! Writes through the origin are kept, conditional where asked, and bounded.

use bytes::Bytes;
use forebay_testkit::origin::OriginConfig;
use forebay_testkit::reader::{Ask, Payload, ReadError, Reader};
use forebay_testkit::{FaultOrigin, Pattern};
use http::{Method, StatusCode};

use crate::{open_origin, reader};

async fn code(reader: &Reader, ask: Ask) -> Result<Bytes, String> {
    reader.request(ask).await.unwrap().success().await.map_err(|error| match error {
        ReadError::Status { code, .. } => code,
        other => other.to_string(),
    })
}

fn text_between<'a>(text: &'a str, open: &str, close: &str) -> &'a str {
    text.split_once(open).unwrap().1.split_once(close).unwrap().0
}

#[tokio::test]
async fn a_written_object_comes_back_with_its_metadata_until_it_is_deleted() {
    let origin = open_origin().await;
    let reader = reader(&origin);
    let ask = Ask::new(Method::PUT, "b", "w").body("hello").header("content-type", "text/plain");
    let written = reader.request(ask.header("x-amz-meta-owner", "me")).await.unwrap();
    let answer = reader.get("b", "w", None).await.unwrap();
    assert_eq!(answer.header("etag"), written.header("etag"));
    assert_eq!(answer.header("content-type"), Some("text/plain"));
    assert_eq!(answer.header("x-amz-meta-owner"), Some("me"));
    assert_eq!(answer.bytes().await.unwrap(), "hello");
    assert_eq!(reader.delete("b", "w").await.unwrap().status, StatusCode::NO_CONTENT);
    assert_eq!(reader.head("b", "w").await.unwrap().status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_conditional_put_writes_once_and_over_what_it_names() {
    let origin = open_origin().await;
    let reader = reader(&origin);
    let put = |body: &'static str| Ask::new(Method::PUT, "b", "commit").body(body);
    let create = |body| put(body).header("if-none-match", "*");
    assert!(code(&reader, create("one")).await.is_ok());
    assert_eq!(code(&reader, create("two")).await.unwrap_err(), "PreconditionFailed");
    let etag = reader.head("b", "commit").await.unwrap().header("etag").unwrap().to_owned();
    assert!(code(&reader, put("three").header("if-match", &etag)).await.is_ok());
    let stale = put("four").header("if-match", &etag);
    assert_eq!(code(&reader, stale).await.unwrap_err(), "PreconditionFailed");
    assert_eq!(code(&reader, Ask::new(Method::GET, "b", "commit")).await.unwrap(), "three");
}

#[tokio::test]
async fn aws_chunked_bodies_are_unframed_and_hashes_are_checked() {
    let origin = open_origin().await;
    let reader = reader(&origin);
    let framed = "6\r\nhello \r\n5\r\nworld\r\n0\r\nx-amz-checksum-crc32:DUoRhQ==\r\n\r\n";
    let ask = Ask::new(Method::PUT, "b", "c")
        .body(framed)
        .header("content-encoding", "aws-chunked")
        .header("x-amz-decoded-content-length", "11")
        .payload(Payload::Said("STREAMING-UNSIGNED-PAYLOAD-TRAILER".into()));
    assert!(code(&reader, ask).await.is_ok());
    let answer = reader.get("b", "c", None).await.unwrap();
    assert_eq!(answer.header("content-encoding"), None);
    assert_eq!(answer.bytes().await.unwrap(), "hello world");

    let lie = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let ask = Ask::new(Method::PUT, "b", "d").body("x").header("x-amz-content-sha256", lie);
    assert_eq!(code(&reader, ask).await.unwrap_err(), "XAmzContentSHA256Mismatch");
}

#[tokio::test]
async fn multipart_joins_the_named_parts_and_refuses_wrong_ones() {
    let origin = open_origin().await;
    let reader = reader(&origin);
    let ask = |method| Ask::new(method, "b", "big");
    let created = code(&reader, ask(Method::POST).query("uploads", "")).await.unwrap();
    let created = String::from_utf8(created.to_vec()).unwrap();
    let id = text_between(&created, "<UploadId>", "</UploadId>").to_owned();
    let mut etags = Vec::new();
    for (number, body) in [("1", "first,"), ("2", "second,"), ("3", "third")] {
        let ask = ask(Method::PUT).query("uploadId", &id).query("partNumber", number);
        let answer = reader.request(ask.body(body)).await.unwrap();
        etags.push(answer.header("etag").unwrap().to_owned());
    }
    let parts = code(&reader, ask(Method::GET).query("uploadId", &id)).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&parts).matches("<PartNumber>").count(), 3);

    let part = |n: usize| {
        format!("<Part><PartNumber>{n}</PartNumber><ETag>{}</ETag></Part>", etags[n - 1])
    };
    let complete = |parts: String| {
        let body = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
        code(&reader, ask(Method::POST).query("uploadId", &id).body(body))
    };
    assert_eq!(complete(part(2) + &part(1)).await.unwrap_err(), "InvalidPartOrder");
    let unknown = part(1).replace(&etags[0], "\"0\"");
    assert_eq!(complete(unknown).await.unwrap_err(), "InvalidPart");
    assert!(complete(part(1) + &part(3)).await.is_ok());
    let answer = reader.get("b", "big", None).await.unwrap();
    assert!(answer.header("etag").unwrap().ends_with("-2\""));
    assert_eq!(answer.bytes().await.unwrap(), "first,third");
    let abort = ask(Method::DELETE).query("uploadId", &id);
    assert_eq!(code(&reader, abort).await.unwrap_err(), "NoSuchUpload");
}

#[tokio::test]
async fn a_copy_keeps_bytes_and_etag_but_not_last_modified() {
    let origin = open_origin().await;
    let reader = reader(&origin);
    let source = reader.head("b", "data/00000001").await.unwrap();
    let ask = Ask::new(Method::PUT, "b", "copy").header("x-amz-copy-source", "/b/data%2F00000001");
    assert!(code(&reader, ask).await.is_ok());
    let copy = reader.get("b", "copy", None).await.unwrap();
    assert_eq!(copy.header("etag"), source.header("etag"));
    assert_ne!(copy.header("last-modified"), source.header("last-modified"));
    let body = copy.bytes().await.unwrap();
    Pattern::new("b", "data/00000001", 1).verify(0, &body).unwrap();
}

#[tokio::test]
async fn many_objects_are_deleted_by_one_request() {
    let origin = open_origin().await;
    let reader = reader(&origin);
    origin.put_pattern("b", "a&b<c>", 1);
    let body = "<Delete><Object><Key>data/00000000</Key></Object>\
                <Object><Key>a&amp;b&lt;c&gt;</Key></Object></Delete>";
    let ask = Ask::new(Method::POST, "b", "").query("delete", "").body(body);
    assert!(code(&reader, ask).await.is_ok());
    let listing = reader.list_v2("b", "", None).await.unwrap();
    assert_eq!(listing.objects.len(), 9);
    assert_eq!(listing.objects[0].key, "data/00000001");
}

#[tokio::test]
async fn buckets_are_created_once_listed_and_found() {
    let origin = open_origin().await;
    let reader = reader(&origin);
    let create = || Ask::new(Method::PUT, "new", "");
    assert!(code(&reader, create()).await.is_ok());
    assert_eq!(code(&reader, create()).await.unwrap_err(), "BucketAlreadyOwnedByYou");
    let listed = code(&reader, Ask::new(Method::GET, "", "")).await.unwrap();
    assert!(String::from_utf8_lossy(&listed).contains("<Name>new</Name>"));
    let head = |bucket| reader.head(bucket, "");
    assert_eq!(head("new").await.unwrap().status, StatusCode::OK);
    assert_eq!(head("old").await.unwrap().status, StatusCode::NOT_FOUND);
    let location = Ask::new(Method::GET, "new", "").query("location", "");
    assert!(code(&reader, location).await.is_ok());
}

#[tokio::test]
async fn writes_beyond_the_limit_are_refused_until_something_is_deleted() {
    let origin = FaultOrigin::start(OriginConfig {
        buckets: vec!["b".into()],
        anonymous: true,
        written_limit_bytes: 1000,
        ..OriginConfig::default()
    });
    let origin = origin.await.unwrap();
    let reader = reader(&origin);
    let put = |key: &str| Ask::new(Method::PUT, "b", key).body(vec![7; 600]);
    assert!(code(&reader, put("one")).await.is_ok());
    assert_eq!(code(&reader, put("two")).await.unwrap_err(), "EntityTooLarge");
    reader.delete("b", "one").await.unwrap();
    assert!(code(&reader, put("two")).await.is_ok());
}
