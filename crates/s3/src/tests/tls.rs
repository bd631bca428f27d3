//! The endpoint over TLS.

use forebay_telemetry::Secret;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::world::World;
use crate::{Certificate, CertificateError, TlsServer};

/// A certificate of its own making, and how a client comes to trust it.
fn certificate() -> (Certificate, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["forebay.test".to_owned()]).unwrap();
    let key = Secret::new(&signing_key.serialize_pem());
    (Certificate::parse(cert.pem().as_bytes(), &key).unwrap(), cert.pem())
}

fn bytes(len: u32) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_endpoint_is_served_plain_and_over_tls() {
    let world = World::open().await;
    world.origin.put("k", bytes(9 << 20));
    let (certificate, trusted) = certificate();
    let tls = world.over_tls(&TlsServer::new(certificate).unwrap()).await;
    let mut client = tls.connect(&trusted).await.unwrap();
    let whole = client.ask("GET /b/k HTTP/1.1").await;
    assert!(whole.status() == 200 && whole.body == bytes(9 << 20));
    let part = client.ask("GET /b/k HTTP/1.1\nrange: bytes=-100").await;
    assert!(part.status() == 206 && part.body == bytes(9 << 20)[(9 << 20) - 100..]);
    let plain = world.ask("HEAD /b/k HTTP/1.1").await;
    assert_eq!(client.ask("HEAD /b/k HTTP/1.1").await.significant(), plain.significant());
    client.send("PUT /b/new HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n\r\nhello").await;
    assert_eq!(client.answer(false).await.unwrap().text(), "forwarded");
    assert_eq!(world.origin.seen.lock()[0].body, "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_is_shown_from_the_next_connection_on() {
    let world = World::open().await;
    world.origin.put("k", "bytes");
    let (old, trusts_old) = certificate();
    let (new, trusts_new) = certificate();
    let server = TlsServer::new(old).unwrap();
    let tls = world.over_tls(&server).await;
    let mut before = tls.connect(&trusts_old).await.unwrap();
    assert!(tls.connect(&trusts_new).await.is_err());
    server.replace(new);
    assert!(tls.connect(&trusts_old).await.is_err());
    let mut after = tls.connect(&trusts_new).await.unwrap();
    for client in [&mut before, &mut after] {
        assert_eq!(client.ask("GET /b/k HTTP/1.1").await.text(), "bytes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_speaks_no_tls_gets_no_byte_of_http() {
    let world = World::open().await;
    world.origin.put("k", "bytes");
    let (certificate, _) = certificate();
    let tls = world.over_tls(&TlsServer::new(certificate).unwrap()).await;
    let mut stranger = TcpStream::connect(tls.address).await.unwrap();
    stranger.write_all(b"GET /b/k HTTP/1.1\r\nhost: h\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = stranger.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/") && answer.len() < 100, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_cannot_be_finished_is_cut_over_tls_as_well() {
    let world = World::open().await;
    world.origin.put("big", vec![7; 40 << 20]);
    *world.origin.break_after.lock() = Some(20 << 20);
    let (certificate, trusted) = certificate();
    let tls = world.over_tls(&TlsServer::new(certificate).unwrap()).await;
    let answer = tls.connect(&trusted).await.unwrap().ask("GET /b/big HTTP/1.1").await;
    assert_eq!((answer.status(), answer.header("content-length")), (200, Some("41943040")));
    assert!(!answer.complete && answer.body.len() < 40 << 20);
}

#[test]
fn a_certificate_that_cannot_be_shown_is_refused_without_its_key_in_the_text() {
    let pair = || generate_simple_self_signed(["forebay.test".to_owned()]).unwrap();
    let (one, other) = (pair(), pair());
    let refused = |chain: &str, key: &str| {
        Certificate::parse(chain.as_bytes(), &Secret::new(key)).unwrap_err()
    };
    let (chain, key) = (one.cert.pem(), one.signing_key.serialize_pem());
    assert!(matches!(refused("", &key), CertificateError::Chain(_)));
    assert!(matches!(refused(&key, &key), CertificateError::Chain(_)));
    assert!(matches!(refused(&chain, "hunter2"), CertificateError::Key));
    let mixed = refused(&chain, &other.signing_key.serialize_pem());
    assert!(matches!(mixed, CertificateError::Pair(_)), "{mixed}");
    assert!(!refused(&chain, "-----BEGIN hunter2").to_string().contains("hunter2"));
}
