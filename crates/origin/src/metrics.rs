//! What this crate records, one verb each.

use std::collections::HashMap;
use std::time::Duration;

use forebay_telemetry::metrics::{
    Counter, SharedString, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};
use forebay_types::BucketName;

use crate::error::{Failure, RetryReason};

/// The label of buckets that no rule names: clients choose bucket names, metrics must not grow.
const OTHER_BUCKET: SharedString = SharedString::const_str("other");

/// What a request asked of the origin.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    Head,
    Get,
    Forward,
}

impl Op {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Get => "get",
            Self::Forward => "forward",
        }
    }
}

/// The labels that may appear.
#[derive(Debug)]
pub(crate) struct Metrics {
    buckets: HashMap<BucketName, SharedString>,
}

impl Metrics {
    pub(crate) fn new(buckets: &[BucketName]) -> Self {
        describe();
        let label = |bucket: &BucketName| (bucket.clone(), SharedString::from(bucket.to_string()));
        Self { buckets: buckets.iter().map(label).collect() }
    }

    /// A try begins; it ends with [`Tally::done`], or is counted as dropped.
    pub(crate) fn begin(&self, op: Op, bucket: Option<&BucketName>) -> Tally {
        let label = bucket.and_then(|bucket| self.buckets.get(bucket));
        Tally { bucket: label.cloned().unwrap_or(OTHER_BUCKET), op, outcome: "dropped" }
    }
}

/// What the page says of each metric.
fn describe() {
    describe_counter!("forebay_origin_bytes_total", "Bytes of bodies that came from the origin.");
    describe_histogram!(
        "forebay_origin_first_byte_seconds",
        "Seconds until the head of the origin's answer, by operation."
    );
    describe_gauge!(
        "forebay_origin_inflight_requests",
        "Requests to the origin that are on their way."
    );
    describe_counter!(
        "forebay_origin_requests_total",
        "Tries at the origin, by operation and outcome."
    );
    describe_counter!(
        "forebay_origin_retries_total",
        "Tries at the origin that were followed by another, by reason."
    );
}

/// One try at the origin, counted when it ends, body included.
#[derive(Debug)]
pub(crate) struct Tally {
    bucket: SharedString,
    op: Op,
    outcome: &'static str,
}

impl Tally {
    /// The try ends like this.
    pub(crate) fn done(mut self, outcome: &'static str) {
        self.outcome = outcome;
    }

    /// The try ends like this, `Ok` standing for all that was asked.
    pub(crate) fn settle<T>(self, result: &Result<T, Failure>) {
        self.done(result.as_ref().map_or_else(Failure::outcome, |_| "ok"));
    }

    /// The head of an answer came after `elapsed`.
    pub(crate) fn first_byte(&self, elapsed: Duration) {
        histogram!("forebay_origin_first_byte_seconds", "op" => self.op.as_str())
            .record(elapsed.as_secs_f64());
    }

    /// Counts the body's bytes.
    pub(crate) fn bytes(&self) -> Counter {
        counter!("forebay_origin_bytes_total", "bucket" => self.bucket.clone())
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        counter!(
            "forebay_origin_requests_total",
            "bucket" => self.bucket.clone(), "op" => self.op.as_str(), "outcome" => self.outcome
        )
        .increment(1);
    }
}

/// A try failed and another one follows.
pub(crate) fn retried(reason: RetryReason) {
    counter!("forebay_origin_retries_total", "reason" => reason.as_str()).increment(1);
}

/// Counts one request as in flight while it lives.
#[derive(Debug)]
pub(crate) struct InFlightGauge(());

/// A request is on its way.
pub(crate) fn in_flight() -> InFlightGauge {
    gauge!("forebay_origin_inflight_requests").increment(1);
    InFlightGauge(())
}

impl Drop for InFlightGauge {
    fn drop(&mut self) {
        gauge!("forebay_origin_inflight_requests").decrement(1);
    }
}
