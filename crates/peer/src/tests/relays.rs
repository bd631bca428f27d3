//! Bytes that are passed on unread are those that the peer sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use forebay_rt::{SystemClock, spawn};
use forebay_zerocopy::Transport;
use futures_util::StreamExt;
use hyper::rt::Write;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use super::world::{Asker, CONTENT, Owner, SIZE, range};

/// A connection as a client has it, and its client.
async fn connection() -> (Transport, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (Transport::new(listener.accept().await.unwrap().0, Arc::new(SystemClock)), client)
}

async fn send(connection: &mut Transport, mut bytes: Bytes) {
    while !bytes.is_empty() {
        let sent =
            std::future::poll_fn(|cx| match Pin::new(&mut *connection).poll_write(cx, &bytes) {
                Poll::Ready(sent) => Poll::Ready(sent.unwrap()),
                Poll::Pending => Poll::Pending,
            });
        let sent = sent.await;
        bytes = bytes.slice(sent..);
    }
}

/// What a client gets of a body that is passed on, and whether it came to its end.
async fn relayed(asker: &Asker, key: &str, start: u64, end: u64) -> (Vec<u8>, bool) {
    let (mut connection, mut client) = connection().await;
    let reading = spawn(async move {
        let mut got = Vec::new();
        client.read_to_end(&mut got).await.unwrap();
        got
    });
    let mut body = asker.read(key, range(start, end)).await.unwrap();
    body.pass_on(connection.pipe_pass());
    let mut is_whole = true;
    while let Some(frame) = body.next().await {
        match frame {
            Ok(bytes) => send(&mut connection, bytes).await,
            Err(_) => is_whole = false,
        }
    }
    drop(connection);
    (reading.await.unwrap(), is_whole)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relayed_body_is_what_was_sent_whatever_its_size() {
    let (owner, sizes) = (Owner::start(), [1, 16_000, 65_536, 200_000, SIZE / 2, SIZE]);
    let asker = Asker::of(owner.addr);
    for key in ["mem", "file"] {
        for size in sizes {
            let start = (SIZE - size) / 2;
            let (got, is_whole) = relayed(&asker, key, start, start + size).await;
            let sent = &CONTENT[start as usize..(start + size) as usize];
            assert!(is_whole && got == sent, "{key}, {size} bytes: got {}", got.len());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relayed_body_that_breaks_off_is_right_as_far_as_it_goes() {
    let owner = Owner::start();
    let asker = Asker::of(owner.addr);
    for key in ["cut", "short"] {
        let (got, is_whole) = relayed(&asker, key, 0, SIZE).await;
        assert!(!is_whole && got == CONTENT[..got.len()], "{key}: got {}", got.len());
    }
}
