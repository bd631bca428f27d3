//! Requests that two readers could cut differently. What hides behind one is never carried out,
//! and where it cannot be told where a request ends, nothing after it is read.
//!
//! Every head is signed: without the framing around it, it would be served.

use forebay_testkit::PatternSet;
use forebay_tests::{BUCKET, Setup, World, read};
use http::Method;

use crate::wire::{Answered, Wire, host, signed, signed_with};

/// What a hidden request deletes.
const VICTIM: &str = "k-00000000";

/// Headers that leave it open where the body ends, and a body. `HIDDEN` is a request.
const AMBIGUOUS: [(&str, &str); 48] = [
    // Two kinds of length.
    ("Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\nHIDDEN"),
    ("Transfer-Encoding: chunked\r\nContent-Length: 5", "0\r\n\r\nHIDDEN"),
    ("Content-Length: 0\r\nTransfer-Encoding: chunked", "HIDDEN"),
    // A coding that only some readers take for chunked.
    ("Transfer-Encoding: xchunked\r\nContent-Length: 5", "0\r\n\r\nHIDDEN"),
    ("Transfer-Encoding : chunked\r\nContent-Length: 5", "0\r\n\r\nHIDDEN"),
    ("Transfer-Encoding: \x0bchunked\r\nContent-Length: 5", "0\r\n\r\nHIDDEN"),
    ("Transfer-Encoding: chunked\x0c\r\nContent-Length: 5", "0\r\n\r\nHIDDEN"),
    ("Transfer-Encoding: chunked\0\r\nContent-Length: 5", "0\r\n\r\nHIDDEN"),
    (" Transfer-Encoding: chunked\r\nContent-Length: 5", "0\r\n\r\nHIDDEN"),
    ("Transfer-Encoding:\r\n chunked\r\nContent-Length: 5", "0\r\n\r\nHIDDEN"),
    ("X: y\r\n Transfer-Encoding: chunked\r\nContent-Length: 5", "0\r\n\r\nHIDDEN"),
    ("X: y\rTransfer-Encoding: chunked\r\nContent-Length: 5", "0\r\n\r\nHIDDEN"),
    ("X: y\n\rTransfer-Encoding: chunked\r\nContent-Length: 5", "0\r\n\r\nHIDDEN"),
    ("Transfer-Encoding: chunked\rX: y\r\nContent-Length: 5", "0\r\n\r\nHIDDEN"),
    ("Transfer-Encoding: chunked;a=b\r\nContent-Length: 5", "0\r\n\r\nHIDDEN"),
    ("Transfer-Encoding: \"chunked\"\r\nContent-Length: 5", "0\r\n\r\nHIDDEN"),
    ("Transfer-Encoding: chunked, identity\r\nContent-Length: 5", "0\r\n\r\nHIDDEN"),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "0\r\n\r\nHIDDEN"),
    ("Transfer-Encoding: identity\r\nContent-Length: 0", "HIDDEN"),
    ("Transfer-Encoding: identity", "HIDDEN"),
    ("Transfer-Encoding:\r\nContent-Length: 0", "HIDDEN"),
    ("Transfer-Encoding: , chunked", "0\r\n\r\nHIDDEN"),
    ("Transfer-Encoding: identity, chunked", "0\r\n\r\nHIDDEN"),
    ("Transfer-Encoding: gzip, chunked", "0\r\n\r\nHIDDEN"),
    ("Transfer-Encoding: chunked, chunked", "0\r\n\r\nHIDDEN"),
    ("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", "0\r\n\r\nHIDDEN"),
    // Lengths that are none, or several.
    ("Content-Length: 0\r\nContent-Length: 5", "HIDDEN"),
    ("Content-Length: 5\r\nContent-Length: 0", "HIDDEN"),
    ("Content-Length: 0, 5", "HIDDEN"),
    ("Content-Length: 3, 3", "abcHIDDEN"),
    ("Content-Length: +3", "abcHIDDEN"),
    ("Content-Length: -1", "HIDDEN"),
    ("Content-Length: 0x3", "abcHIDDEN"),
    ("Content-Length: 3 4", "abcHIDDEN"),
    ("Content-Length: 3.0", "abcHIDDEN"),
    ("Content-Length: 3e0", "abcHIDDEN"),
    ("Content-Length: \"3\"", "abcHIDDEN"),
    ("Content-Length:", "HIDDEN"),
    ("Content-Length : 3", "abcHIDDEN"),
    ("Content-Length:\r\n 3", "abcHIDDEN"),
    ("Content-Length: 3\0", "abcHIDDEN"),
    ("Content-Length: 18446744073709551616", "HIDDEN"),
    ("Content-Length: 36893488147419103235", "abcHIDDEN"),
    // Lines that are no headers, behind which others look.
    ("Content-Length: 0\r\nno colon", "HIDDEN"),
    ("Content-Length: 0\r\n: no name", "HIDDEN"),
    ("Content-Length: 0\r\nX A: b", "HIDDEN"),
    ("Content-Length: 0\r\nX\u{e9}: b", "HIDDEN"),
    ("Content-Length: 0\r\nX: a\0b", "HIDDEN"),
];

/// Chunks that are not what they say, of an upload that is taken if they are: `DATA` has `SIZE`
/// bytes.
const BAD_CHUNKS: [&str; 14] = [
    "0xSIZE\r\nDATA\r\n0\r\n\r\nHIDDEN",
    "+SIZE\r\nDATA\r\n0\r\n\r\nHIDDEN",
    "-SIZE\r\nDATA\r\n0\r\n\r\nHIDDEN",
    " SIZE\r\nDATA\r\n0\r\n\r\nHIDDEN",
    "0 SIZE\r\nDATA\r\n0\r\n\r\nHIDDEN",
    "SIZE.\r\nDATA\r\n0\r\n\r\nHIDDEN",
    "SIZEg\r\nDATA\r\n0\r\n\r\nHIDDEN",
    "\r\nDATA\r\n0\r\n\r\nHIDDEN",
    "100000000000000SIZE\r\nDATA\r\n0\r\n\r\nHIDDEN",
    "SIZE\nDATA\n0\n\nHIDDEN",
    "SIZE;a\nDATA\r\n0\r\n\r\nHIDDEN",
    "SIZE;a\rb\r\nDATA\r\n0\r\n\r\nHIDDEN",
    "SIZE\rDATA\r\n0\r\n\r\nHIDDEN",
    "SIZE\r\nxDATA\r\n0\r\n\r\nHIDDEN",
];

/// Chunks that go wrong behind the data, when the upload is whole.
const BAD_ENDS: [&str; 3] = [
    "SIZE\r\nDATA0\r\n\r\nHIDDEN",
    "SIZE\r\nDATA\r\nHIDDEN",
    "SIZE\r\nDATA\r\n0\r\nno trailer\r\n\r\nHIDDEN",
];

/// Nine bytes as aws-chunked wraps them; their checksum comes last.
const WRAPPED: &str = "9\r\nnine byte\r\n0\r\nx-amz-checksum-crc32:Q/k2Lw==\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_end_is_not_certain_is_refused_and_nothing_after_it_is_read() {
    let world = world().await;
    for (headers, body) in AMBIGUOUS {
        let head = signed(&world, &Method::PUT, &format!("/{BUCKET}/first"));
        let answers = send(&world, &format!("{head}{headers}\r\n\r\n{body}")).await;
        assert_refused_and_closed(&world, headers, &answers);
    }
    assert_victim_lives(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_in_chunks_that_do_not_add_up_is_not_made() {
    let world = world().await;
    let upload = |key: &str, chunks: &str| {
        let more = [
            ("content-encoding", "aws-chunked"),
            ("x-amz-decoded-content-length", "9"),
            ("x-amz-trailer", "x-amz-checksum-crc32"),
        ];
        let (path, payload) = (format!("/{BUCKET}/{key}"), "STREAMING-UNSIGNED-PAYLOAD-TRAILER");
        let head = signed_with(&world, &Method::PUT, &path, payload, &more);
        let size = format!("{:x}", WRAPPED.len());
        let body = chunks.replace("SIZE", &size).replace("DATA", WRAPPED);
        format!("{head}Transfer-Encoding: chunked\r\n\r\n{body}")
    };
    let answers = send(&world, &upload("good", "SIZE\r\nDATA\r\n0\r\n\r\n")).await;
    assert_eq!(answers[0].status(), 200, "{answers:?}");
    for chunks in BAD_CHUNKS {
        let answers = send(&world, &upload("first", chunks)).await;
        assert!(answers.iter().all(|a| a.status() >= 400), "{chunks:?}: {answers:?}");
        assert!(answers.len() <= 1, "{chunks:?}: {answers:?}");
    }
    for chunks in BAD_ENDS {
        let answers = send(&world, &upload("whole", chunks)).await;
        assert!(answers.len() <= 1, "{chunks:?}: {answers:?}");
    }
    let direct = world.direct().unwrap();
    assert_eq!(direct.head(BUCKET, "good").await.unwrap().status, 200);
    assert_eq!(direct.head(BUCKET, "first").await.unwrap().status, 404);
    assert_victim_lives(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_never_taken_for_a_request() {
    let world = world().await;
    let hidden = hidden(&world);
    let (len, get) = (hidden.len(), signed(&world, &Method::GET, &format!("/{BUCKET}/{VICTIM}")));
    let unsigned = format!("PUT /{BUCKET}/first HTTP/1.1\r\nHost: {}\r\n", host(&world));
    let by_length = format!("Content-Length: {len}\r\n\r\nHIDDEN");
    let in_a_chunk = format!("Transfer-Encoding: chunked\r\n\r\n{len:x}\r\nHIDDEN\r\n0\r\n\r\n");
    let awaited = format!("Expect: 100-continue\r\n{by_length}");
    let large = format!("Content-Length: {}\r\n\r\n{}HIDDEN", len + (3 << 20), "x".repeat(3 << 20));
    for (head, framing, statuses) in [
        (&get, &by_length, &[200][..]),
        (&get, &in_a_chunk, &[200, 411]),
        (&unsigned, &by_length, &[403]),
        (&unsigned, &in_a_chunk, &[403]),
        (&unsigned, &awaited, &[403]),
        (&unsigned, &large, &[403]),
    ] {
        let answers = send(&world, &format!("{head}{framing}")).await;
        let first = answers[0].status();
        assert!(answers.len() == 1 && statuses.contains(&first), "{framing:.60}: {answers:?}");
    }
    assert_victim_lives(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_line_of_another_protocol_is_refused_and_nothing_after_it_is_read() {
    let world = world().await;
    let get = signed(&world, &Method::GET, &format!("/{BUCKET}/{VICTIM}"));
    let put = signed(&world, &Method::PUT, &format!("/{BUCKET}/first"));
    let chunked_1_0 = put.replace("HTTP/1.1", "HTTP/1.0") + "Transfer-Encoding: chunked\r\n";
    for head in [
        format!("{chunked_1_0}\r\n0\r\n"),
        get.replace(" HTTP/1.1", " HTTP/1.1 HTTP/1.1"),
        get.replace(" HTTP/1.1", " HTTP/1.2"),
        get.replace(" HTTP/1.1", " HTTP/2.0"),
        get.replace(" HTTP/1.1", ""),
        get.replace(" HTTP/1.1", "\tHTTP/1.1"),
        get.replace(VICTIM, "k- 00000000"),
        get.replace("GET /", "GET "),
        get.replace("GET /", "GET\0/"),
        get.replace("\r\n", "\r"),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n".to_owned(),
    ] {
        let answers = send(&world, &format!("{head}\r\nHIDDEN")).await;
        assert!(answers.len() <= 1, "{head}: {answers:?}");
        assert!(answers.iter().all(|a| a.status() >= 400), "{head}: {answers:?}");
    }
    assert_victim_lives(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_for_exactly_one_host() {
    let world = world().await;
    let get = signed(&world, &Method::GET, &format!("/{BUCKET}/{VICTIM}"));
    let host_line = format!("host: {}\r\n", host(&world));
    let absolute = |authority: &str| get.replace("GET /", &format!("GET http://{authority}/"));
    let own = send(&world, &format!("{}Connection: close\r\n\r\n", absolute(host(&world)))).await;
    assert_eq!(own[0].status(), 200, "a target with its scheme and host is as good as a path");
    for head in [
        get.replace(&host_line, ""),
        format!("{get}Host: other.example\r\n"),
        format!("{get}{host_line}"),
        absolute("other.example"),
        absolute(&format!("{}:1", host(&world))),
    ] {
        let answers = send(&world, &format!("{head}\r\nHIDDEN")).await;
        assert_refused_and_closed(&world, &head, &answers);
    }
    assert_victim_lives(&world).await;
}

async fn world() -> World {
    let set = PatternSet::new(BUCKET, "k-", 1, 1000);
    let world = World::start(Setup::default(), &[&set]).await.unwrap();
    read(&world.reader().unwrap(), VICTIM, None).await.unwrap();
    world.origin.log().reset();
    world
}

fn hidden(world: &World) -> String {
    signed(world, &Method::DELETE, &format!("/{BUCKET}/{VICTIM}")) + "\r\n"
}

/// Sends it on a connection of its own, and reads what comes until the worker has closed.
async fn send(world: &World, request: &str) -> Vec<Answered> {
    let mut wire = Wire::connect(world).await;
    wire.send(request.replace("HIDDEN", &hidden(world))).await;
    wire.end_sending().await;
    wire.answers_to_the_end().await
}

fn assert_refused_and_closed(world: &World, what: &str, answers: &[Answered]) {
    assert_eq!(answers.len(), 1, "{what:?}: {answers:?}");
    let status = answers[0].status();
    assert!([400, 411, 501].contains(&status), "{what:?}: {status}");
    assert_eq!(answers[0].header("connection"), Some("close"), "{what:?}");
    assert_eq!(world.origin.log().counts().requests, 0, "{what:?} was carried out");
}

async fn assert_victim_lives(world: &World) {
    let records = world.origin.log().records();
    let deleted = records.iter().find(|record| record.key == VICTIM);
    assert_eq!(deleted, None, "the hidden request was carried out");
    assert_eq!(world.direct().unwrap().head(BUCKET, VICTIM).await.unwrap().status, 200);
}
