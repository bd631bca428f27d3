//! A worker on loopback that answers as its keys say, and another one that asks it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use forebay_rt::{Clock, Rng, SeededRng, Shutdown, SystemClock, SystemRng, Task, spawn};
use forebay_telemetry::Exporter;
use forebay_types::{
    BucketName, ByteRange, ETag, Epoch, Freshness, ObjectHead, ObjectKey, ObjectName, RangeAsk,
    RingSpec, RuleId, Stamp, View, WorkerId, WorkerInfo, WorkerState,
};
use forebay_wire::ClusterSecret;
use forebay_wire::peer::{
    Failure, ForgetAnswer, ForgetAsk, OpenAnswer, OpenAsk, PeekAnswer, PeekAsk, ReadAnswer,
    ReadAsk, RecallAnswer, RecallAsk, Vouching, WarmAsk,
};
use forebay_zerocopy::{FileWindow, ListenOptions, listen};
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    EpochNews, Frames, OpenReply, OwnerService, PeekReply, PeerBody, PeerError, PeerLimits, Peers,
    PeersConfig, ReadReply, ServerConfig, ServerLimits, ShelfService, serve,
};

/// The one that is asked.
pub(super) const OWNER: WorkerId = WorkerId(7);

/// Bytes of every object: one block.
pub(super) const SIZE: u64 = 8 << 20;

/// What every object holds.
pub(super) static CONTENT: LazyLock<Bytes> = LazyLock::new(|| {
    let rng = SeededRng::new(1);
    (0..SIZE / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect::<Vec<u8>>().into()
});

static FILE: LazyLock<Arc<FileWindow>> = LazyLock::new(|| FileWindow::sealed(&CONTENT).unwrap());

static METRICS: LazyLock<Exporter> = LazyLock::new(|| Exporter::install().unwrap());

/// The present value of a series, given as its line begins; all tests of a process share it.
pub(super) fn metric(series: &str) -> f64 {
    let page = METRICS.render();
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().unwrap())
}

pub(super) fn secret(text: &str) -> ClusterSecret {
    ClusterSecret::from_text(&text.repeat(40)).unwrap()
}

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) async fn pause(millis: u64) {
    SystemClock.sleep(ms(millis)).await;
}

/// Waits for what another task or the kernel will bring about.
pub(super) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        pause(10).await;
    }
    panic!("after 5 s still not so: {what}");
}

/// A worker that serves its data port.
pub(super) struct Owner {
    pub(super) addr: SocketAddr,
    pub(super) stub: Arc<Stub>,
    pub(super) shutdown: Shutdown,
    pub(super) serving: Task<()>,
}

impl Owner {
    pub(super) fn start() -> Self {
        Self::with(ServerLimits::default())
    }

    pub(super) fn with(limits: ServerLimits) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), limits)
    }

    pub(super) fn at(addr: SocketAddr, limits: ServerLimits) -> Self {
        LazyLock::force(&METRICS);
        let listener = listen(addr, &ListenOptions::default()).unwrap().listener;
        let addr = listener.local_addr().unwrap();
        let (stub, shutdown) = (Arc::new(Stub::default()), Shutdown::new());
        let (clock, rng) = (Arc::new(SystemClock), Arc::new(SystemRng));
        let config = ServerConfig { secret: secret("s"), limits, clock, rng };
        let serving = serve(listener, config, stub.clone(), stub.clone(), shutdown.clone());
        Self { addr, stub, shutdown, serving: spawn(serving) }
    }

    /// Connections that it has admitted and not closed.
    pub(super) fn connections(&self) -> usize {
        self.shutdown.in_flight()
    }
}

/// A worker that asks.
pub(super) struct Asker {
    pub(super) peers: Peers,
    pub(super) news: EpochNews,
    pub(super) views: watch::Sender<Arc<View>>,
}

impl Asker {
    pub(super) fn of(addr: SocketAddr) -> Self {
        Self::with(addr, PeerLimits::default())
    }

    pub(super) fn with(addr: SocketAddr, limits: PeerLimits) -> Self {
        Self::holding("s", addr, limits)
    }

    pub(super) fn holding(text: &str, addr: SocketAddr, limits: PeerLimits) -> Self {
        LazyLock::force(&METRICS);
        let views = watch::Sender::new(view(1, addr));
        let (peers, news) = Peers::new(PeersConfig {
            secret: secret(text),
            limits,
            clock: Arc::new(SystemClock),
            rng: Arc::new(SystemRng),
            views: views.subscribe(),
        });
        Self { peers, news, views }
    }

    pub(super) async fn read(&self, key: &str, range: ByteRange) -> Result<PeerBody, PeerError> {
        Ok(self.peers.read(OWNER, read_ask(key, range)).await?.1)
    }

    /// Reads to the end; whatever comes has to be what belongs there.
    pub(super) async fn read_all(&self, key: &str, range: ByteRange) -> Result<u64, PeerError> {
        drain(self.read(key, range).await?, range).await
    }
}

/// Reads to the end, and compares.
pub(super) async fn drain(mut body: PeerBody, range: ByteRange) -> Result<u64, PeerError> {
    let mut at = range.start() as usize;
    while let Some(bytes) = body.next().await {
        let bytes = bytes?;
        assert!(bytes == CONTENT[at..at + bytes.len()], "other bytes at {at}");
        at += bytes.len();
    }
    assert_eq!(at as u64, range.end(), "a body that ends well is complete");
    Ok(range.len())
}

pub(super) fn range(start: u64, end: u64) -> ByteRange {
    ByteRange::new(start, end).unwrap()
}

pub(super) fn whole() -> ByteRange {
    range(0, SIZE)
}

pub(super) fn name(key: &str) -> ObjectName {
    let (bucket, key) = (BucketName::new("b").unwrap(), ObjectKey::new(key).unwrap());
    ObjectName { rule: RuleId(1), bucket, key, version_id: None }
}

pub(super) fn head() -> ObjectHead {
    let mut headers = HeaderMap::new();
    headers.insert("etag", HeaderValue::from_static("\"tag\""));
    headers.insert("content-type", HeaderValue::from_static("application/x-tar"));
    let last_modified = "Sun, 06 Nov 1994 08:49:37 GMT".into();
    let stamp = Stamp { etag: ETag::new("\"tag\""), size: SIZE, last_modified, version_id: None };
    ObjectHead { stamp, headers }
}

pub(super) fn read_ask(key: &str, range: ByteRange) -> ReadAsk {
    ReadAsk { epoch: Epoch(1), name: name(key), stamp: head().stamp, range }
}

pub(super) fn open_ask(key: &str, range: Option<RangeAsk>) -> OpenAsk {
    let (epoch, freshness) = (Epoch(1), Freshness::default());
    OpenAsk { epoch, name: name(key), freshness, anew: false, range }
}

pub(super) fn warm_ask(key: &str) -> WarmAsk {
    WarmAsk { epoch: Epoch(1), name: name(key), stamp: head().stamp, range: whole(), wait: false }
}

pub(super) fn view(epoch: u64, addr: SocketAddr) -> Arc<View> {
    let owner = WorkerInfo {
        id: OWNER,
        state: WorkerState::Active,
        data_addr: addr.to_string(),
        s3_addr: String::new(),
        zone: String::new(),
        capacity_bytes: 1,
    };
    let ring = RingSpec { epoch: Epoch(epoch), ..RingSpec::default() };
    Arc::new(View { revision: epoch, ring, workers: vec![owner], ..View::default() })
}

/// What the owner does, by key: `mem` and `file` are where the bytes are, all others what goes
/// wrong with them.
pub(super) struct Stub {
    pub(super) epoch: Mutex<u64>,
    pub(super) asked: AtomicUsize,
    pub(super) warmed: Mutex<Vec<WarmAsk>>,
    at_once: AtomicUsize,
    pub(super) most_at_once: AtomicUsize,
}

impl Default for Stub {
    fn default() -> Self {
        Self {
            epoch: Mutex::new(1),
            asked: AtomicUsize::new(0),
            warmed: Mutex::default(),
            at_once: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
        }
    }
}

impl Stub {
    fn epoch(&self) -> Epoch {
        Epoch(*self.epoch.lock())
    }

    async fn bytes(&self, name: &ObjectName, range: ByteRange) -> Result<Frames, Failure> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let at_once = self.at_once.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_at_once.fetch_max(at_once, Ordering::Relaxed);
        let key = name.key.as_str();
        let frames = match key.split_once('-') {
            Some(("wait", millis)) => {
                pause(millis.parse().unwrap()).await;
                Ok(frames_of("mem", range))
            }
            _ if key == "moved" => Err(Failure::Moved),
            _ if key == "panic" => panic!("as the key says"),
            _ => Ok(frames_of(key, range)),
        };
        self.at_once.fetch_sub(1, Ordering::Relaxed);
        frames
    }
}

fn frames_of(key: &str, range: ByteRange) -> Frames {
    let (start, end) = (range.start() as usize, range.end() as usize);
    let (first, middle) = (start + (end - start) / 3, start + (end - start) / 2);
    let piece = |from: usize, to: usize| Ok(CONTENT.slice(from..to));
    let broken = || Err(std::io::Error::other("as the key says"));
    match key {
        "file" => {
            let token = |from, to| Ok(FILE.token(from as u64..to as u64, ()));
            stream::iter([token(start, first), token(first, end)]).boxed()
        }
        "cut" => stream::iter([piece(start, middle), broken()]).boxed(),
        "short" => stream::iter([piece(start, middle)]).boxed(),
        "long" => stream::iter([piece(start, middle), piece(start, end)]).boxed(),
        "rest" => {
            let late = async move {
                pause(2000).await;
                piece(middle, end)
            };
            stream::iter([piece(start, middle)]).chain(stream::once(late)).boxed()
        }
        _ => stream::iter([piece(start, first), piece(first, first), piece(first, end)]).boxed(),
    }
}

#[async_trait]
impl OwnerService for Stub {
    async fn open(&self, ask: OpenAsk) -> Result<OpenReply, Failure> {
        let wanted = ask.range.and_then(|range| match range {
            RangeAsk::FromTo { first, last } => ByteRange::new(first, last + 1),
            _ => Some(whole()),
        });
        let frames = match wanted {
            Some(range) => Some(self.bytes(&ask.name, range).await?),
            None => None,
        };
        let (epoch, age) = (self.epoch(), Some(ms(1500)));
        let answer =
            OpenAnswer { epoch, head: head(), asked: false, age, range: wanted, hit: true };
        Ok(OpenReply { answer, frames })
    }

    async fn read(&self, ask: ReadAsk) -> Result<ReadReply, Failure> {
        let frames = self.bytes(&ask.name, ask.range).await?;
        Ok(ReadReply { answer: ReadAnswer { epoch: self.epoch(), hit: true }, frames })
    }

    async fn warm(&self, ask: WarmAsk) -> Result<(), Failure> {
        if let Some(("wait", millis)) = ask.name.key.as_str().split_once('-') {
            pause(millis.parse().unwrap()).await;
        }
        self.warmed.lock().push(ask);
        Ok(())
    }

    async fn forget(&self, ask: ForgetAsk) -> ForgetAnswer {
        let vouching = |name: &ObjectName| match name.key.as_str() {
            "soon" => Vouching::NotYet(ms(1500)),
            _ => Vouching::Yes,
        };
        let vouching = ask.names.iter().map(vouching).collect();
        ForgetAnswer { epoch: self.epoch(), vouching }
    }

    fn view(&self) -> Arc<View> {
        view(*self.epoch.lock(), "127.0.0.1:1".parse().unwrap())
    }
}

#[async_trait]
impl ShelfService for Stub {
    async fn recall(&self, ask: RecallAsk) -> RecallAnswer {
        let remembered = ask.name.key.as_str() == "remembered";
        RecallAnswer { head: remembered.then(head) }
    }

    async fn peek(&self, ask: PeekAsk) -> PeekReply {
        let range = match ask.name.key.as_str() {
            "half" => ByteRange::new(ask.range.start(), ask.range.end() / 2),
            _ => None,
        };
        let frames = range.map(|range| frames_of("file", range));
        PeekReply { answer: PeekAnswer { range }, frames }
    }
}
