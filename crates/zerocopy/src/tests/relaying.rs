//! Bytes that go from one socket to another arrive as they were sent, or not at all.

use std::io::{self, ErrorKind};
use std::pin::Pin;

use bytes::Bytes;
use futures_util::task::noop_waker_ref;
use hyper::rt::Write;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, MutexGuard};

use super::{Answer, Segment, clock, random_bytes, serve};
use crate::{PIPE_BYTES, PIPES_MAX, PipePass, Received, Transport, receive};

/// Pipes belong to the whole process: a test that uses them all would take them from another.
static PIPES: Mutex<()> = Mutex::const_new(());

async fn turn() -> MutexGuard<'static, ()> {
    PIPES.lock().await
}

async fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (near, listener.accept().await.unwrap().0)
}

/// The other end sends these bytes and ends.
async fn sender_of(bytes: Vec<u8>) -> TcpStream {
    let (near, mut far) = connected().await;
    forebay_rt::spawn(async move { far.write_all(&bytes).await });
    near
}

async fn received(from: &TcpStream, max_bytes: usize) -> io::Result<Received> {
    loop {
        from.readable().await?;
        match receive(PipePass(()), from, max_bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            received => return received,
        }
    }
}

async fn token(from: &TcpStream, max_bytes: usize) -> Bytes {
    match received(from, max_bytes).await.unwrap() {
        Received::Token(token) => token,
        Received::NoPipe => panic!("there is no pipe"),
    }
}

/// Tokens of exactly so many bytes.
async fn tokens(from: &TcpStream, mut bytes: usize) -> Vec<Bytes> {
    let mut tokens = Vec::new();
    while bytes > 0 {
        let token = token(from, bytes).await;
        bytes -= token.len();
        tokens.push(token);
    }
    tokens
}

async fn fetched(server: std::net::SocketAddr, bytes: usize) -> Vec<u8> {
    let mut client = TcpStream::connect(server).await.unwrap();
    client.write_all(b"GET /x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    answer.split_off(answer.len().saturating_sub(bytes))
}

fn write(transport: &mut Transport, slice: &[u8]) -> io::Result<usize> {
    let cx = &mut std::task::Context::from_waker(noop_waker_ref());
    match Pin::new(transport).poll_write(cx, slice) {
        std::task::Poll::Ready(written) => written,
        std::task::Poll::Pending => Err(ErrorKind::WouldBlock.into()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relayed_bytes_arrive_between_those_from_memory_and_from_files() {
    let _turn = turn().await;
    let sent = random_bytes(1, 3_000_001);
    let upstream = sender_of(sent.clone()).await;
    let segment = Segment::random(2, 300_000);
    let mut chunks = vec![Bytes::from_static(b"before")];
    chunks.extend(tokens(&upstream, 1_000_000).await);
    chunks.push(segment.window.token(0..300_000, ()));
    chunks.extend(tokens(&upstream, 2_000_001).await);
    chunks.push(Bytes::from_static(b"after"));
    let expected =
        [b"before", &sent[..1_000_000], &segment.bytes, &sent[1_000_000..], b"after"].concat();
    let chunks = std::sync::Mutex::new(chunks);
    let server = serve(move |_| Answer::sized(std::mem::take(&mut chunks.lock().unwrap())));
    assert!(fetched(server.addr, expected.len()).await == expected, "other bytes arrived");
}

#[tokio::test]
async fn what_was_not_sent_is_sent_to_nobody_else() {
    let _turn = turn().await;
    let (first, second) = (random_bytes(3, 50_000), random_bytes(4, 50_000));
    let unsent = tokens(&sender_of(first).await, 50_000).await;
    drop(unsent);
    for token in tokens(&sender_of(second.clone()).await, 50_000).await {
        let (near, mut far) = connected().await;
        near.writable().await.unwrap();
        let mut transport = Transport::new(near, clock());
        assert_eq!(write(&mut transport, &token[..10_000.min(token.len())]).unwrap(), 10_000);
        let mut got = vec![0; 10_000];
        far.read_exact(&mut got).await.unwrap();
        assert!(second.windows(64).any(|bytes| bytes == &got[..64]), "another's bytes");
    }
}

#[tokio::test]
async fn bytes_that_were_sent_are_not_sent_again() {
    let _turn = turn().await;
    let upstream = sender_of(random_bytes(5, 1_000)).await;
    let token = token(&upstream, 1_000).await;
    let (near, _far) = connected().await;
    near.writable().await.unwrap();
    let mut transport = Transport::new(near, clock());
    assert_eq!(write(&mut transport, &token[..600]).unwrap(), 600);
    let again = write(&mut transport, &token[..600]).unwrap_err();
    assert!(again.to_string().contains("sent before"), "{again}");
    let skipped = write(&mut transport, &token[700..]).unwrap_err();
    assert!(skipped.to_string().contains("sent before"), "{skipped}");
    assert_eq!(write(&mut transport, &token[600..]).unwrap(), token.len() - 600);
}

#[tokio::test]
async fn an_upstream_that_ended_is_told_from_one_that_is_slow() {
    let _turn = turn().await;
    let (near, far) = connected().await;
    let error = receive(PipePass(()), &near, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    drop(far);
    assert_eq!(received(&near, 1).await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn there_are_so_many_pipes_and_no_more_and_each_is_used_again() {
    let _turn = turn().await;
    let upstream = sender_of(random_bytes(6, PIPES_MAX + 2 * PIPE_BYTES)).await;
    let mut held = Vec::new();
    for _ in 0..PIPES_MAX {
        held.push(token(&upstream, 1).await);
    }
    assert!(matches!(received(&upstream, 1).await, Ok(Received::NoPipe)));
    held.pop();
    assert!(token(&upstream, 2 * PIPE_BYTES).await.len() <= PIPE_BYTES);
}
