//! Clients that pipeline, dawdle, vanish or stall.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use forebay_rt::spawn_blocking;
use socket2::{Domain, Socket, Type};

use super::{Answer, Segment, eventually, serve, serve_with_stall_limit};

pub(super) const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: test\r\n\r\n";

pub(super) fn connect(addr: SocketAddr, receive_buffer_bytes: usize) -> TcpStream {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(receive_buffer_bytes).unwrap();
    socket.connect(&addr.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Reads up to the end of the response's head; returns the length that it announces.
pub(super) fn read_head(stream: &mut impl Read) -> usize {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelined_requests_are_answered_in_order() {
    const REQUESTS: usize = 40;
    let segment = Arc::new(Segment::random(20, 400_000));
    let window = Arc::clone(&segment.window);
    let server = serve(move |path| {
        let at: u64 = path[1..].parse().unwrap();
        Answer::sized(vec![window.token(at..at + 70_000, ()), window.token(0..at, ())])
    });
    spawn_blocking(move || {
        let mut stream = connect(server.addr, 1 << 20);
        for n in 0..REQUESTS {
            write!(stream, "GET /{} HTTP/1.1\r\nhost: test\r\n\r\n", n * 8_000).unwrap();
        }
        for n in 0..REQUESTS {
            let at = n * 8_000;
            let mut body = vec![0; read_head(&mut stream)];
            stream.read_exact(&mut body).unwrap();
            assert!(body[..70_000] == segment.bytes[at..at + 70_000], "request {n}");
            assert!(body[70_000..] == segment.bytes[..at], "request {n}");
        }
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_slowly_gets_exact_bytes() {
    let segment = Segment::random(21, 1_500_000);
    let window = Arc::clone(&segment.window);
    let server = serve(move |_| {
        let chunks = (0..15).map(|n| window.token(n * 100_000..(n + 1) * 100_000, ()));
        Answer::sized(chunks.collect())
    });
    let body = spawn_blocking(move || {
        let mut stream = connect(server.addr, 8 << 10);
        stream.write_all(GET).unwrap();
        let mut body = vec![0; read_head(&mut stream)];
        for piece in body.chunks_mut(3_001) {
            std::thread::sleep(Duration::from_micros(200));
            stream.read_exact(piece).unwrap();
        }
        body
    })
    .await
    .unwrap();
    assert!(body == segment.bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_vanishes_frees_its_pin() {
    let segment = Segment::random(22, 32 << 20);
    let pin = Arc::new(());
    let (window, pinned) = (Arc::clone(&segment.window), Arc::clone(&pin));
    let server = serve(move |_| {
        Answer::sized(vec![window.token(0..window.len_bytes(), Arc::clone(&pinned))])
    });
    let client = spawn_blocking(move || {
        let mut stream = connect(server.addr, 64 << 10);
        stream.write_all(GET).unwrap();
        read_head(&mut stream);
        stream
    })
    .await
    .unwrap();
    assert_eq!(Arc::strong_count(&pin), 3, "the test, the server, and the chunk on its way");
    drop(client);
    eventually("the pin of a vanished client is free", || Arc::strong_count(&pin) == 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_client_is_cut_and_frees_its_pin() {
    let segment = Segment::random(23, 32 << 20);
    let pin = Arc::new(());
    let (window, pinned) = (Arc::clone(&segment.window), Arc::clone(&pin));
    let mut server = serve_with_stall_limit(Duration::from_millis(200), move |_| {
        Answer::sized(vec![window.token(0..window.len_bytes(), Arc::clone(&pinned))])
    });
    let mut stream = connect(server.addr, 64 << 10);
    stream.write_all(GET).unwrap();

    assert_eq!(server.next_error().await, ErrorKind::TimedOut);
    assert_eq!(Arc::strong_count(&pin), 2, "only the test and the server hold the pin");
    let rest = spawn_blocking(move || std::io::copy(&mut stream, &mut std::io::sink()));
    let error = rest.await.unwrap().expect_err("no clean end");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_client_outlives_many_stall_limits() {
    let segment = Segment::random(24, 16 << 20);
    let window = Arc::clone(&segment.window);
    let server = serve_with_stall_limit(Duration::from_millis(250), move |_| {
        Answer::sized(vec![window.token(0..window.len_bytes(), ())])
    });
    let body = spawn_blocking(move || {
        let mut stream = connect(server.addr, 64 << 10);
        stream.write_all(GET).unwrap();
        let mut body = vec![0; read_head(&mut stream)];
        let (slowly, fast) = body.split_at_mut(1 << 20);
        for piece in slowly.chunks_mut(32 << 10) {
            std::thread::sleep(Duration::from_millis(60));
            stream.read_exact(piece).unwrap();
        }
        stream.read_exact(fast).unwrap();
        body
    })
    .await
    .unwrap();
    assert!(body == segment.bytes);
}
