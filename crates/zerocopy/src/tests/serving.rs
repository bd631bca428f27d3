//! Bodies arrive as they are, whatever they are made of.

use std::io::ErrorKind;
use std::sync::Arc;

use bytes::Bytes;
use forebay_rt::{Rng, SeededRng};
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use tokio::net::TcpStream;

use super::{Answer, Segment, clock, disk_dir, io_kind, map, random_bytes, serve};
use crate::Transport;

async fn connect(addr: std::net::SocketAddr) -> SendRequest<Empty<Bytes>> {
    let stream = TcpStream::connect(addr).await.unwrap();
    let (sender, connection) = handshake(Transport::new(stream, clock())).await.unwrap();
    forebay_rt::spawn(connection);
    sender
}

async fn get(sender: &mut SendRequest<Empty<Bytes>>, path: &str) -> Result<Bytes, hyper::Error> {
    sender.ready().await?;
    let response = sender.send_request(Request::get(path).body(Empty::new()).unwrap()).await?;
    Ok(response.into_body().collect().await?.to_bytes())
}

/// Up to 24 chunks of up to 700 kB each, of memory and of three files, tiny and empty ones too.
fn random_chunks(seed: u64, segments: &[Segment]) -> (Vec<Bytes>, Vec<u8>) {
    let rng = SeededRng::new(seed);
    let below = |bound: usize| rng.next_u64() as usize % bound;
    let mut expected = Vec::new();
    let chunks = (0..below(24))
        .map(|_| {
            let len = match below(4) {
                0 => below(3),
                1 => below(5_000),
                2 => below(70_000),
                _ => below(700_000),
            };
            if below(3) == 0 {
                let bytes = random_bytes(rng.next_u64(), len);
                expected.extend_from_slice(&bytes);
                return Bytes::from(bytes);
            }
            let segment = &segments[below(segments.len())];
            let at = below(segment.bytes.len() - len);
            expected.extend_from_slice(&segment.bytes[at..at + len]);
            let wider = below(at + 1);
            segment.window.token(wider as u64..(at + len) as u64, ()).slice(at - wider..)
        })
        .collect();
    (chunks, expected)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_any_mix_of_memory_and_files_are_byte_exact() {
    let segments: Arc<Vec<_>> =
        Arc::new((1..=3).map(|seed| Segment::random(seed, 1_000_003)).collect());
    let served = Arc::clone(&segments);
    let server = serve(move |path| {
        let seed: u64 = path[1..].parse().unwrap();
        Answer { chunks: random_chunks(seed, &served).0, sized: seed.is_multiple_of(2) }
    });
    let mut sender = connect(server.addr).await;
    for seed in 0..150 {
        let body = get(&mut sender, &format!("/{seed}")).await.unwrap();
        assert!(body == random_chunks(seed, &segments).1, "body of seed {seed} differs");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_connections_each_get_their_own_bytes() {
    let segments: Arc<Vec<_>> =
        Arc::new((4..=6).map(|seed| Segment::random(seed, 1_000_003)).collect());
    let served = Arc::clone(&segments);
    let server =
        serve(move |path| Answer::sized(random_chunks(path[1..].parse().unwrap(), &served).0));
    let clients = (0..8).map(|client| {
        let (addr, segments) = (server.addr, Arc::clone(&segments));
        forebay_rt::spawn(async move {
            let mut sender = connect(addr).await;
            for seed in client * 1000..client * 1000 + 20 {
                let body = get(&mut sender, &format!("/{seed}")).await.unwrap();
                assert!(body == random_chunks(seed, &segments).1, "body of seed {seed} differs");
            }
        })
    });
    futures_util::future::try_join_all(clients).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unlinked_file_is_still_served() {
    let bytes = random_bytes(7, 300_000);
    let named = tempfile::NamedTempFile::new_in(disk_dir()).unwrap();
    std::fs::write(named.path(), &bytes).unwrap();
    let window = map(named.reopen().unwrap());
    let path = named.path().to_owned();
    named.close().unwrap();
    assert!(!path.exists());

    let server = serve(move |_| Answer::sized(vec![window.token(0..300_000, ())]));
    let body = get(&mut connect(server.addr).await, "/").await.unwrap();
    assert!(body == bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_shorter_than_promised_cuts_the_connection() {
    let segment = Segment::random(8, 300_000);
    segment.window.file().set_len(100_000).unwrap();
    let window = segment.window;
    let mut server = serve(move |_| Answer::sized(vec![window.token(0..300_000, ())]));

    let error = get(&mut connect(server.addr).await, "/").await.unwrap_err();
    assert!(error.is_incomplete_message() || is_cut_body(&error), "{error:?}");
    assert_eq!(server.next_error().await, ErrorKind::UnexpectedEof);
}

fn is_cut_body(error: &hyper::Error) -> bool {
    io_kind(error) == Some(ErrorKind::UnexpectedEof)
}

/// Kilobytes of the map at `address` that are in this process's memory.
fn resident_kilobytes(address: *const u8) -> u64 {
    let start = format!("{:x}-", address as usize);
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let map = smaps.lines().skip_while(|line| !line.starts_with(&start));
    let rss = map.skip(1).find_map(|line| line.strip_prefix("Rss:")).unwrap();
    rss.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sending_reads_nothing_through_the_map() {
    let segment = Segment::random(9, 2_000_000);
    let whole = segment.window.token(0..2_000_000, ());
    let window = Arc::clone(&segment.window);
    let server = serve(move |_| {
        let head = Bytes::from_static(b"in memory");
        Answer { chunks: vec![head, window.token(0..2_000_000, ())], sized: false }
    });
    let body = get(&mut connect(server.addr).await, "/").await.unwrap();
    assert!(body[9..] == segment.bytes);
    assert_eq!(resident_kilobytes(whole.as_ptr()), 0);

    assert!(whole == segment.bytes);
    assert!(resident_kilobytes(whole.as_ptr()) > 0, "the measure sees what is read through");
}
