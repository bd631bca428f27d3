//! What a hit costs the worker's thread, from the look at the store to the last byte in the
//! socket: CPU per request and per GiB, by size. `cargo bench -p forebay-store --bench hits`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program for one's own eyes")]
#![allow(unsafe_code, reason = "the CPU time of one thread, and reading without copying")]

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_rt::SystemClock;
use forebay_store::{DiskConfig, Found, Store, StoreConfig};
use forebay_types::{BucketName, ByteRange, ETag, ObjectId, ObjectKey, RuleId, Stamp};
use forebay_zerocopy::{ListenOptions, Transport, listen, prepare};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};

const OBJECT_BYTES: u64 = 4 << 20;
const ROUNDS: usize = 5;
/// Bytes that each round sends.
const ROUND_BYTES: u64 = 4 << 30;
const SIZES: [u64; 5] = [64 << 10, 96 << 10, 256 << 10, 1 << 20, 4 << 20];

fn main() {
    let dir = tempfile::tempdir_in(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp"));
    let dir = dir.unwrap();
    for size in SIZES {
        let mut costs: Vec<_> = (0..ROUNDS).map(|_| round(dir.path(), size)).collect();
        costs.sort();
        let requests = ROUND_BYTES / size;
        let micros = |cost: Duration| cost.as_secs_f64() * 1e6 / requests as f64;
        let (least, median) = (costs[0], costs[ROUNDS / 2]);
        let per_gib = least.as_secs_f64() / (ROUND_BYTES >> 30) as f64;
        println!(
            "{:>5} KiB: {:>8.2} us a request at least, {:>8.2} us median; {per_gib:.3} CPU-s a GiB",
            size >> 10,
            micros(least),
            micros(median),
        );
    }
}

/// CPU time that the server's thread takes for one round of hits on one connection.
fn round(dir: &Path, size: u64) -> Duration {
    let (give, take) = std::sync::mpsc::sync_channel(1);
    let disk = dir.to_owned();
    let server = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(serve(&disk, size, |addr| give.send(addr).unwrap()))
    });
    read_all(take.recv().unwrap(), size);
    server.join().unwrap()
}

async fn serve(dir: &Path, size: u64, ready: impl FnOnce(SocketAddr)) -> Duration {
    let disk = DiskConfig { path: dir.to_owned(), capacity_bytes: Some(1 << 30) };
    let config = StoreConfig { disks: vec![disk], segment_bytes: None };
    let store = Store::open(config, Arc::new(SystemClock)).unwrap();
    let id = object();
    let (body, whole) = (vec![7; OBJECT_BYTES as usize], ByteRange::new(0, OBJECT_BYTES).unwrap());
    store.put(&id, whole, vec![Bytes::from(body)]).await.unwrap();
    // Opens its segment, should the round before have stored it.
    assert!(matches!(store.read(&id, whole).await, Found::Hit { .. }));
    let listening = listen("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
    ready(listening.listener.local_addr().unwrap());
    let (stream, _) = listening.listener.accept().await.unwrap();
    prepare(&stream).unwrap();
    let transport = Transport::new(stream, Arc::new(SystemClock));
    let begun = thread_cpu_time();
    let answering = Arc::clone(&store);
    let service = service_fn(move |_: Request<Incoming>| {
        let (store, id) = (Arc::clone(&answering), id.clone());
        async move { Ok::<_, Infallible>(Response::new(Full::new(hit(&store, &id, size).await))) }
    });
    http1::Builder::new().serve_connection(transport, service).await.unwrap();
    let took = thread_cpu_time().checked_sub(begun).unwrap();
    store.close().await;
    took
}

async fn hit(store: &Store, id: &ObjectId, size: u64) -> Bytes {
    let range = ByteRange::new(0, size).unwrap();
    let found = match store.read_now(id, range) {
        // The kernel has taken the memory away.
        Found::Cold => store.read(id, range).await,
        found => found,
    };
    let Found::Hit { bytes, .. } = found else { panic!("no hit") };
    assert_eq!(bytes.len() as u64, size);
    bytes
}

fn object() -> ObjectId {
    let last_modified = "Wed, 21 Oct 2015 07:28:00 GMT".into();
    let etag = ETag::new("\"1\"");
    let stamp = Stamp { etag, size: OBJECT_BYTES, last_modified, version_id: None };
    let (bucket, key) = (BucketName::new("bench").unwrap(), ObjectKey::new("o").unwrap());
    ObjectId::new(RuleId(1), bucket, key, stamp)
}

fn read_all(addr: SocketAddr, size: u64) {
    let mut stream = TcpStream::connect(addr).unwrap();
    for _ in 0..ROUND_BYTES / size {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: bench\r\n\r\n").unwrap();
        let mut head = [0; 1024];
        let mut len = 0;
        let end = loop {
            let got = stream.read(&mut head[len..]).unwrap();
            assert!(got > 0, "the server hung up");
            len += got;
            if let Some(at) = head[..len].windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
        };
        discard(&stream, size as usize - (len - end));
    }
}

/// Takes bytes out of the socket without copying them.
fn discard(stream: &TcpStream, mut bytes: usize) {
    while bytes > 0 {
        let flags = libc::MSG_TRUNC;
        // SAFETY: with MSG_TRUNC the kernel writes nothing to the buffer.
        let got = unsafe { libc::recv(stream.as_raw_fd(), std::ptr::null_mut(), bytes, flags) };
        assert!(got > 0, "the server hung up");
        bytes -= got as usize;
    }
}

fn thread_cpu_time() -> Duration {
    // SAFETY: a structure of integers, for which zeros are valid.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one timespec.
    let code = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(code, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
