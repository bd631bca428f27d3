//! What the tests share: segments with known bytes, a hyper server over [`Transport`], clients.

mod checking;
mod clients;
mod relaying;
mod serving;
mod windows;

use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use forebay_rt::{Clock, Rng, SeededRng, SharedClock, SystemClock, timeout};
use futures_util::stream;
use http::{Request, Response, header};
use http_body_util::StreamBody;
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use parking_lot::Mutex;
use tokio::sync::mpsc;

pub(crate) use self::windows::{forget_pages, read_at};
use crate::{
    FileWindow, Keeper, ListenOptions, Proof, Recheck, STALL_LIMIT, Transport, listen, prepare,
};

/// A file with random bytes, mapped, what is in it, and who answers for it.
pub(crate) struct Segment {
    pub(crate) window: Arc<FileWindow>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) keeper: Arc<TestKeeper>,
}

impl Segment {
    pub(crate) fn random(seed: u64, len: usize) -> Self {
        let bytes = random_bytes(seed, len);
        let file = tempfile::tempfile_in(disk_dir()).unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        let keeper = TestKeeper::of(&file);
        Self { window: map_with(file, keeper.clone()), bytes, keeper }
    }
}

/// Vouches for everything, until it is told not to; brings back what it is asked for.
pub(crate) struct TestKeeper {
    file: Arc<File>,
    doubts: AtomicBool,
    finds_flaws: AtomicBool,
    forgets: AtomicBool,
    hangs: AtomicBool,
    asked: Mutex<Vec<Range<u64>>>,
}

impl TestKeeper {
    fn of(file: &File) -> Arc<Self> {
        Arc::new(Self {
            file: Arc::new(file.try_clone().unwrap()),
            doubts: AtomicBool::new(false),
            finds_flaws: AtomicBool::new(false),
            forgets: AtomicBool::new(false),
            hangs: AtomicBool::new(false),
            asked: Mutex::default(),
        })
    }

    /// From now on nothing is vouched for but what has been checked.
    pub(crate) fn doubt(&self) {
        self.doubts.store(true, Ordering::Relaxed);
    }

    /// From now on everything that is checked is found to be wrong.
    pub(crate) fn find_flaws(&self) {
        self.finds_flaws.store(true, Ordering::Relaxed);
    }

    /// From now on what is checked has left memory again by then.
    pub(crate) fn forget(&self) {
        self.forgets.store(true, Ordering::Relaxed);
    }

    /// From now on no check ends.
    pub(crate) fn hang(&self) {
        self.hangs.store(true, Ordering::Relaxed);
    }

    /// What it has been asked to check so far.
    pub(crate) fn asked(&self) -> Vec<Range<u64>> {
        self.asked.lock().clone()
    }
}

impl Keeper for TestKeeper {
    fn vouches(&self, _: &Range<u64>, proof: Option<Proof>) -> bool {
        proof.is_some() || !self.doubts.load(Ordering::Relaxed)
    }

    fn recheck(&self, range: Range<u64>) -> Recheck {
        self.asked.lock().push(range.clone());
        if self.hangs.load(Ordering::Relaxed) {
            return Box::pin(std::future::pending());
        }
        let (file, forgets) = (self.file.clone(), self.forgets.load(Ordering::Relaxed));
        let finds_flaws = self.finds_flaws.load(Ordering::Relaxed);
        let work = move || {
            let mut buffer = vec![0; (range.end - range.start) as usize];
            if !forgets {
                file.read_exact_at(&mut buffer, range.start)?;
            }
            if finds_flaws { Err(ErrorKind::InvalidData.into()) } else { Ok(Proof(7)) }
        };
        Box::pin(async move { forebay_rt::spawn_blocking(work).await.unwrap() })
    }
}

/// Maps the whole of a file that the test never changes where a token reads it.
pub(crate) fn map(file: File) -> Arc<FileWindow> {
    let keeper = TestKeeper::of(&file);
    map_with(file, keeper)
}

#[allow(unsafe_code, reason = "tests, too, have to promise that they leave the file alone")]
fn map_with(file: File, keeper: Arc<TestKeeper>) -> Arc<FileWindow> {
    let len = file.metadata().unwrap().len();
    // SAFETY: tests write their files before they map them. Those that shorten their file
    // send tokens of the missing part through a `Transport`, and read through none.
    unsafe { FileWindow::map(file, len, keeper).unwrap() }
}

/// A directory on a real disk, which the temporary directory of the system may not be.
pub(crate) fn disk_dir() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

pub(crate) fn random_bytes(seed: u64, len: usize) -> Vec<u8> {
    let rng = SeededRng::new(seed);
    let mut bytes: Vec<u8> = std::iter::repeat_with(|| rng.next_u64().to_le_bytes())
        .take(len / 8 + 1)
        .flatten()
        .collect();
    bytes.truncate(len);
    bytes
}

pub(crate) fn clock() -> SharedClock {
    Arc::new(SystemClock)
}

/// Waits for what another task or the kernel will bring about.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        SystemClock.sleep(Duration::from_millis(10)).await;
    }
    panic!("after 10 s still not so: {what}");
}

/// The body of one answer, and whether its length is announced.
pub(crate) struct Answer {
    pub(crate) chunks: Vec<Bytes>,
    pub(crate) sized: bool,
}

impl Answer {
    pub(crate) fn sized(chunks: Vec<Bytes>) -> Self {
        Self { chunks, sized: true }
    }
}

/// A server, and how its connections end.
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    ended: mpsc::Receiver<hyper::Result<()>>,
}

impl Server {
    /// The I/O error that the next connection to end ends with.
    pub(crate) async fn next_error(&mut self) -> ErrorKind {
        let limit = Duration::from_secs(20);
        let ended = timeout(&SystemClock, limit, self.ended.recv()).await;
        let error = ended.expect("a connection ends").unwrap().expect_err("it fails");
        io_kind(&error).unwrap_or_else(|| panic!("not an I/O error: {error:?}"))
    }
}

pub(crate) fn io_kind(error: &hyper::Error) -> Option<ErrorKind> {
    let source = std::error::Error::source(error)?;
    source.downcast_ref::<io::Error>().map(io::Error::kind)
}

pub(crate) fn serve(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Server {
    serve_with_stall_limit(STALL_LIMIT, answer)
}

pub(crate) fn serve_with_stall_limit(
    limit: Duration,
    answer: impl Fn(&str) -> Answer + Send + Sync + 'static,
) -> Server {
    let listening = listen("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
    let addr = listening.listener.local_addr().unwrap();
    let (end, ended) = mpsc::channel(64);
    let answer = Arc::new(answer);
    forebay_rt::spawn(async move {
        loop {
            let (stream, _) = listening.listener.accept().await.unwrap();
            prepare(&stream).unwrap();
            let transport = Transport::with_stall_limit(stream, clock(), limit);
            let (answer, end) = (Arc::clone(&answer), end.clone());
            forebay_rt::spawn(async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    let response = respond(answer(request.uri().path()));
                    async move { Ok::<_, std::convert::Infallible>(response) }
                });
                let result = http1::Builder::new().serve_connection(transport, service).await;
                end.try_send(result).unwrap();
            });
        }
    });
    Server { addr, ended }
}

type Frames = stream::Iter<
    std::iter::Map<
        std::vec::IntoIter<Bytes>,
        fn(Bytes) -> Result<Frame<Bytes>, std::convert::Infallible>,
    >,
>;

fn respond(answer: Answer) -> Response<StreamBody<Frames>> {
    let mut response = Response::builder();
    if answer.sized {
        let len: usize = answer.chunks.iter().map(Bytes::len).sum();
        response = response.header(header::CONTENT_LENGTH, len);
    }
    let frame: fn(Bytes) -> _ = |chunk| Ok(Frame::data(chunk));
    response.body(StreamBody::new(stream::iter(answer.chunks.into_iter().map(frame)))).unwrap()
}
