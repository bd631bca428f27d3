//! What the edge counts: names here, one verb at each call site.
//!
//! A request ends for us when its last byte has been handed to the connection; what the
//! network then does with it we do not know.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use forebay_cache::Source;
use forebay_rt::SharedClock;
use forebay_telemetry::metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};
use http::StatusCode;

const CODE_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Handles of everything that is counted on every request, bound once. To be made after the
/// recorder is there.
pub(crate) struct EdgeMetrics {
    inflight_requests: Gauge,
    client_aborts: Counter,
    connections: Gauge,
    first_byte_seconds: [Histogram; 3],
    get_seconds: Histogram,
    head_seconds: Histogram,
}

impl EdgeMetrics {
    pub(crate) fn new() -> Arc<Self> {
        describe();
        let first_byte =
            |source: &'static str| histogram!("forebay_first_byte_seconds", "source" => source);
        let duration =
            |op: &'static str| histogram!("forebay_request_duration_seconds", "op" => op);
        Arc::new(Self {
            inflight_requests: gauge!("forebay_inflight_requests"),
            client_aborts: counter!("forebay_client_aborts_total"),
            connections: gauge!("forebay_client_connections"),
            first_byte_seconds: ["hit", "peer", "miss"].map(first_byte),
            get_seconds: duration("get"),
            head_seconds: duration("head"),
        })
    }

    /// Counts a connection for as long as the guard lives.
    pub(crate) fn connected(self: &Arc<Self>) -> Connected {
        self.connections.increment(1.0);
        Connected(self.clone())
    }

    /// Counts and times a request for as long as the guard lives.
    pub(crate) fn begun(self: &Arc<Self>, clock: &SharedClock) -> InFlight {
        self.inflight_requests.increment(1.0);
        InFlight {
            op: "other",
            started: clock.now(),
            complete: false,
            clock: clock.clone(),
            metrics: self.clone(),
        }
    }

    fn took(&self, op: &'static str, seconds: f64) {
        match op {
            "get" => self.get_seconds.record(seconds),
            "head" => self.head_seconds.record(seconds),
            op => histogram!("forebay_request_duration_seconds", "op" => op).record(seconds),
        }
    }
}

/// What the page says of each metric.
fn describe() {
    describe_counter!(
        "forebay_auth_failures_total",
        "Requests whose sender was not accepted, by reason."
    );
    describe_counter!(
        "forebay_client_aborts_total",
        "Answers whose connection ended before their last byte."
    );
    describe_gauge!("forebay_client_connections", "Connections of clients that are open.");
    describe_histogram!(
        "forebay_first_byte_seconds",
        "Seconds until the first bytes of a body were there, by where they came from."
    );
    describe_gauge!("forebay_inflight_requests", "Requests of clients that are being answered.");
    describe_histogram!(
        "forebay_request_duration_seconds",
        "Seconds from a request to the last byte of its answer, by operation."
    );
    describe_counter!(
        "forebay_requests_total",
        "Requests of clients that were answered, by operation, bucket and class of status."
    );
}

/// A signature that was refused.
pub(crate) fn auth_failed(reason: &str) {
    counter!("forebay_auth_failures_total", "reason" => reason.to_owned()).increment(1);
}

/// Held by a connection.
pub(crate) struct Connected(Arc<EdgeMetrics>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.decrement(1.0);
    }
}

/// Held by a request until the last byte of its answer is on its way.
pub(crate) struct InFlight {
    pub(crate) op: &'static str,
    started: Instant,
    complete: bool,
    clock: SharedClock,
    metrics: Arc<EdgeMetrics>,
}

impl InFlight {
    /// The first bytes of the body are there: how long they took.
    pub(crate) fn first_byte(&self, source: Source) -> Duration {
        let waited = self.clock.now().duration_since(self.started);
        let slot = match source {
            Source::Hit => 0,
            Source::Peer => 1,
            Source::Miss => 2,
        };
        self.metrics.first_byte_seconds[slot].record(waited.as_secs_f64());
        waited
    }

    /// Nothing of the answer is missing any more.
    pub(crate) fn complete(&mut self) {
        self.complete = true;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.metrics.inflight_requests.decrement(1.0);
        self.metrics.took(self.op, self.clock.now().duration_since(self.started).as_secs_f64());
        if !self.complete {
            self.metrics.client_aborts.increment(1);
        }
    }
}

/// What is counted per bucket label. The counters of reads are bound on first use, which is
/// after the recorder is there.
#[derive(Default)]
pub(crate) struct BucketMetrics {
    label: Arc<str>,
    gets: [OnceLock<Counter>; 5],
    heads: [OnceLock<Counter>; 5],
}

impl BucketMetrics {
    pub(crate) fn new(label: Arc<str>) -> Self {
        Self { label, ..Self::default() }
    }

    /// Counts an answer.
    pub(crate) fn answered(&self, op: &'static str, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        let bind = || bind_answers(op, &self.label, class);
        match op {
            "get" => self.gets[class].get_or_init(bind).increment(1),
            "head" => self.heads[class].get_or_init(bind).increment(1),
            _ => bind().increment(1),
        }
    }
}

fn bind_answers(op: &'static str, bucket: &str, class: usize) -> Counter {
    let (bucket, code_class) = (bucket.to_owned(), CODE_CLASSES[class]);
    counter!("forebay_requests_total", "op" => op, "bucket" => bucket, "code_class" => code_class)
}

impl std::fmt::Debug for BucketMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BucketMetrics").field("label", &self.label).finish_non_exhaustive()
    }
}
