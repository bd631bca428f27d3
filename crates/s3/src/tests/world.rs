//! An endpoint on loopback, the origin behind it, and a client that shows every byte.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use forebay_cache::{
    Alone, Cache, CacheConfig, CacheParts, Forward, ForwardBody, Found, LocalBlocks, NotStored,
    OriginBody, OriginFailure, OriginObjects, OriginReply, Versions,
};
use forebay_rt::{Clock, SeededRng, Shutdown, SystemClock};
use forebay_telemetry::{Apps, ReadCtx};
use forebay_types::{
    BucketName, ByteRange, ETag, Freshness, ObjectHead, ObjectId, ObjectName, RuleId, Stamp,
};
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use crate::{Auth, BucketPattern, BucketRule, BucketRules, Domains, Edge, EdgeParts, Page};

/// The endpoint and what is behind it.
pub(super) struct World {
    pub(super) origin: Arc<Origin>,
    pub(super) apps: Arc<Apps>,
    pub(super) shutdown: Shutdown,
    pub(super) serving: forebay_rt::Task<()>,
    edge: Arc<Edge>,
    address: std::net::SocketAddr,
}

impl World {
    pub(super) async fn open() -> Self {
        Self::with(Auth::None, 100).await
    }

    pub(super) async fn with(auth: Auth, max_connections: usize) -> Self {
        let origin = Arc::new(Origin::default());
        let alone = Arc::new(Alone::new(SystemClock.now()));
        let parts = CacheParts {
            local: Arc::new(Nothing),
            versions: Arc::new(Nothing),
            origin: origin.clone(),
            forward: origin.clone(),
            placement: alone.clone(),
            peers: alone.clone(),
            previous: alone.clone(),
            fence: alone,
            clock: Arc::new(SystemClock),
            rng: Arc::new(SeededRng::new(1)),
            config: CacheConfig::default(),
        };
        let rule = BucketRule::new(RuleId(1), "b".into(), Freshness::default(), Vec::new());
        let bucket = BucketPattern::Exactly(BucketName::new("b").unwrap());
        let apps = Arc::<Apps>::default();
        let edge = Edge::new(EdgeParts {
            cache: Cache::new(parts),
            rules: Arc::new(BucketRules::new([(bucket, rule)])),
            auth,
            domains: Domains::new(["s3.test".to_owned()]),
            ring_page: Some(Arc::new(|| Page {
                etag: HeaderValue::from_static("\"1\""),
                json: Bytes::from_static(b"{}"),
            })),
            apps: apps.clone(),
            clock: Arc::new(SystemClock),
            rng: Arc::new(SeededRng::new(2)),
            max_connections,
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = Shutdown::new();
        let serving = forebay_rt::spawn(crate::serve(listener, edge.clone(), shutdown.clone()));
        Self { origin, apps, shutdown, serving, edge, address }
    }

    pub(super) async fn connect(&self) -> Client {
        Client::over(TcpStream::connect(self.address).await.unwrap())
    }

    /// Sends a head and a body of that length, on a connection of its own.
    pub(super) async fn put(&self, head: &str, body: &str) -> Answer {
        let mut client = self.connect().await;
        let head = head.replace('\n', "\r\n");
        let host = if head.contains("host:") { "" } else { "\r\nhost: forebay.test:9000" };
        client.send(format!("{head}{host}\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await;
        client.answer(head.starts_with("HEAD")).await.expect("an answer")
    }

    /// The same endpoint over TLS, at a port of its own.
    pub(super) async fn over_tls(&self, tls: &crate::TlsServer) -> TlsPort {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (edge, shutdown) = (self.edge.clone(), self.shutdown.clone());
        forebay_rt::spawn(crate::serve_tls(listener, tls.clone(), edge, shutdown));
        TlsPort { address }
    }

    /// One request on a connection of its own.
    pub(super) async fn ask(&self, head: &str) -> Answer {
        self.connect().await.ask(head).await
    }
}

/// Where the endpoint is served over TLS.
pub(super) struct TlsPort {
    pub(super) address: std::net::SocketAddr,
}

impl TlsPort {
    /// Connects a client that believes in one certificate.
    pub(super) async fn connect(&self, trusted_pem: &str) -> std::io::Result<Client> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(trusted_pem.as_bytes()).unwrap()).unwrap();
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(ring)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("forebay.test").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        Ok(Client::over(stream))
    }
}

/// A connection of a client.
pub(super) struct Client {
    stream: Box<dyn Stream>,
    read: Vec<u8>,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

impl Client {
    fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        Self { stream: Box::new(stream), read: Vec::new() }
    }

    pub(super) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Sends a request without a body, given as its lines, and reads the answer.
    pub(super) async fn ask(&mut self, head: &str) -> Answer {
        let is_head = head.starts_with("HEAD");
        let host = if head.contains("host:") { "" } else { "\r\nhost: forebay.test:9000" };
        let head = head.trim().replace('\n', "\r\n");
        self.send(format!("{head}{host}\r\n\r\n")).await;
        self.answer(is_head).await.expect("an answer")
    }

    /// Sends a request that somebody has signed.
    pub(super) async fn ask_signed(&mut self, request: &Request<()>) -> Answer {
        let mut head = format!("{} {} HTTP/1.1", request.method(), request.uri());
        for (name, value) in request.headers() {
            head.extend(["\n", name.as_str(), ": ", value.to_str().unwrap()]);
        }
        self.ask(&head).await
    }

    /// Reads one answer; `None` where the connection ends without one.
    pub(super) async fn answer(&mut self, is_head: bool) -> Option<Answer> {
        let end = loop {
            if let Some(at) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if !self.more().await {
                return None;
            }
        };
        let head = String::from_utf8(self.read.drain(..end).collect()).unwrap();
        let mut answer = Answer { head, body: Vec::new(), complete: true };
        let len: usize = match answer.header("content-length") {
            Some(len) if !is_head && answer.status() != 304 => len.parse().unwrap(),
            _ => 0,
        };
        while self.read.len() < len && self.more().await {}
        answer.complete = self.read.len() >= len;
        answer.body = self.read.drain(..len.min(self.read.len())).collect();
        Some(answer)
    }

    /// Whether the server has ended the connection, without another byte.
    pub(super) async fn is_closed(&mut self) -> bool {
        !self.more().await && self.read.is_empty()
    }

    async fn more(&mut self) -> bool {
        matches!(self.stream.read_buf(&mut self.read).await, Ok(1..))
    }
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) head: String,
    pub(super) body: Vec<u8>,
    /// False where the connection ended before the declared length.
    pub(super) complete: bool,
}

impl Answer {
    pub(super) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let pairs = self.head.lines().filter_map(|line| line.split_once(": "));
        pairs.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The headers that HEAD and GET have to agree on.
    pub(super) fn significant(&self) -> Vec<&str> {
        let varies = ["date", "x-amz-request-id", "age", "x-forebay-cache"];
        let mut lines: Vec<&str> = self.head.lines().skip(1).collect();
        lines.retain(|line| !line.split_once(':').is_some_and(|(name, _)| varies.contains(&name)));
        lines.sort_unstable();
        lines
    }
}

/// A request as the origin saw it.
pub(super) struct Seen {
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Objects by key, and a record of what was forwarded.
#[derive(Default)]
pub(super) struct Origin {
    objects: Mutex<HashMap<String, Bytes>>,
    pub(super) seen: Mutex<Vec<Seen>>,
    /// Bodies break off after this many bytes.
    pub(super) break_after: Mutex<Option<usize>>,
    /// What is forwarded next is answered with this status and body.
    pub(super) answer_once: Mutex<Option<(u16, &'static str)>>,
    /// Reads are refused with this.
    pub(super) refusal: Mutex<Option<OriginReply>>,
    /// Objects have no strong tag.
    pub(super) uncacheable: Mutex<bool>,
}

impl Origin {
    pub(super) fn put(&self, key: &str, bytes: impl Into<Bytes>) {
        self.objects.lock().insert(key.into(), bytes.into());
    }

    fn find(&self, name: &ObjectName) -> Result<(ObjectHead, Bytes), OriginFailure> {
        if *self.uncacheable.lock() {
            return Err(OriginFailure::Uncacheable("a weak tag".into()));
        }
        if let Some(refusal) = self.refusal.lock().clone() {
            return Err(OriginFailure::Refused(refusal));
        }
        let key = match &name.version_id {
            Some(version_id) => format!("{}?versionId={version_id}", name.key),
            None => name.key.to_string(),
        };
        let found = self.objects.lock().get(&key).cloned();
        let bytes = found.ok_or_else(|| {
            let (code, message) = ("NoSuchKey".into(), "The specified key does not exist.".into());
            OriginFailure::Refused(OriginReply { status: 404, code, message })
        })?;
        Ok((head_of(&bytes), bytes))
    }
}

fn head_of(bytes: &Bytes) -> ObjectHead {
    let sum = bytes.iter().fold(7u64, |sum, b| sum.wrapping_mul(31).wrapping_add(u64::from(*b)));
    let etag = format!("\"{sum:x}\"");
    let last_modified = "Sun, 06 Nov 1994 08:49:37 GMT";
    let mut headers = HeaderMap::new();
    headers.insert("etag", etag.parse().unwrap());
    headers.insert("last-modified", HeaderValue::from_static(last_modified));
    headers.insert("content-type", HeaderValue::from_static("application/x-tar"));
    headers.insert("x-amz-meta-a", HeaderValue::from_static("b"));
    let stamp = Stamp {
        etag: ETag::new(&etag),
        size: bytes.len() as u64,
        last_modified: last_modified.into(),
        version_id: None,
    };
    ObjectHead { stamp, headers }
}

#[async_trait]
impl OriginObjects for Origin {
    async fn head(&self, _: &ReadCtx, name: &ObjectName) -> Result<ObjectHead, OriginFailure> {
        Ok(self.find(name)?.0)
    }

    async fn get(
        &self,
        _: &ReadCtx,
        name: &ObjectName,
        range: ByteRange,
        _: Option<&Stamp>,
    ) -> Result<OriginBody, OriginFailure> {
        let (head, bytes) = self.find(name)?;
        let range = ByteRange::new(0, bytes.len() as u64).and_then(|whole| whole.intersect(range));
        let range = range.ok_or(OriginFailure::Unsatisfiable)?;
        let limit = self.break_after.lock().map(|limit| limit as u64);
        let mut frames = vec![];
        let end = limit.map_or(range.end(), |limit| range.end().min(limit));
        if range.start() < end {
            frames.push(Ok(bytes.slice(range.start() as usize..end as usize)));
        }
        if end < range.end() {
            frames.push(Err(OriginFailure::Unavailable("it breaks off".into())));
        }
        Ok(OriginBody { head, range, frames: stream::iter(frames).boxed() })
    }
}

#[async_trait]
impl Forward for Origin {
    async fn forward(
        &self,
        _: Option<&BucketName>,
        request: Request<ForwardBody>,
    ) -> Result<Response<ForwardBody>, OriginFailure> {
        let (parts, body) = request.into_parts();
        let body =
            body.collect().await.map_err(|error| OriginFailure::Unavailable(error.to_string()))?;
        let body = body.to_bytes();
        let target = format!("{} {}", parts.method, parts.uri);
        self.seen.lock().push(Seen { target, headers: parts.headers, body });
        let (status, text) = self.answer_once.lock().take().unwrap_or((200, "forwarded"));
        let answer = Full::new(Bytes::from(text)).map_err(|never| match never {});
        let mut response = Response::new(answer.boxed_unsync());
        *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
        response.headers_mut().insert("content-length", HeaderValue::from(text.len()));
        response.headers_mut().insert("connection", HeaderValue::from_static("x-hop"));
        response.headers_mut().insert("x-hop", HeaderValue::from_static("1"));
        response.headers_mut().insert("x-amz-request-id", HeaderValue::from_static("origins"));
        Ok(response)
    }
}

/// No disk, and no memory of versions over a restart.
struct Nothing;

#[async_trait]
impl LocalBlocks for Nothing {
    fn read_now(&self, _: &ObjectId, _: ByteRange) -> Found {
        Found::Miss
    }

    async fn read(&self, _: &ObjectId, _: ByteRange) -> Found {
        Found::Miss
    }

    fn gap(&self, _: &ObjectId, range: ByteRange) -> Option<ByteRange> {
        Some(range)
    }

    async fn store(&self, _: &ObjectId, _: ByteRange, _: Vec<Bytes>) -> Result<(), NotStored> {
        Err(NotStored)
    }

    fn cool(&self, _: &ObjectId) {}
}

#[async_trait]
impl Versions for Nothing {
    async fn recall(&self, _: &ObjectName) -> Option<ObjectHead> {
        None
    }

    async fn remember(&self, _: &ObjectName, _: &ObjectHead) {}

    async fn forget(&self, _: &ObjectName) {}
}
