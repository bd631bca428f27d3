//! The core's metrics: names here, one verb at each call site.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use forebay_telemetry::Tier;
use forebay_telemetry::metrics::{
    Counter, Histogram, counter, describe_counter, describe_histogram, histogram,
};
use parking_lot::RwLock;

/// How a question to the origin about a known version ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Revalidation {
    Fresh,
    Changed,
    Gone,
    Error,
}

/// Why a fill's bytes did not become cached ones.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NotAdmitted {
    /// The object changed at the origin.
    Moved,
    /// The store had no place for them.
    Store,
}

/// Why another worker did not give what was asked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fallback {
    Gone,
    Unreachable,
    NotOwner,
    /// The origin does not answer it.
    OriginUnavailable,
    /// It broke off in mid-body.
    BrokeOff,
}

/// How a write became known to everybody.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Announced {
    /// The authority vouched for it.
    Authority,
    /// The voters began a new epoch.
    Fence,
    /// Every worker was told.
    Everybody,
    /// It did not.
    Failed,
}

/// Handles of everything that the core counts, bound once. Made after the recorder is there.
pub(crate) struct Metrics {
    buckets: RwLock<HashMap<Arc<str>, Arc<BucketMetrics>>>,
    announced: [Counter; 4],
    coalesced_requests: Counter,
    fallbacks: [Counter; 5],
    fill_duration_seconds: Histogram,
    mixed_version_prevented: Counter,
    not_admitted: [Counter; 2],
    peeked_bytes: Counter,
    revalidations: [Counter; 4],
}

/// What is counted per bucket label and tier.
pub(crate) struct BucketMetrics {
    bytes: [Counter; 4],
    requests: [Counter; 4],
}

impl Metrics {
    pub(crate) fn new() -> Self {
        describe();
        let not_admitted = ["moved", "store"]
            .map(|reason| counter!("forebay_fills_not_stored_total", "reason" => reason));
        let revalidations = ["fresh", "changed", "gone", "error"]
            .map(|result| counter!("forebay_revalidations_total", "result" => result));
        let fallbacks = ["gone", "unreachable", "not_owner", "origin", "broke_off"]
            .map(|reason| counter!("forebay_fallback_total", "reason" => reason));
        let announced = ["authority", "fence", "everybody", "failed"]
            .map(|outcome| counter!("forebay_announced_writes_total", "outcome" => outcome));
        Self {
            buckets: RwLock::default(),
            announced,
            fallbacks,
            peeked_bytes: counter!("forebay_peeked_bytes_total"),
            coalesced_requests: counter!("forebay_coalesced_requests_total"),
            fill_duration_seconds: histogram!("forebay_fill_duration_seconds"),
            mixed_version_prevented: counter!("forebay_mixed_version_prevented_total"),
            not_admitted,
            revalidations,
        }
    }

    /// The handles of a bucket label; labels are bounded by the configured rules.
    pub(crate) fn bucket(&self, label: &Arc<str>) -> Arc<BucketMetrics> {
        if let Some(bound) = self.buckets.read().get(label) {
            return bound.clone();
        }
        self.buckets.write().entry(label.clone()).or_insert_with(|| bind(label)).clone()
    }

    pub(crate) fn joined_a_fill(&self) {
        self.coalesced_requests.increment(1);
    }

    pub(crate) fn filled(&self, took: Duration) {
        self.fill_duration_seconds.record(took.as_secs_f64());
    }

    pub(crate) fn not_admitted(&self, reason: NotAdmitted) {
        self.not_admitted[reason as usize].increment(1);
    }

    pub(crate) fn mixed_version_prevented(&self) {
        self.mixed_version_prevented.increment(1);
    }

    pub(crate) fn fell_back(&self, reason: Fallback) {
        self.fallbacks[reason as usize].increment(1);
    }

    pub(crate) fn broke_off(&self) {
        self.fell_back(Fallback::BrokeOff);
    }

    pub(crate) fn peeked(&self, bytes: u64) {
        self.peeked_bytes.increment(bytes);
    }

    pub(crate) fn announced(&self, how: Announced) {
        self.announced[how as usize].increment(1);
    }

    pub(crate) fn revalidated(&self, result: Revalidation) {
        self.revalidations[result as usize].increment(1);
    }
}

/// What the page says of each metric.
fn describe() {
    describe_counter!(
        "forebay_announced_writes_total",
        "Writes made known to the cluster, by the way it was done."
    );
    describe_counter!(
        "forebay_coalesced_requests_total",
        "Reads that followed a fill on its way instead of asking the origin again."
    );
    describe_counter!(
        "forebay_fallback_total",
        "Owners that were passed over for the next one, by reason."
    );
    describe_histogram!(
        "forebay_fill_duration_seconds",
        "Seconds from the beginning of a fill to its end."
    );
    describe_counter!(
        "forebay_fills_not_stored_total",
        "Fills whose bytes did not become cached ones, by reason."
    );
    describe_counter!(
        "forebay_mixed_version_prevented_total",
        "Reads whose object changed before their end: begun anew or cut, never mixed."
    );
    describe_counter!(
        "forebay_peeked_bytes_total",
        "Bytes that came from the disks of earlier owners instead of the origin."
    );
    describe_counter!(
        "forebay_revalidations_total",
        "Questions to the origin about a known version, by answer."
    );
    describe_counter!(
        "forebay_served_bytes_total",
        "Bytes handed to clients, by where they came from."
    );
    describe_counter!(
        "forebay_served_requests_total",
        "Reads handed to clients to their end, by the farthest tier that a byte came from."
    );
}

impl BucketMetrics {
    pub(crate) fn served_bytes(&self, tier: Tier, bytes: u64) {
        self.bytes[tier as usize].increment(bytes);
    }

    /// A request counts for the slowest tier that any of its bytes came from.
    pub(crate) fn served_request(&self, slowest: Tier) {
        self.requests[slowest as usize].increment(1);
    }
}

fn bind(label: &Arc<str>) -> Arc<BucketMetrics> {
    let of = |name: &'static str, tier: Tier| counter!(name, "bucket" => label.to_string(), "tier" => tier.as_str());
    Arc::new(BucketMetrics {
        bytes: Tier::ALL.map(|tier| of("forebay_served_bytes_total", tier)),
        requests: Tier::ALL.map(|tier| of("forebay_served_requests_total", tier)),
    })
}
