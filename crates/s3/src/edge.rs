//! The S3 endpoint of a worker: from a request to its answer.

use std::sync::Arc;

use bytes::Bytes;
use forebay_cache::{BoxError, Cache, ReadError, Source};
use forebay_rt::{SharedClock, SharedRng, timeout};
use forebay_telemetry::{AppCounters, Apps, ReadCtx, RequestId};
use forebay_types::BucketName;
use forebay_zerocopy::PipePass;
use http::{HeaderValue, Method, Request, Response};
use http_body::Body;
use parking_lot::RwLock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::address::Domains;
use crate::authenticate::{Auth, Authenticator};
use crate::body::S3Body;
use crate::code::Code;
use crate::error::{S3Error, no_such_bucket};
use crate::forward::forward;
use crate::framing;
use crate::get_object::get_object;
use crate::limits::{COPY_WAIT, MAX_COPIED_BODIES};
use crate::metrics::{self, BucketMetrics, EdgeMetrics, InFlight};
use crate::preflight;
use crate::received::Received;
use crate::respond::{self, ErrorContext};
use crate::ring_page::{self, RingPage};
use crate::route::{self, Call, Operation};
use crate::rules::{BucketRule, BucketRules};
use crate::upload;

/// Connections of clients held at a time, unless set otherwise.
pub const DEFAULT_MAX_CONNECTIONS: usize = 16_384;

/// The label of requests that no rule stands for.
const NO_BUCKET: &str = "other";

/// What an endpoint is made of.
pub struct EdgeParts {
    /// Where objects come from.
    pub cache: Arc<Cache>,
    /// Which buckets there are.
    pub rules: Arc<BucketRules>,
    /// Who may use them.
    pub auth: Auth,
    /// Under which hosts a bucket may be the first label.
    pub domains: Domains,
    /// What `GET /-/ring` answers; `None` for a worker that is alone.
    pub ring_page: Option<RingPage>,
    /// Where it is counted what each job reads.
    pub apps: Arc<Apps>,
    /// Time.
    pub clock: SharedClock,
    /// Chance, for request ids.
    pub rng: SharedRng,
    /// Connections held at a time; more wait to be accepted.
    pub max_connections: usize,
}

/// The S3 endpoint of a worker. To be made after the metrics recorder is there.
pub struct Edge {
    pub(crate) cache: Arc<Cache>,
    pub(crate) metrics: Arc<EdgeMetrics>,
    pub(crate) apps: Arc<Apps>,
    pub(crate) clock: SharedClock,
    /// Places for connections.
    pub(crate) room: Arc<Semaphore>,
    /// Places for bodies that are copied.
    copies: Arc<Semaphore>,
    rules: Arc<BucketRules>,
    authenticator: RwLock<Arc<Authenticator>>,
    ring_page: Option<RingPage>,
    domains: Domains,
    rng: SharedRng,
    host_id: HeaderValue,
    no_bucket: (Arc<str>, BucketMetrics),
}

impl Edge {
    /// Puts the parts together.
    pub fn new(parts: EdgeParts) -> Arc<Self> {
        let EdgeParts { cache, rules, auth, domains, ring_page, apps, .. } = parts;
        let EdgeParts { clock, rng, max_connections, .. } = parts;
        let host_id = format!("{:016x}", rng.next_u64());
        let label: Arc<str> = NO_BUCKET.into();
        Arc::new(Self {
            authenticator: RwLock::new(Arc::new(Authenticator::new(auth, &domains))),
            ring_page,
            metrics: EdgeMetrics::new(),
            apps,
            host_id: HeaderValue::try_from(host_id)
                .unwrap_or_else(|_| HeaderValue::from_static("forebay")),
            no_bucket: (label.clone(), BucketMetrics::new(label)),
            cache,
            rules,
            domains,
            clock,
            rng,
            room: Arc::new(Semaphore::new(max_connections)),
            copies: Arc::new(Semaphore::new(MAX_COPIED_BODIES)),
        })
    }

    /// Lets others in than before. Requests that have been let in go on.
    pub fn replace_auth(&self, auth: Auth) {
        *self.authenticator.write() = Arc::new(Authenticator::new(auth, &self.domains));
    }

    /// Answers one request. Never fails: what goes wrong is an answer too. With a pass, the
    /// body may be tokens that only the connection it is of can send.
    pub async fn answer<B>(&self, request: Request<B>, pass: Option<PipePass>) -> Response<S3Body>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (uri, is_head) = (request.uri().clone(), request.method() == Method::HEAD);
        let mut trace = Trace {
            request: RequestId(self.rng.next_u64()),
            in_flight: self.metrics.begun(&self.clock),
            no_bucket: self.no_bucket.0.clone(),
            rule: None,
            app: None,
            ends_connection: false,
        };
        let mut response = match self.dispatch(request, pass, &mut trace).await {
            Ok(response) => response,
            Err(error) => {
                let host_id = self.host_id.to_str().unwrap_or_default();
                let (path, request_id) = (uri.path(), trace.request);
                respond::error(&error, &ErrorContext { path, is_head, request_id, host_id })
            }
        };
        if trace.ends_connection {
            respond::end_connection(response.headers_mut());
        }
        respond::sign_off(response.headers_mut(), trace.request, &self.host_id);
        self.note(&trace, &response);
        response.map(|body| body.watched(trace.in_flight))
    }

    async fn dispatch<B>(
        &self,
        request: Request<B>,
        pass: Option<PipePass>,
        trace: &mut Trace,
    ) -> Result<Response<S3Body>, S3Error>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        framing::check(&request).inspect_err(|_| trace.ends_connection = true)?;
        let mut request = Received::new(request, pass)?;
        request.body = request.body.map(|body| upload::patient(body, self.clock.clone()));
        route::refuse_ambiguous_headers(&request.parts)?;
        preflight::refuse(&request.parts)?;
        let authenticator = self.authenticator.read().clone();
        let mut sender = authenticator
            .authenticate(request, self.clock.wall())
            .await
            .inspect_err(|error| metrics::auth_failed(error.code()))?;
        let Received { parts, query, .. } = &mut sender.request;
        if let Some(page) =
            self.ring_page.as_ref().filter(|_| ring_page::is_asked(parts, &self.domains))
        {
            sender.caller.require_known()?;
            return Ok(ring_page::answer(&page(), &parts.headers));
        }
        route::lift_headers(parts, query)?;
        let call = Call::parse(parts, std::mem::take(query), &self.domains)?;
        trace.in_flight.op = call.operation.label();
        match &call.operation {
            Operation::ReadObject(read) => {
                let read = read.clone();
                get_object(self, trace, sender, call, read).await
            }
            _ => forward(self, trace, sender, call).await,
        }
    }

    /// The rule of a bucket, which the request's trace then carries.
    pub(crate) fn rule_of(
        &self,
        bucket: &BucketName,
        trace: &mut Trace,
    ) -> Result<Arc<BucketRule>, S3Error> {
        let rule = self.rules.of(bucket).ok_or_else(no_such_bucket)?;
        trace.rule = Some(rule.clone());
        Ok(rule)
    }

    /// A place for a body that has to be copied to be sent. Taken before the object is opened:
    /// what is opened is copied at once, while it is known to be in memory and right.
    pub(crate) async fn place_for_a_copy(&self) -> Result<OwnedSemaphorePermit, S3Error> {
        let place = timeout(&*self.clock, COPY_WAIT, self.copies.clone().acquire_owned()).await;
        let full = || S3Error::new(Code::SlowDown, "Too many reads over TLS at once.");
        place.ok().and_then(Result::ok).ok_or_else(full)
    }

    fn note(&self, trace: &Trace, response: &Response<S3Body>) {
        let (op, status) = (trace.in_flight.op, response.status());
        match &trace.rule {
            Some(rule) => rule.metrics.answered(op, status),
            None => self.no_bucket.1.answered(op, status),
        }
        tracing::debug!(request = %trace.request, op, status = status.as_u16(), "answered");
    }
}

impl std::fmt::Debug for Edge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Edge").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// What a request leaves behind in logs and metrics.
pub(crate) struct Trace {
    pub(crate) in_flight: InFlight,
    pub(crate) request: RequestId,
    rule: Option<Arc<BucketRule>>,
    /// Where it is counted for its job, once the caller is known and let in.
    pub(crate) app: Option<Arc<AppCounters>>,
    /// Nothing more of what the client has sent is to be read.
    ends_connection: bool,
    no_bucket: Arc<str>,
}

impl Trace {
    /// The rule of the request's bucket, once it is known.
    pub(crate) fn rule(&self) -> Option<&BucketRule> {
        self.rule.as_deref()
    }

    /// What the parts below the edge are told of the request.
    pub(crate) fn ctx(&self) -> ReadCtx {
        let label = self.rule.as_ref().map_or(&self.no_bucket, |rule| &rule.label);
        ReadCtx { request: self.request, bucket_label: label.clone(), app: self.app.clone() }
    }

    /// The first bytes of the body are there.
    pub(crate) fn first_byte(&self, source: Source) {
        let waited = self.in_flight.first_byte(source);
        if let Some(app) = &self.app {
            app.first_byte(waited);
        }
    }

    /// Logs what the client is not told.
    pub(crate) fn failed(&self, error: ReadError) -> S3Error {
        if let ReadError::Failed { code, detail } = &error {
            let op = self.in_flight.op;
            tracing::warn!(request = %self.request, op, ?code, detail, "a request failed");
        }
        error.into()
    }
}
