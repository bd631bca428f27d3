//! A world around the cache: an origin, a store and a memory of versions, all in this process,
//! each counting what it was asked and failing where a test says so.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use forebay_cache::{
    Answer, Cache, CacheConfig, CacheParts, Conditions, Forward, ForwardBody, Found, LocalBlocks,
    NotStored, OpenAsk, OriginBody, OriginFailure, OriginObjects, OriginReply, ReadError, Versions,
};
use forebay_rt::{ManualClock, SeededRng};
use forebay_telemetry::{ReadCtx, RequestId, Tier};
use forebay_types::range::Resolved;
use forebay_types::{
    BucketName, ByteRange, ETag, Freshness, ObjectHead, ObjectId, ObjectKey, ObjectName,
    PAGE_BYTES, RangeAsk, RuleId, Stamp,
};
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

pub const FRAME_BYTES: usize = 24 << 10;

/// What the origin does with the next GET.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// The body breaks off after so many bytes.
    CutAfter(usize),
    /// Another version is written before the GET is answered.
    MoveFirst,
    /// No answer.
    Unavailable,
}

#[derive(Default)]
pub struct FakeOrigin {
    versions: Mutex<HashMap<String, (u64, u64)>>,
    pub heads: AtomicUsize,
    pub gets: Mutex<Vec<ByteRange>>,
    pub faults: Mutex<VecDeque<Fault>>,
    /// When set, every answer waits for a permit.
    pub gate: Mutex<Option<Arc<Semaphore>>>,
}

/// The byte `at` of version `version`: differs between versions at every offset.
pub fn byte(version: u64, at: u64) -> u8 {
    (at.wrapping_mul(31) ^ (at >> 8) ^ version.wrapping_mul(101)) as u8
}

impl FakeOrigin {
    pub fn write(&self, key: &str, version: u64, size: u64) {
        self.versions.lock().insert(key.into(), (version, size));
    }

    fn look(&self, name: &ObjectName) -> Result<(u64, ObjectHead), OriginFailure> {
        let found = self.versions.lock().get(name.key.as_str()).copied();
        let (version, size) = found.ok_or_else(|| {
            OriginFailure::Refused(OriginReply {
                status: 404,
                code: "NoSuchKey".into(),
                message: "The specified key does not exist.".into(),
            })
        })?;
        let stamp = Stamp {
            etag: ETag::new(&format!("\"v{version}\"")),
            size,
            last_modified: "Sun, 06 Nov 1994 08:49:37 GMT".into(),
            version_id: None,
        };
        Ok((version, ObjectHead { stamp, headers: http::HeaderMap::new() }))
    }

    async fn pass_gate(&self) {
        let gate = self.gate.lock().clone();
        if let Some(gate) = gate {
            gate.acquire().await.unwrap().forget();
        }
    }

    pub fn bytes_asked(&self) -> u64 {
        self.gets.lock().iter().map(|range| range.len()).sum()
    }
}

#[async_trait]
impl OriginObjects for FakeOrigin {
    async fn head(&self, _: &ReadCtx, name: &ObjectName) -> Result<ObjectHead, OriginFailure> {
        self.heads.fetch_add(1, Ordering::Relaxed);
        let found = self.look(name);
        self.pass_gate().await;
        Ok(found?.1)
    }

    async fn get(
        &self,
        _: &ReadCtx,
        name: &ObjectName,
        range: ByteRange,
        pin: Option<&Stamp>,
    ) -> Result<OriginBody, OriginFailure> {
        let fault = self.faults.lock().pop_front();
        if let Some(Fault::MoveFirst) = fault {
            let (version, size) = self.versions.lock()[name.key.as_str()];
            self.write(name.key.as_str(), version + 1, size);
        }
        let found = self.look(name);
        self.pass_gate().await;
        if let Some(Fault::Unavailable) = fault {
            return Err(OriginFailure::Unavailable("refused".into()));
        }
        let (version, head) = found?;
        let range = range
            .intersect(ByteRange::new(0, head.stamp.size).ok_or(OriginFailure::Unsatisfiable)?)
            .ok_or(OriginFailure::Unsatisfiable)?;
        if pin.is_some_and(|pin| *pin != head.stamp) {
            return Err(OriginFailure::Moved);
        }
        self.gets.lock().push(range);
        let all: Vec<u8> = (range.start()..range.end()).map(|at| byte(version, at)).collect();
        let sent = match fault {
            Some(Fault::CutAfter(bytes)) => bytes.min(all.len()),
            _ => all.len(),
        };
        let cut = sent < all.len();
        let frames: Vec<_> = all[..sent].chunks(FRAME_BYTES).map(Bytes::copy_from_slice).collect();
        let end = cut.then(|| Err(OriginFailure::Unavailable("cut".into())));
        let frames = stream::iter(frames.into_iter().map(Ok).chain(end)).boxed();
        Ok(OriginBody { head, range, frames })
    }
}

#[async_trait]
impl Forward for FakeOrigin {
    /// PUT writes the next version under the request's path; the gate holds the answer back.
    async fn forward(
        &self,
        _: Option<&BucketName>,
        request: http::Request<ForwardBody>,
    ) -> Result<http::Response<ForwardBody>, OriginFailure> {
        let key = request.uri().path().trim_start_matches('/').to_owned();
        let (version, size) = self.versions.lock().get(&key).copied().unwrap_or((0, 1));
        self.write(&key, version + 1, size);
        let body = Full::new(Bytes::from_static(b"<ok/>")).map_err(|never| match never {});
        Ok(http::Response::new(body.boxed_unsync()))
    }
}

/// Whole pages in memory, and a switch that makes every write fail.
#[derive(Default)]
pub struct FakeStore {
    pages: Mutex<HashMap<(ObjectId, u64), Bytes>>,
    pub refuses: AtomicBool,
    /// Says that everything is stored and gives nothing back.
    pub lies: AtomicBool,
}

impl FakeStore {
    pub fn clear(&self) {
        self.pages.lock().clear();
    }
}

#[async_trait]
impl LocalBlocks for FakeStore {
    fn read_now(&self, id: &ObjectId, range: ByteRange) -> Found {
        if self.lies.load(Ordering::Relaxed) {
            return Found::Miss;
        }
        let page = range.start() / PAGE_BYTES;
        match self.pages.lock().get(&(id.clone(), page)) {
            None => Found::Miss,
            Some(bytes) => {
                let from = (range.start() - page * PAGE_BYTES) as usize;
                let to = bytes.len().min(from + range.len() as usize);
                Found::Hit(bytes.slice(from..to), Tier::Ram)
            }
        }
    }

    async fn read(&self, id: &ObjectId, range: ByteRange) -> Found {
        self.read_now(id, range)
    }

    fn gap(&self, id: &ObjectId, range: ByteRange) -> Option<ByteRange> {
        if self.lies.load(Ordering::Relaxed) {
            return None;
        }
        let pages = self.pages.lock();
        let has = |page: u64| pages.contains_key(&(id.clone(), page));
        let all = range.start() / PAGE_BYTES..range.end().div_ceil(PAGE_BYTES);
        let first = all.clone().find(|page| !has(*page))?;
        let end = (first..all.end).find(|page| has(*page)).unwrap_or(all.end);
        ByteRange::new(first * PAGE_BYTES, end * PAGE_BYTES)?.intersect(range)
    }

    async fn store(
        &self,
        id: &ObjectId,
        range: ByteRange,
        frames: Vec<Bytes>,
    ) -> Result<(), NotStored> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(NotStored);
        }
        let all = Bytes::from(frames.concat());
        assert_eq!(all.len() as u64, range.len(), "frames are exactly the range");
        assert_eq!(range.start() % PAGE_BYTES, 0, "fills begin at a page");
        let mut pages = self.pages.lock();
        for (index, page) in all.chunks(PAGE_BYTES as usize).enumerate() {
            let number = range.start() / PAGE_BYTES + index as u64;
            pages.insert((id.clone(), number), Bytes::copy_from_slice(page));
        }
        Ok(())
    }

    fn cool(&self, _: &ObjectId) {}
}

#[derive(Default)]
pub struct FakeVersions(Mutex<HashMap<ObjectName, ObjectHead>>);

#[async_trait]
impl Versions for FakeVersions {
    async fn recall(&self, name: &ObjectName) -> Option<ObjectHead> {
        self.0.lock().get(name).cloned()
    }

    async fn remember(&self, name: &ObjectName, head: &ObjectHead) {
        self.0.lock().insert(name.clone(), head.clone());
    }

    async fn forget(&self, name: &ObjectName) {
        self.0.lock().remove(name);
    }
}

/// The cache and everything around it.
pub struct World {
    pub cache: Arc<Cache>,
    pub origin: Arc<FakeOrigin>,
    pub store: Arc<FakeStore>,
    pub versions: Arc<FakeVersions>,
    pub clock: ManualClock,
}

impl World {
    pub fn new() -> Self {
        Self::with(CacheConfig::default())
    }

    pub fn with(config: CacheConfig) -> Self {
        let (origin, store): (Arc<FakeOrigin>, Arc<FakeStore>) = Default::default();
        Self::around(origin, store, Arc::default(), config)
    }

    /// The same disks and the same origin behind a new process.
    pub fn restarted(&self) -> Self {
        let (origin, store) = (self.origin.clone(), self.store.clone());
        Self::around(origin, store, self.versions.clone(), CacheConfig::default())
    }

    fn around(
        origin: Arc<FakeOrigin>,
        store: Arc<FakeStore>,
        versions: Arc<FakeVersions>,
        config: CacheConfig,
    ) -> Self {
        let clock = ManualClock::new();
        let cache = Cache::new(CacheParts {
            local: store.clone(),
            versions: versions.clone(),
            origin: origin.clone(),
            forward: origin.clone(),
            clock: Arc::new(clock.clone()),
            rng: Arc::new(SeededRng::new(1)),
            config,
        });
        Self { cache, origin, store, versions, clock }
    }

    /// Reads and checks every byte; returns the version that the bytes are of.
    pub async fn read(&self, ask: OpenAsk) -> Result<u64, ReadError> {
        let asked = ask.range;
        let opened = self.cache.open(&ctx(), ask).await?;
        let tag = opened.head.stamp.etag.opaque();
        let version: u64 = tag[1..].parse().expect("a version of this origin");
        let (Answer::Whole(reader) | Answer::Part { reader, .. }) = opened.answer else {
            panic!("no body in {:?}", opened.answer)
        };
        let range = match asked.resolve(opened.head.stamp.size) {
            Resolved::Whole(range) => range,
            Resolved::Part(range) => Some(range),
            Resolved::Unsatisfiable => panic!("not satisfiable"),
        };
        let mut at = range.map_or(0, ByteRange::start);
        let Some(mut reader) = reader else { return Ok(version) };
        while let Some(chunk) = reader.next().await {
            for got in chunk? {
                assert_eq!(got, byte(version, at), "byte {at} of version {version}");
                at += 1;
            }
        }
        assert_eq!(Some(at), range.map(ByteRange::end), "every byte, and no more");
        Ok(version)
    }

    pub async fn put(&self, key: &str) {
        let body = Full::new(Bytes::new()).map_err(|never| match never {}).boxed_unsync();
        let request = http::Request::put(format!("/{key}")).body(body).unwrap();
        let answer = self.cache.forward(&ctx(), None, request, vec![name(key)]).await.unwrap();
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "<ok/>");
    }

    /// Moves time on until `future` is done: for what sleeps between tries.
    pub async fn in_time<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = std::pin::pin!(future);
        loop {
            tokio::select! {
                done = &mut future => return done,
                () = tokio::task::yield_now() => self.clock.advance(Duration::from_millis(5)),
            }
        }
    }
}

pub fn name(key: &str) -> ObjectName {
    ObjectName {
        rule: RuleId(1),
        bucket: BucketName::new("b").unwrap(),
        key: ObjectKey::new(key).unwrap(),
        version_id: None,
    }
}

pub fn ctx() -> ReadCtx {
    ReadCtx { request: RequestId(1), bucket_label: "b".into() }
}

pub fn ask(key: &str, freshness: Freshness, range: RangeAsk) -> OpenAsk {
    let conditions = Conditions::default();
    OpenAsk { name: name(key), freshness, range, conditions, revalidate: false, body: true }
}
