//! A client that takes a chunk slowly gets the right bytes of it, or is cut, whatever happens to
//! the page cache and the disk meanwhile.
#![allow(clippy::unwrap_used, reason = "what tests are made of")]

mod support;

use std::convert::Infallible;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;
use std::time::Duration;

use forebay_rt::{Clock, SystemClock, spawn, spawn_blocking};
use forebay_store::{Found, Store};
use forebay_types::ObjectId;
use forebay_zerocopy::{ListenOptions, Transport, listen, prepare};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use socket2::{Domain, SockRef, Socket, Type};
use support::*;

/// One extent, one chunk.
const SIZE: u64 = 4 * MIB;
/// What a client takes before it pauses.
const FIRST: usize = MIB as usize;
/// From here on nothing is on its way to a client that has taken `FIRST` bytes.
const UNSENT: u64 = 2 * MIB;
const BUFFER_BYTES: usize = 64 << 10;
/// Longer than a look at the page cache is good for.
const PAUSE: Duration = Duration::from_millis(50);

/// A store with one object in it, behind a server.
struct World {
    dir: tempfile::TempDir,
    store: Arc<Store>,
    id: ObjectId,
    addr: SocketAddr,
    /// The object's segment.
    file: File,
    data_at: u64,
}

impl World {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = open(config(&[dir.path()], 512 * MIB)).await;
        let id = object("slow", SIZE);
        put(&store, &id, whole(&id)).await.unwrap();
        let (path, data_at) = find(dir.path(), &content(&id, range(0, 4096)));
        let mut direct = OpenOptions::new();
        let file = direct.read(true).write(true).custom_flags(libc::O_DIRECT).open(path).unwrap();
        let addr = serve(Arc::clone(&store), id.clone());
        Self { dir, store, id, addr, file, data_at }
    }

    /// A client that has taken the first bytes and waits.
    async fn client(&self) -> Client {
        let (addr, expected) = (self.addr, content(&self.id, whole(&self.id)));
        let client = spawn_blocking(move || Client::new(addr, expected)).await.unwrap();
        SystemClock.sleep(PAUSE).await;
        client
    }

    /// The kernel needs the memory of what has not been sent yet.
    fn drop_pages(&self) {
        forget_pages(&self.file);
        self.assert_cold();
    }

    fn assert_cold(&self) {
        let unsent = self.data_at + UNSENT..self.data_at + SIZE;
        assert!(!any_resident(&self.file, unsent), "still in the page cache");
    }

    /// Changes 4 KiB of the object on the disk, and not in the page cache.
    fn damage(&self, at: u64) {
        let memory = vec![0xee; 8192];
        let start = memory.as_ptr().align_offset(4096);
        self.file.write_all_at(&memory[start..start + 4096], self.data_at + at).unwrap();
    }

    fn is_dropped(&self) -> bool {
        matches!(self.store.read_now(&self.id, whole(&self.id)), Found::Miss)
    }

    /// Stores others until the object's segment is gone.
    async fn evict(&self) {
        let file = segment_files(self.dir.path()).remove(0);
        for i in 0.. {
            if !file.exists() {
                return;
            }
            assert!(i < 1000, "never evicted");
            let id = object(&format!("o{i}"), SIZE);
            let _ = put(&self.store, &id, whole(&id)).await;
        }
    }
}

fn serve(store: Arc<Store>, id: ObjectId) -> SocketAddr {
    let listening = listen("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
    let addr = listening.listener.local_addr().unwrap();
    spawn(async move {
        loop {
            let (stream, _) = listening.listener.accept().await.unwrap();
            prepare(&stream).unwrap();
            SockRef::from(&stream).set_send_buffer_size(BUFFER_BYTES).unwrap();
            let transport = Transport::new(stream, Arc::new(SystemClock));
            let (store, id) = (Arc::clone(&store), id.clone());
            let service = service_fn(move |_: Request<Incoming>| {
                let (store, id) = (Arc::clone(&store), id.clone());
                async move {
                    let found = store.read(&id, whole(&id)).await;
                    let Found::Hit { bytes, .. } = found else { panic!("{found:?}") };
                    assert_eq!(bytes.len() as u64, SIZE, "one chunk");
                    Ok::<_, Infallible>(Response::new(Full::new(bytes)))
                }
            });
            spawn(http1::Builder::new().serve_connection(transport, service));
        }
    });
    addr
}

/// Reads at its own pace and compares every byte.
struct Client {
    stream: TcpStream,
    expected: Vec<u8>,
    taken: usize,
}

impl Client {
    fn new(addr: SocketAddr, expected: Vec<u8>) -> Self {
        let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(BUFFER_BYTES).unwrap();
        socket.connect(&addr.into()).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let mut client = Self { stream, expected, taken: 0 };
        assert_eq!(client.take(FIRST), FIRST);
        client
    }

    /// Takes the rest; returns how many bytes there were in all, each of them right.
    async fn finish(mut self) -> u64 {
        let rest = self.expected.len() - self.taken;
        spawn_blocking(move || self.take(rest)).await.unwrap() as u64
    }

    /// Takes up to `most` more bytes; returns how many it has by then.
    fn take(&mut self, most: usize) -> usize {
        let mut bytes = vec![0; most];
        let mut got = 0;
        while got < most {
            match self.stream.read(&mut bytes[got..]) {
                Ok(more) if more > 0 => got += more,
                Ok(_) => break,
                Err(error) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
                    break;
                }
            }
        }
        assert!(bytes[..got] == self.expected[self.taken..][..got], "wrong bytes");
        self.taken += got;
        self.taken
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_whose_pages_left_memory_is_read_again_and_arrives() {
    let world = World::new().await;
    let client = world.client().await;
    world.drop_pages();
    assert_eq!(client.finish().await, SIZE);
    assert!(!world.is_dropped());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_that_went_bad_on_the_disk_is_cut_before_the_first_wrong_byte() {
    for at in [UNSENT, 3 * MIB + 100 * KIB, SIZE - 4096] {
        let world = World::new().await;
        let client = world.client().await;
        world.drop_pages();
        world.damage(at / 4096 * 4096);
        world.assert_cold();
        let taken = client.finish().await;
        assert!(FIRST as u64 <= taken && taken <= at, "{taken} bytes with a flaw at {at}");
        until(|| world.is_dropped()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_that_another_reader_found_bad_is_not_sent_from_memory() {
    let world = World::new().await;
    let client = world.client().await;
    world.drop_pages();
    world.damage(3 * MIB);
    world.assert_cold();
    assert!(matches!(world.store.read(&world.id, whole(&world.id)).await, Found::Miss));
    // Pages that failed their check can stay in memory: where the kernel has them in use.
    let path = segment_files(world.dir.path()).remove(0);
    let mut all = vec![0; SIZE as usize];
    File::open(path).unwrap().read_exact_at(&mut all, world.data_at).unwrap();
    let taken = client.finish().await;
    assert!(FIRST as u64 <= taken && taken <= 3 * MIB, "{taken} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_of_an_evicted_segment_is_checked_like_any_other() {
    for damaged in [false, true] {
        let world = World::new().await;
        let client = world.client().await;
        world.evict().await;
        world.drop_pages();
        if damaged {
            world.damage(3 * MIB);
            world.assert_cold();
        }
        let taken = client.finish().await;
        assert!(if damaged { taken <= 3 * MIB } else { taken == SIZE }, "{taken} bytes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_slow_clients_of_one_chunk_all_get_it() {
    let world = World::new().await;
    let mut clients = Vec::new();
    for _ in 0..40 {
        clients.push(world.client().await);
    }
    world.drop_pages();
    let finishing: Vec<_> = clients.into_iter().map(|client| spawn(client.finish())).collect();
    for finished in finishing {
        assert_eq!(finished.await.unwrap(), SIZE);
    }
}
