//! A server that plays a worker or the origin: objects, a ring, and faults on request.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_rt::{Clock, SystemClock, Task, spawn};
use forebay_types::range::Resolved;
use forebay_types::{ByteRange, RangeAsk};
use futures_util::{Stream, StreamExt, stream};
use http::header::{
    CONTENT_LENGTH, CONTENT_RANGE, ETAG, IF_MATCH, IF_NONE_MATCH, LAST_MODIFIED, RANGE,
};
use http::{HeaderName, Method, Request, Response, StatusCode, Uri};
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use xxhash_rust::xxh3::xxh3_64;

const PIECE_BYTES: usize = 64 << 10;

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A version of an object.
#[derive(Debug, Clone)]
pub struct Version {
    pub etag: String,
    pub last_modified: String,
    pub bytes: Bytes,
}

impl Version {
    /// Bytes that those of another `seed` differ from in every word.
    pub fn new(seed: u64, len: u64) -> Self {
        let word = |at: u64| (at ^ (seed << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        let bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(word).take(len as usize).collect();
        Self {
            etag: format!("\"etag-{seed}\""),
            last_modified: "Wed, 01 Jan 2025 00:00:00 GMT".into(),
            bytes: bytes.into(),
        }
    }
}

/// What goes wrong with one request for an object.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// The body ends, and with it the connection, after so many bytes.
    CutAfter(usize),
    /// So many bytes of the body, and then nothing, ever.
    StallAfter(usize),
    /// An error answer.
    Status(StatusCode),
}

/// Which requests wait for their answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    Nothing,
    /// Those with `If-Match`, once they are seen.
    Pinned,
    /// All, unseen: the process is stopped, and the kernel still takes connections.
    All,
}

/// A request for an object as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub method: Method,
    pub path: String,
    pub range: Option<String>,
    pub if_match: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    objects: HashMap<String, Version>,
    ring: Option<String>,
    ignores_if_match: bool,
    faults: VecDeque<Fault>,
    seen: Vec<Seen>,
    ring_asked: Vec<Option<String>>,
}

/// A server on loopback that runs until it is stopped or dropped.
pub struct Fake {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
    held: watch::Sender<Held>,
    listening: Option<Task<()>>,
}

impl Fake {
    pub async fn start() -> Self {
        let mut fake = Self {
            address: ([127, 0, 0, 1], 0).into(),
            state: Arc::default(),
            held: watch::Sender::new(Held::Nothing),
            listening: None,
        };
        fake.listen().await;
        fake
    }

    /// Listens, again after a stop at the same address.
    pub async fn listen(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.address = listener.local_addr().unwrap();
        let (state, held) = (Arc::clone(&self.state), self.held.subscribe());
        self.listening = Some(spawn(accept(listener, state, held)));
    }

    /// Ends listening and all connections, as a killed process does.
    pub async fn stop(&mut self) {
        if let Some(listening) = self.listening.take() {
            listening.abort();
            // The error is that it was aborted.
            let _ = listening.await;
        }
    }

    pub fn uri(&self) -> Uri {
        format!("http://{}", self.address).parse().unwrap()
    }

    pub fn put(&self, path: &str, version: &Version) {
        self.state.lock().objects.insert(path.into(), version.clone());
    }

    /// Tells this ring from now on.
    pub fn tell(&self, ring: &str) {
        self.state.lock().ring = Some(ring.into());
    }

    /// What goes wrong with the next request for an object.
    pub fn fault(&self, fault: Fault) {
        self.state.lock().faults.push_back(fault);
    }

    /// Answers with whatever it has, as some origins do.
    pub fn ignore_if_match(&self, ignore: bool) {
        self.state.lock().ignores_if_match = ignore;
    }

    /// Lets requests wait until something else is said.
    pub fn hold(&self, held: Held) {
        self.held.send_replace(held);
    }

    /// Requests for objects since the last look.
    pub fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state.lock().seen)
    }

    /// How many requests for objects came since the last look.
    pub fn count_seen(&self) -> usize {
        self.state.lock().seen.len()
    }

    /// `If-None-Match` of each request for the ring.
    pub fn ring_asked(&self) -> Vec<Option<String>> {
        self.state.lock().ring_asked.clone()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.abort();
        }
    }
}

/// The answer to `GET /-/ring`: these workers, of equal weight, with ids from 1, and one rule
/// for all buckets.
pub fn ring(revision: u64, workers: &[&Fake]) -> String {
    let member = |(id, fake): (u64, &&Fake)| {
        format!(r#"{{"id":"{id:016x}","weight":100,"s3":"{}"}}"#, fake.address)
    };
    let members: Vec<_> = (1..).zip(workers).map(member).collect();
    let buckets = r#"[{"name":"*","rule":"0123456789abcdef"}]"#;
    format!(
        r#"{{"epoch":1,"revision":{revision},"virtual_nodes":500,"seed":0,"members":[{}],"buckets":{buckets}}}"#,
        members.join(",")
    )
}

/// Connections end with the task that accepts them.
async fn accept(listener: TcpListener, state: Arc<Mutex<State>>, held: watch::Receiver<Held>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (state, held) = (Arc::clone(&state), held.clone());
        connections.spawn(async move {
            let service = service_fn(|request| answer(&state, held.clone(), request));
            // Faults break connections on purpose.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    state: &Mutex<State>,
    mut held: watch::Receiver<Held>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let header = |name: HeaderName| {
        request.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
    };
    // Errors of waiting say that the fake is gone.
    let _ = held.wait_for(|held| *held != Held::All).await;
    let path = request.uri().path();
    if path == "/-/ring" {
        return Ok(tell(&mut state.lock(), header(IF_NONE_MATCH)));
    }
    let method = request.method().clone();
    let (path, range, if_match) = (path.to_owned(), header(RANGE), header(IF_MATCH));
    let seen = Seen { method, path, range, if_match };
    let fault = {
        let mut state = state.lock();
        state.seen.push(seen.clone());
        state.faults.pop_front()
    };
    if seen.if_match.is_some() {
        let _ = held.wait_for(|held| *held == Held::Nothing).await;
    }
    let (head, bytes) = object(&state.lock(), &seen).into_parts();
    let body = match fault {
        None => whole(&bytes),
        Some(Fault::Status(status)) => return Ok(error(status, "Fault").map(|xml| whole(&xml))),
        Some(Fault::CutAfter(at)) => body(&bytes.slice(..at), stream::once(cut())),
        Some(Fault::StallAfter(at)) => body(&bytes.slice(..at), stream::pending()),
    };
    Ok(Response::from_parts(head, body))
}

/// Breaks the connection when what went before has left: hyper drops what is still buffered.
async fn cut() -> io::Result<Bytes> {
    SystemClock.sleep(Duration::from_millis(20)).await;
    Err(io::Error::other("cut"))
}

fn tell(state: &mut State, if_none_match: Option<String>) -> Response<Body> {
    let Some(ring) = state.ring.clone() else {
        return error(StatusCode::FORBIDDEN, "AccessDenied").map(|xml| whole(&xml));
    };
    let etag = format!("\"{:x}\"", xxh3_64(ring.as_bytes()));
    let is_known = if_none_match.as_ref() == Some(&etag);
    state.ring_asked.push(if_none_match);
    let (status, bytes) = if is_known { (304, Bytes::new()) } else { (200, ring.into()) };
    Response::builder().status(status).header(ETAG, etag).body(whole(&bytes)).unwrap()
}

/// The right answer, as S3 gives it.
fn object(state: &State, seen: &Seen) -> Response<Bytes> {
    let Some(version) = state.objects.get(&seen.path) else {
        return error(StatusCode::NOT_FOUND, "NoSuchKey");
    };
    let is_other = seen.if_match.as_ref().is_some_and(|etag| *etag != version.etag);
    if is_other && !state.ignores_if_match {
        return error(StatusCode::PRECONDITION_FAILED, "PreconditionFailed");
    }
    let size = version.bytes.len() as u64;
    let response = Response::builder()
        .header(ETAG, &version.etag)
        .header(LAST_MODIFIED, &version.last_modified)
        .header("x-amz-meta-colour", "blue");
    let asked = seen.range.as_deref().map_or(RangeAsk::Whole, parse_range);
    let (response, range) = match asked.resolve(size) {
        Resolved::Unsatisfiable => {
            return error(StatusCode::RANGE_NOT_SATISFIABLE, "InvalidRange");
        }
        Resolved::Whole(range) => (response, range),
        Resolved::Part(range) => {
            (response.status(206).header(CONTENT_RANGE, range.to_content_range(size)), Some(range))
        }
    };
    let slice =
        |range: ByteRange| version.bytes.slice(range.start() as usize..range.end() as usize);
    let bytes = range.map(slice).unwrap_or_default();
    let response = response.header(CONTENT_LENGTH, bytes.len());
    response.body(if seen.method == Method::HEAD { Bytes::new() } else { bytes }).unwrap()
}

fn parse_range(header: &str) -> RangeAsk {
    let (first, last) = header.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) => RangeAsk::FromTo { first, last },
        (Ok(first), Err(_)) => RangeAsk::From { first },
        (Err(_), Ok(len)) => RangeAsk::Suffix { len },
        (Err(_), Err(_)) => panic!("{header}"),
    }
}

fn error(status: StatusCode, code: &str) -> Response<Bytes> {
    let xml = format!("<Error><Code>{code}</Code></Error>");
    Response::builder().status(status).body(xml.into()).unwrap()
}

fn whole(bytes: &Bytes) -> Body {
    body(bytes, stream::empty())
}

/// The bytes in pieces, and then what `end` says.
fn body(bytes: &Bytes, end: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Body {
    let pieces: Vec<_> =
        bytes.chunks(PIECE_BYTES).map(|piece| Ok(bytes.slice_ref(piece))).collect();
    let frames = stream::iter(pieces).chain(end).map(|piece| piece.map(Frame::data));
    UnsyncBoxBody::new(StreamBody::new(frames))
}
