//! What a worker counts of its membership.

use std::time::Duration;

use forebay_telemetry::metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};
use forebay_types::{View, WorkerState};

use crate::metrics::describe_members;

const STATES: [WorkerState; 4] =
    [WorkerState::Joining, WorkerState::Active, WorkerState::Draining, WorkerState::Down];

/// Handles, bound once. Made after the recorder is there.
pub(super) struct Metrics {
    ring_epoch: Gauge,
    ring_members: [Gauge; 4],
    heartbeat_seconds: Histogram,
    heartbeat_failures: Counter,
    lease_held: Gauge,
    fences: [Counter; 2],
}

impl Metrics {
    pub(super) fn new() -> Self {
        describe();
        describe_members();
        let fences = ["begun", "no_voters"]
            .map(|outcome| counter!("forebay_fences_total", "outcome" => outcome));
        Self {
            ring_epoch: gauge!("forebay_ring_epoch"),
            ring_members: STATES
                .map(|state| gauge!("forebay_ring_members", "state" => state.as_str())),
            heartbeat_seconds: histogram!("forebay_heartbeat_seconds"),
            heartbeat_failures: counter!("forebay_heartbeat_failures_total"),
            lease_held: gauge!("forebay_lease_held"),
            fences,
        }
    }

    pub(super) fn saw(&self, view: &View) {
        self.ring_epoch.set(view.ring.epoch.0 as f64);
        for (state, gauge) in STATES.iter().zip(&self.ring_members) {
            gauge.set(view.workers.iter().filter(|worker| worker.state == *state).count() as f64);
        }
    }

    pub(super) fn heartbeat_answered(&self, took: Duration) {
        self.heartbeat_seconds.record(took.as_secs_f64());
    }

    pub(super) fn heartbeat_failed(&self) {
        self.heartbeat_failures.increment(1);
    }

    /// Whether the lease lets this worker vouch.
    pub(super) fn lease_held(&self, held: bool) {
        self.lease_held.set(f64::from(u8::from(held)));
    }

    pub(super) fn fenced(&self, has_begun: bool) {
        self.fences[usize::from(!has_begun)].increment(1);
    }
}

/// What the page says of each metric.
fn describe() {
    describe_counter!(
        "forebay_fences_total",
        "Epochs that this worker wanted begun for a write, by whether they were."
    );
    describe_counter!(
        "forebay_heartbeat_failures_total",
        "Heartbeats of this worker that no voter answered."
    );
    describe_histogram!(
        "forebay_heartbeat_seconds",
        "Seconds until the voters answered a heartbeat of this worker."
    );
    describe_gauge!(
        "forebay_lease_held",
        "1 while this worker may answer for its names from memory."
    );
    describe_gauge!("forebay_ring_epoch", "Number of the ring that this worker follows.");
}
