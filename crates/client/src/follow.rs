//! Following the ring: asked for every few seconds, and at once when a read met a failure.
//!
//! The same question tells whether a worker that gave no sign of life is back, so that no read
//! has to find out.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use forebay_rt::{Task, spawn, spawn_blocking, timeout};
use futures_util::future::{join, join_all, select};
use http::header::ETAG;
use http::uri::PathAndQuery;
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use crate::answer::error_code;
use crate::ask::Ask;
use crate::cluster::RingAnswer;
use crate::error::{ConnectError, Failure, ReadError};
use crate::limits::{RING_BYTES, RING_POLL, RING_POLL_GAP, RING_PROBES, RING_TIMEOUT, RING_TRIES};
use crate::servers::{Server, Servers};

const RING_PATH: &str = "/-/ring";

/// Keeps the ring up to date until it is dropped.
#[derive(Debug)]
pub(crate) struct Follower(Task<()>);

/// What is asked with next time.
struct Follow {
    servers: Arc<Servers>,
    /// Of the last ring taken.
    etag: Option<String>,
}

/// A worker's answer.
enum Told {
    Unchanged,
    Ring { by: Server, answer: RingAnswer, etag: Option<String> },
}

impl Follower {
    /// Learns the ring from the first endpoint that answers, and follows it from there. Without
    /// an answer, only a client that knows the origin goes on.
    pub(crate) async fn start(servers: Arc<Servers>) -> Result<Self, ConnectError> {
        let mut follow = Follow { servers, etag: None };
        follow.begin().await?;
        Ok(Self(spawn(follow.for_ever())))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Follow {
    async fn begin(&mut self) -> Result<(), ConnectError> {
        let mut last = String::new();
        for server in self.servers.draw(self.servers.endpoints.len(), |_| true) {
            match self.ask(&server).await {
                Ok(told) => {
                    self.take(told).await;
                    return Ok(());
                }
                Err(Failure::Last(ReadError::Refused { status, code })) => {
                    return Err(ConnectError::Refused { status, code });
                }
                Err(failure) => last = failure.to_string(),
            }
        }
        if self.servers.origin.is_some() { Ok(()) } else { Err(ConnectError::Unavailable(last)) }
    }

    async fn for_ever(mut self) {
        let servers = Arc::clone(&self.servers);
        loop {
            let wait = RING_POLL.mul_f64(0.5 + servers.rng.unit());
            select(servers.clock.sleep(wait), pin!(servers.doubt.notified())).await;
            self.poll().await;
            // Failures that come meanwhile are one reason to ask again, not many.
            servers.clock.sleep(RING_POLL_GAP).await;
        }
    }

    async fn poll(&mut self) {
        let (mut told, from_silent) = join(self.ask_living(), self.ask_silent()).await;
        told.extend(from_silent);
        for told in told {
            self.take(told).await;
        }
    }

    async fn ask_living(&self) -> Vec<Told> {
        let is_living = |server: &Server| !self.servers.is_silent(server);
        for server in self.servers.draw(RING_TRIES, is_living) {
            match self.ask(&server).await {
                Ok(told) => return vec![told],
                Err(Failure::Silent(_)) => self.servers.fell_silent(&server),
                Err(Failure::Unfit(why)) => tracing::debug!(why, "no ring"),
                Err(Failure::Last(error)) => tracing::debug!(%error, %server, "no ring"),
            }
        }
        Vec::new()
    }

    async fn ask_silent(&self) -> Vec<Told> {
        let mut silent = self.servers.silent();
        let begin = self.servers.rng.next_u64() as usize % silent.len().max(1);
        silent.rotate_left(begin);
        silent.truncate(RING_PROBES);
        let ask = async |server: &Server| match self.ask(server).await {
            Err(Failure::Silent(_)) => None,
            // An answer of any kind is a sign of life.
            answer => {
                self.servers.answered(server);
                answer.ok()
            }
        };
        join_all(silent.iter().map(ask)).await.into_iter().flatten().collect()
    }

    async fn ask(&self, server: &Server) -> Result<Told, Failure> {
        let mut ask = Ask::new(Method::GET, PathAndQuery::from_static(RING_PATH));
        if let Some(etag) = &self.etag {
            ask = ask.if_none_match(etag);
        }
        let answer = async {
            let response = self.servers.transport.send(server, &ask).await?;
            read(server, response).await
        };
        let answer = timeout(&*self.servers.clock, RING_TIMEOUT, answer).await;
        answer.unwrap_or_else(|_| {
            Err(Failure::Silent(format!("{server}: no ring within {RING_TIMEOUT:?}")))
        })
    }

    async fn take(&mut self, told: Told) {
        let Told::Ring { by, answer, etag } = told else { return };
        if !self.servers.cluster().is_older_than(&answer) {
            return;
        }
        let scheme = by.scheme.clone();
        match spawn_blocking(move || answer.build(&scheme)).await {
            Ok(Ok(cluster)) => {
                self.servers.set_cluster(cluster);
                self.etag = etag;
            }
            Ok(Err(error)) => tracing::warn!(%error, %by, "a ring that cannot be used"),
            Err(error) => tracing::warn!(%error, "building the ring failed"),
        }
    }
}

async fn read(server: &Server, response: Response<Incoming>) -> Result<Told, Failure> {
    let (head, body) = response.into_parts();
    if head.status == StatusCode::NOT_MODIFIED {
        return Ok(Told::Unchanged);
    }
    let body = Limited::new(body, RING_BYTES).collect().await;
    let body: Bytes = body
        .map_err(|error| Failure::Silent(format!("{server}: the ring broke off: {error}")))?
        .to_bytes();
    if head.status.is_client_error() {
        let code = error_code(&body);
        return Err(Failure::Last(ReadError::Refused { status: head.status, code }));
    }
    if head.status != StatusCode::OK {
        return Err(Failure::Unfit(format!("{server}: {}", head.status)));
    }
    let answer =
        RingAnswer::parse(&body).map_err(|error| Failure::Unfit(format!("{server}: {error}")))?;
    let etag = head.headers.get(ETAG).and_then(|etag| etag.to_str().ok()).map(str::to_owned);
    Ok(Told::Ring { by: server.clone(), answer, etag })
}
