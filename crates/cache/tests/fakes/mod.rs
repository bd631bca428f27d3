//! A world around the cache: an origin, a store and a memory of versions, all in this process,
//! each counting what it was asked and failing where a test says so.

#![allow(dead_code, reason = "each test target uses its own share")]

pub mod cluster;
pub mod disk;
pub mod pattern;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use forebay_cache::{
    Alone, Answer, Cache, CacheConfig, CacheParts, Conditions, Forward, ForwardBody, OpenAsk,
    OriginBody, OriginFailure, OriginObjects, OriginReply, ReadError,
};
use forebay_rt::{Clock, ManualClock, SeededRng};
use forebay_telemetry::{ReadCtx, RequestId};
use forebay_types::range::Resolved;
use forebay_types::{
    BucketName, ByteRange, ETag, Freshness, ObjectHead, ObjectKey, ObjectName, RangeAsk, RuleId,
    Stamp,
};
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use disk::{FakeStore, FakeVersions};
use pattern::{frames, is_of};

/// What the origin does with the next GET.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// The body breaks off after so many bytes.
    CutAfter(u64),
    /// Another version is written before the GET is answered.
    MoveFirst,
    /// No answer.
    Unavailable,
    /// The present version is sent, whichever was asked for.
    IgnorePin,
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

impl FakeOrigin {
    pub fn write(&self, key: &str, version: u64, size: u64) {
        self.versions.lock().insert(key.into(), (version, size));
    }

    fn look(&self, name: &ObjectName) -> Result<(u64, ObjectHead), OriginFailure> {
        let found = self.versions.lock().get(name.key.as_str()).copied();
        let (version, size) = found.ok_or_else(no_such_key)?;
        Ok((version, head_of(version, size)))
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
        let ignores_pin = matches!(fault, Some(Fault::IgnorePin));
        if pin.is_some_and(|pin| *pin != head.stamp) && !ignores_pin {
            return Err(OriginFailure::Moved);
        }
        self.gets.lock().push(range);
        let sent_end = match fault {
            Some(Fault::CutAfter(bytes)) => range.end().min(range.start() + bytes),
            _ => range.end(),
        };
        let sent = ByteRange::new(range.start(), sent_end);
        let frames = sent.into_iter().flat_map(move |sent| frames(version, sent));
        let end = (sent_end < range.end()).then(|| Err(OriginFailure::Unavailable("cut".into())));
        let frames = stream::iter(frames.map(Ok).chain(end)).boxed();
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
        let alone = Arc::new(Alone::new(clock.now()));
        let cache = Cache::new(CacheParts {
            local: store.clone(),
            versions: versions.clone(),
            origin: origin.clone(),
            forward: origin.clone(),
            placement: alone.clone(),
            peers: alone.clone(),
            previous: alone.clone(),
            fence: alone,
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
        let version = version_of(&opened.head);
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
            let chunk = chunk?;
            assert!(is_of(version, at, &chunk), "bytes from {at} on of version {version}");
            at += chunk.len() as u64;
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

pub fn head_of(version: u64, size: u64) -> ObjectHead {
    let stamp = Stamp {
        etag: ETag::new(&format!("\"v{version}\"")),
        size,
        last_modified: "Sun, 06 Nov 1994 08:49:37 GMT".into(),
        version_id: None,
    };
    let headers = http::HeaderMap::from_iter([(META_VERSION, version.into())]);
    ObjectHead { stamp, headers }
}

/// A header that says nothing about the bytes.
const META_VERSION: http::HeaderName = http::HeaderName::from_static("x-amz-meta-version");

/// The version that a head is of: by all of its headers, not only by those that name bytes.
pub fn version_of(head: &ObjectHead) -> u64 {
    let version = head.stamp.etag.opaque()[1..].parse().expect("a version of this origin");
    assert_eq!(head.headers.get(META_VERSION), Some(&http::HeaderValue::from(version)));
    version
}

pub fn no_such_key() -> OriginFailure {
    OriginFailure::Refused(OriginReply {
        status: 404,
        code: "NoSuchKey".into(),
        message: "The specified key does not exist.".into(),
    })
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
    ReadCtx { request: RequestId(1), bucket_label: "b".into(), app: None }
}

pub fn ask(key: &str, freshness: Freshness, range: RangeAsk) -> OpenAsk {
    let conditions = Conditions::default();
    let (revalidate, body, pass) = (false, true, None);
    OpenAsk { name: name(key), freshness, range, conditions, revalidate, body, pass }
}
