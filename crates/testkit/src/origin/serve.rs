//! One connection after another, one request after another: the whole story of an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use forebay_rt::SharedClock;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use tokio::net::TcpStream;

use super::auth::{self, Gate};
use super::chunked;
use super::config::{OriginConfig, Shape};
use super::control;
use super::error::S3Error;
use super::fault::{Armed, Fault, Faults};
use super::http::{Connection, ConnectionError, Request};
use super::list::list;
use super::log::RequestLog;
use super::objects::{Budget, Objects};
use super::op::{Call, Op, Query};
use super::read::read;
use super::reply::Reply;
use super::send::{After, Manner, reset, send};
use super::uploads::Uploads;
use super::write::{self, Context};
use crate::pace::Throttle;
use crate::xml::Document;

/// Everything that the connections of an origin share.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) clock: SharedClock,
    pub(super) log: Arc<RequestLog>,
    pub(super) faults: Arc<Faults>,
    pub(super) shape: Mutex<Shape>,
    pub(super) store: Mutex<Store>,
    gate: Gate,
    throttle: Mutex<Throttle>,
    budget: Arc<Budget>,
    requests: AtomicU64,
}

/// What exists.
#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) objects: Objects,
    pub(super) uploads: Uploads,
}

impl Site {
    pub(super) fn new(config: &OriginConfig, clock: SharedClock) -> Self {
        let mut store = Store::default();
        for bucket in &config.buckets {
            store.objects.create_bucket(bucket);
        }
        for set in &config.patterns {
            store.objects.declare(set.clone());
        }
        let faults = Faults::new(config.seed);
        for rule in &config.faults {
            faults.add(rule.clone());
        }
        Self {
            log: Arc::new(RequestLog::new(Arc::clone(&clock))),
            faults: Arc::new(faults),
            shape: Mutex::new(config.shape),
            store: Mutex::new(store),
            gate: Gate::new(&config.access_keys, config.anonymous),
            throttle: Mutex::new(Throttle::new(clock.now())),
            budget: Budget::new(config.written_limit_bytes),
            requests: AtomicU64::new(0),
            clock,
        }
    }

    /// Serves a connection until one side ends it.
    pub(super) async fn serve(&self, stream: TcpStream) {
        let mut connection = Connection::new(stream);
        loop {
            match self.serve_one(&mut connection).await {
                Ok(After::KeepAlive) => {}
                Ok(After::Close) => return,
                Err(error) => {
                    tracing::debug!(%error, "fault origin gives up a connection");
                    return;
                }
            }
        }
    }

    async fn serve_one(&self, connection: &mut Connection) -> Result<After, ConnectionError> {
        let Some(request) = connection.next_request().await? else { return Ok(After::Close) };
        if let Some(verb) = request.path.strip_prefix(control::PREFIX) {
            return self.serve_control(connection, verb, &request).await;
        }
        let parsed = Call::parse(&request.method, &request.path, &request.query, &request.headers);
        let call = parsed.as_ref().map_or_else(|_| unknown(), Call::clone);
        let entry = Arc::new(self.log.begin(&call, &request.headers));
        let mut fault = self.faults.arm(&call, Some(&entry));
        if let Some(armed) = &mut fault
            && let Some(after) = self.fail_early(connection, armed).await?
        {
            return Ok(after);
        }
        let body = connection.body(&request).await?;
        let shape = *self.shape.lock();
        self.clock.sleep_ms(shape.first_byte_ms).await;
        let answer = parsed.and_then(|call| self.answer(&call, &request, body, fault.as_mut()));
        let id = format!("FO{:014X}", self.requests.fetch_add(1, Ordering::Relaxed));
        let reply = answer.unwrap_or_else(|error| Reply::error(&error, &request.path, &id));
        let manner = Manner {
            clock: &self.clock,
            entry: Some(&entry),
            request_id: &id,
            is_head: request.method == Method::HEAD,
            closes: request.wants_close(),
            bytes_per_second: shape.stream_bytes_per_second,
        };
        send(connection, &reply, fault, &manner).await
    }

    async fn serve_control(
        &self,
        connection: &mut Connection,
        verb: &str,
        request: &Request,
    ) -> Result<After, ConnectionError> {
        let body = connection.body(request).await?;
        let answer = control::answer(self, verb, request, &body);
        let reply = answer.unwrap_or_else(|error| Reply::error(&error, &request.path, "control"));
        let manner = Manner {
            clock: &self.clock,
            entry: None,
            request_id: "control",
            is_head: false,
            closes: request.wants_close(),
            bytes_per_second: None,
        };
        send(connection, &reply, None, &manner).await
    }

    /// The faults that come before a request is even looked at.
    async fn fail_early(
        &self,
        connection: &mut Connection,
        armed: &mut Armed,
    ) -> Result<Option<After>, ConnectionError> {
        match *armed.fault() {
            Fault::Delay { ms } => {
                armed.fired();
                self.clock.sleep_ms(ms).await;
                Ok(None)
            }
            Fault::ResetBeforeHead => {
                armed.fired();
                reset(connection).map(Some)
            }
            Fault::HangBeforeHead => {
                armed.fired();
                connection.until_client_leaves().await;
                Ok(Some(After::Close))
            }
            _ => Ok(None),
        }
    }

    fn answer(
        &self,
        call: &Call,
        request: &Request,
        body: Bytes,
        mut fault: Option<&mut Armed>,
    ) -> Result<Reply, S3Error> {
        if let Some(armed) = fault.as_deref_mut() {
            self.fail_answer(call, armed)?;
        }
        if let Some(limit) = self.shape.lock().requests_per_second
            && !self.throttle.lock().admit(self.clock.now(), limit)
        {
            return Err(S3Error::slow_down());
        }
        self.gate.check(request, self.clock.wall())?;
        auth::check_payload(request, &body)?;
        let body = unframe(request, body)?;
        let ctx = Context { budget: &self.budget, now: self.clock.wall() };
        self.store.lock().dispatch(ctx, call, request, body, fault)
    }

    fn fail_answer(&self, call: &Call, armed: &mut Armed) -> Result<(), S3Error> {
        match armed.fault().clone() {
            Fault::Status { status, code } => {
                armed.fired();
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
                let message = format!("injected by rule {}", armed.name());
                Err(S3Error::new(status, &code, message))
            }
            Fault::Overwrite => {
                if self.store.lock().objects.overwrite(&call.bucket, &call.key).is_some() {
                    armed.fired();
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Store {
    fn dispatch(
        &mut self,
        ctx: Context<'_>,
        call: &Call,
        request: &Request,
        body: Bytes,
        fault: Option<&mut Armed>,
    ) -> Result<Reply, S3Error> {
        let Self { objects, uploads } = self;
        match call.op {
            Op::GetObject | Op::HeadObject => read(objects, call, request, fault),
            Op::PutObject => write::put(objects, ctx, call, request, body),
            Op::CopyObject => write::copy(objects, ctx, call, request),
            Op::DeleteObject => write::delete(objects, call),
            Op::DeleteObjects => write::delete_many(objects, call, &body),
            Op::CreateMultipartUpload => uploads.create(objects, call, request),
            Op::UploadPart => uploads.part(ctx, call, body),
            Op::ListParts => uploads.list_parts(call),
            Op::AbortMultipartUpload => uploads.abort(call),
            Op::CompleteMultipartUpload => uploads.complete(objects, ctx, call, request, &body),
            Op::ListObjects | Op::ListObjectsV2 => list(objects, call),
            Op::ListBuckets => Ok(list_buckets(objects)),
            Op::HeadBucket | Op::GetBucketLocation => about_bucket(objects, call),
            Op::CreateBucket => create_bucket(objects, call),
            Op::Unknown => Err(S3Error::not_implemented("this operation")),
        }
    }
}

/// For the log: a request whose path cannot be read.
fn unknown() -> Call {
    let query = Query::default();
    Call { op: Op::Unknown, bucket: String::new(), key: String::new(), query }
}

fn unframe(request: &Request, body: Bytes) -> Result<Bytes, S3Error> {
    if !auth::is_streaming(request) {
        return Ok(body);
    }
    let declared = request.header("x-amz-decoded-content-length").and_then(|n| n.parse().ok());
    chunked::decode(body, declared)
}

fn list_buckets(objects: &Objects) -> Reply {
    let mut answer = Document::new("ListAllMyBucketsResult");
    answer.group("Buckets", |buckets| {
        for name in objects.bucket_names() {
            buckets.group("Bucket", |bucket| {
                bucket.leaf("Name", name).leaf("CreationDate", "2025-01-01T00:00:00.000Z");
            });
        }
    });
    Reply::xml(answer.finish())
}

fn about_bucket(objects: &Objects, call: &Call) -> Result<Reply, S3Error> {
    if !objects.has_bucket(&call.bucket) {
        return Err(S3Error::no_such_bucket());
    }
    Ok(match call.op {
        Op::HeadBucket => Reply::empty(StatusCode::OK),
        // An empty constraint is S3's name for us-east-1.
        _ => Reply::xml(Document::new("LocationConstraint").finish()),
    })
}

fn create_bucket(objects: &mut Objects, call: &Call) -> Result<Reply, S3Error> {
    if objects.create_bucket(&call.bucket) {
        return Ok(Reply::empty(StatusCode::OK));
    }
    let message =
        "Your previous request to create the named bucket succeeded and you already own it.";
    Err(S3Error::new(StatusCode::CONFLICT, "BucketAlreadyOwnedByYou", message))
}

/// Sleeping for nothing costs a timer; a request that is not delayed must not pay for it.
trait SleepMs {
    async fn sleep_ms(&self, ms: u64);
}

impl SleepMs for SharedClock {
    async fn sleep_ms(&self, ms: u64) {
        if ms > 0 {
            self.sleep(Duration::from_millis(ms)).await;
        }
    }
}
