//! The S3 endpoint of a worker: from a request to its answer.

use std::sync::Arc;

use bytes::Bytes;
use forebay_cache::{BoxError, Cache, ReadError};
use forebay_rt::{SharedClock, SharedRng};
use forebay_telemetry::{ReadCtx, RequestId};
use forebay_types::BucketName;
use http::{HeaderValue, Method, Request, Response};
use http_body::Body;

use crate::address::Domains;
use crate::authenticate::{Auth, Authenticator};
use crate::body::S3Body;
use crate::error::{S3Error, no_such_bucket};
use crate::forward::forward;
use crate::get_object::get_object;
use crate::metrics::{self, BucketMetrics, EdgeMetrics, InFlight};
use crate::received::Received;
use crate::respond::{self, ErrorContext};
use crate::route::{self, Call, Operation};
use crate::rules::{BucketRule, BucketRules};

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
    pub(crate) clock: SharedClock,
    pub(crate) max_connections: usize,
    rules: Arc<BucketRules>,
    authenticator: Authenticator,
    domains: Domains,
    rng: SharedRng,
    host_id: HeaderValue,
    no_bucket: (Arc<str>, BucketMetrics),
}

impl Edge {
    /// Puts the parts together.
    pub fn new(parts: EdgeParts) -> Arc<Self> {
        let EdgeParts { cache, rules, auth, domains, clock, rng, max_connections } = parts;
        let host_id = format!("{:016x}", rng.next_u64());
        let label: Arc<str> = NO_BUCKET.into();
        Arc::new(Self {
            authenticator: Authenticator::new(auth, &domains),
            metrics: EdgeMetrics::new(),
            host_id: HeaderValue::try_from(host_id)
                .unwrap_or_else(|_| HeaderValue::from_static("forebay")),
            no_bucket: (label.clone(), BucketMetrics::new(label)),
            cache,
            rules,
            domains,
            clock,
            rng,
            max_connections,
        })
    }

    /// Answers one request. Never fails: what goes wrong is an answer too.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<S3Body>
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
        };
        let mut response = match self.dispatch(request, &mut trace).await {
            Ok(response) => response,
            Err(error) => {
                let host_id = self.host_id.to_str().unwrap_or_default();
                let (path, request_id) = (uri.path(), trace.request);
                respond::error(&error, &ErrorContext { path, is_head, request_id, host_id })
            }
        };
        respond::sign_off(response.headers_mut(), trace.request, &self.host_id);
        self.note(&trace, &response);
        response.map(|body| body.watched(trace.in_flight))
    }

    async fn dispatch<B>(
        &self,
        request: Request<B>,
        trace: &mut Trace,
    ) -> Result<Response<S3Body>, S3Error>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let request = Received::new(request)?;
        route::refuse_ambiguous_headers(&request.parts)?;
        let mut sender = self
            .authenticator
            .authenticate(request, self.clock.wall())
            .await
            .inspect_err(|error| metrics::auth_failed(error.code()))?;
        let Received { parts, query, .. } = &mut sender.request;
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
    no_bucket: Arc<str>,
}

impl Trace {
    /// What the parts below the edge are told of the request.
    pub(crate) fn ctx(&self) -> ReadCtx {
        let label = self.rule.as_ref().map_or(&self.no_bucket, |rule| &rule.label);
        ReadCtx { request: self.request, bucket_label: label.clone() }
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
