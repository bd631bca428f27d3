//! What is not known to be right is checked before it is sent, or not sent.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use forebay_rt::spawn_blocking;

use super::clients::{GET, connect, read_head};
use super::{Answer, Segment, Server, eventually, forget_pages, serve};
use crate::trust::PIECE_BYTES;

const PIECE: u64 = PIECE_BYTES as u64;

/// A server of one token that names all of the segment.
fn serve_whole(segment: &Segment) -> Server {
    let window = Arc::clone(&segment.window);
    serve(move |_| Answer::sized(vec![window.token(0..window.len_bytes(), ())]))
}

fn empty_page_cache(segment: &Segment) {
    segment.window.file().sync_all().unwrap();
    forget_pages(&segment.window);
    // In the middle: of what is on its way to a client the kernel keeps the pages.
    let middle = segment.window.len_bytes() / 2;
    assert!(!segment.window.is_resident(middle..middle + 1).unwrap());
}

async fn get(server: &Server) -> std::io::Result<Vec<u8>> {
    let addr = server.addr;
    let reading = spawn_blocking(move || {
        let mut stream = ask(addr);
        let mut body = vec![0; read_head(&mut stream)];
        stream.read_exact(&mut body).map(|()| body)
    });
    reading.await.unwrap()
}

fn ask(addr: std::net::SocketAddr) -> TcpStream {
    let mut stream = connect(addr, 64 << 10);
    stream.write_all(GET).unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_memory_and_vouched_for_is_not_checked() {
    let segment = Segment::random(50, 3 << 20);
    let server = serve_whole(&segment);
    assert!(get(&server).await.unwrap() == segment.bytes);
    assert_eq!(segment.keeper.asked(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_in_memory_is_checked_piece_by_piece() {
    let segment = Segment::random(51, 2 * PIECE_BYTES + 100_000);
    empty_page_cache(&segment);
    let server = serve_whole(&segment);
    assert!(get(&server).await.unwrap() == segment.bytes);
    let end = segment.window.len_bytes();
    assert_eq!(segment.keeper.asked(), [0..PIECE, PIECE..2 * PIECE, 2 * PIECE..end]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_vouches_for_is_checked_although_it_is_in_memory() {
    let segment = Segment::random(52, PIECE_BYTES + 1);
    segment.keeper.doubt();
    let server = serve_whole(&segment);
    assert!(get(&server).await.unwrap() == segment.bytes);
    assert_eq!(segment.keeper.asked(), [0..PIECE, PIECE..PIECE + 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_leaves_memory_while_a_slow_client_takes_it_is_checked_then() {
    let segment = Segment::random(53, 16 << 20);
    let mut server = serve_whole(&segment);
    let addr = server.addr;
    let (mut stream, first) = spawn_blocking(move || {
        let mut stream = ask(addr);
        read_head(&mut stream);
        let mut first = vec![0; 1 << 20];
        stream.read_exact(&mut first).unwrap();
        (stream, first)
    })
    .await
    .unwrap();
    assert!(first == segment.bytes[..1 << 20]);
    assert_eq!(segment.keeper.asked(), []);
    empty_page_cache(&segment);
    let (stream, second) = spawn_blocking(move || {
        let mut second = vec![0; 11 << 20];
        stream.read_exact(&mut second).map(|()| (stream, second)).unwrap()
    })
    .await
    .unwrap();
    assert!(second == segment.bytes[1 << 20..12 << 20]);
    let asked = segment.keeper.asked();
    assert!(asked.windows(2).all(|two| two[0].end == two[1].start), "{asked:?}");
    assert!(asked[0].start > 1 << 20 && asked.len() >= 2, "{asked:?}");

    segment.keeper.find_flaws();
    let mut stream = stream;
    let rest = spawn_blocking(move || {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        rest
    });
    let rest = rest.await.unwrap();
    assert_eq!(server.next_error().await, ErrorKind::InvalidData);
    assert!(rest.len() < 4 << 20 && rest == segment.bytes[12 << 20..][..rest.len()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_its_check_cuts_the_connection() {
    let segment = Segment::random(54, 300_000);
    empty_page_cache(&segment);
    segment.keeper.find_flaws();
    let mut server = serve_whole(&segment);
    assert_eq!(get(&server).await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(server.next_error().await, ErrorKind::InvalidData);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_never_stays_in_memory_cuts_the_connection_in_the_end() {
    let segment = Segment::random(55, 300_000);
    empty_page_cache(&segment);
    segment.keeper.forget();
    let mut server = serve_whole(&segment);
    assert!(get(&server).await.is_err());
    assert_eq!(server.next_error().await, ErrorKind::Other);
    let asked = segment.keeper.asked();
    assert!(asked.len() > 1 && asked.iter().all(|range| *range == (0..PIECE)), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_vanishes_during_a_check_frees_its_pin() {
    let segment = Segment::random(56, 300_000);
    empty_page_cache(&segment);
    segment.keeper.hang();
    let pin = Arc::new(());
    let (window, pinned) = (Arc::clone(&segment.window), Arc::clone(&pin));
    let server = serve(move |_| Answer::sized(vec![window.token(0..300_000, pinned.clone())]));
    let addr = server.addr;
    let client = spawn_blocking(move || ask(addr)).await.unwrap();
    eventually("the check is asked for", || segment.keeper.asked().len() == 1).await;
    assert_eq!(Arc::strong_count(&pin), 3, "the test, the server, and the chunk on its way");
    drop(client);
    eventually("the pin of a vanished client is free", || Arc::strong_count(&pin) == 2).await;
}
