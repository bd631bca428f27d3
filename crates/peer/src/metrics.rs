//! What this crate counts: names here, one verb at each call site.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use forebay_rt::SharedClock;
use forebay_telemetry::metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};
use forebay_wire::HandshakeError;
use forebay_wire::peer::Failure;

use crate::client::PeerError;
use crate::protocol::Op;

/// Why a connection to the data port is not served.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Refusal {
    /// It does not speak our handshake, or stopped in the middle of it.
    Stranger,
    /// It has another secret.
    Secret,
    /// It is of another release, or took this port for another.
    Mismatch,
    /// It took too long.
    TimedOut,
    /// It took longest when others came.
    CrowdedOut,
    /// A peer, but one connection too many.
    Full,
}

impl Refusal {
    const ALL: [Self; 6] = [
        Self::Stranger,
        Self::Secret,
        Self::Mismatch,
        Self::TimedOut,
        Self::CrowdedOut,
        Self::Full,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Stranger => "stranger",
            Self::Secret => "secret",
            Self::Mismatch => "mismatch",
            Self::TimedOut => "timeout",
            Self::CrowdedOut => "crowded_out",
            Self::Full => "full",
        }
    }
}

impl From<&HandshakeError> for Refusal {
    fn from(error: &HandshakeError) -> Self {
        match error {
            HandshakeError::NotForebay | HandshakeError::Broken(_) => Self::Stranger,
            HandshakeError::Secret => Self::Secret,
            HandshakeError::Version { .. } | HandshakeError::Purpose { .. } => Self::Mismatch,
            HandshakeError::TimedOut => Self::TimedOut,
        }
    }
}

/// What the data port counts. To be made after the recorder is there.
pub(crate) struct ServerMetrics {
    connections: Gauge,
    refused: [Counter; Refusal::ALL.len()],
}

impl ServerMetrics {
    pub(crate) fn new() -> Self {
        describe_server();
        let refused = |refusal: Refusal| counter!("forebay_peer_connections_refused_total", "reason" => refusal.as_str());
        Self {
            connections: gauge!("forebay_peer_connections_served"),
            refused: Refusal::ALL.map(refused),
        }
    }

    pub(crate) fn refused(&self, refusal: Refusal) {
        self.refused[refusal as usize].increment(1);
    }

    /// Counts a connection for as long as the guard lives.
    pub(crate) fn connected(&self) -> Connected {
        self.connections.increment(1.0);
        Connected(self.connections.clone())
    }
}

/// What the page says of each metric.
fn describe_server() {
    describe_gauge!(
        "forebay_peer_connections_served",
        "Connections of other workers that are open at the data port."
    );
    describe_counter!(
        "forebay_peer_connections_refused_total",
        "Connections to the data port that were not served, by reason."
    );
}

/// Held by a connection.
pub(crate) struct Connected(Gauge);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// How a request to a peer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// With all that was promised.
    Ok,
    Gone,
    Unreachable,
    /// In the middle of the body, or with an answer that is none.
    Broken,
    /// The asker lost interest.
    Dropped,
    Refused,
    Uncacheable,
    Moved,
    SlowDown,
    OriginUnavailable,
    NotOwner,
    NoSuchRule,
    Internal,
}

impl Outcome {
    const COUNT: usize = Self::Internal as usize + 1;

    const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Gone => "gone",
            Self::Unreachable => "unreachable",
            Self::Broken => "broken",
            Self::Dropped => "dropped",
            Self::Refused => "refused",
            Self::Uncacheable => "uncacheable",
            Self::Moved => "moved",
            Self::SlowDown => "slow_down",
            Self::OriginUnavailable => "origin_unavailable",
            Self::NotOwner => "not_owner",
            Self::NoSuchRule => "no_such_rule",
            Self::Internal => "internal",
        }
    }
}

impl From<&PeerError> for Outcome {
    fn from(error: &PeerError) -> Self {
        match error {
            PeerError::Gone => Self::Gone,
            PeerError::Unreachable(_) => Self::Unreachable,
            PeerError::Failed(failure) => match failure {
                Failure::Refused { .. } => Self::Refused,
                Failure::Uncacheable(_) => Self::Uncacheable,
                Failure::Moved => Self::Moved,
                Failure::SlowDown => Self::SlowDown,
                Failure::OriginUnavailable(_) => Self::OriginUnavailable,
                Failure::NotOwner(_) => Self::NotOwner,
                Failure::NoSuchRule => Self::NoSuchRule,
                Failure::Internal(_) => Self::Internal,
            },
        }
    }
}

/// What the client counts. To be made after the recorder is there.
pub(crate) struct PeerMetrics {
    /// By operation and outcome, each bound when it first happens.
    requests: [[OnceLock<Counter>; Outcome::COUNT]; Op::ALL.len()],
    rtt_seconds: [Histogram; Op::ALL.len()],
    busy_connections: Gauge,
    idle_connections: Gauge,
    suspects: Gauge,
    epoch_mismatches: Counter,
    connections_taken: Counter,
    warms_dropped: Counter,
    piped_bytes: Counter,
}

impl PeerMetrics {
    pub(crate) fn new() -> Self {
        describe_client();
        let rtt = |op: Op| histogram!("forebay_peer_rtt_seconds", "op" => op.as_str());
        let connections =
            |state: &'static str| gauge!("forebay_peer_connections", "state" => state);
        Self {
            requests: Default::default(),
            rtt_seconds: Op::ALL.map(rtt),
            busy_connections: connections("busy"),
            idle_connections: connections("idle"),
            suspects: gauge!("forebay_peer_suspects"),
            epoch_mismatches: counter!("forebay_ring_epoch_mismatch_total"),
            connections_taken: counter!("forebay_peer_connections_taken_total"),
            warms_dropped: counter!("forebay_peer_warms_dropped_total"),
            piped_bytes: counter!("forebay_peer_piped_bytes_total"),
        }
    }

    /// A request to a peer ended.
    pub(crate) fn ended(&self, op: Op, outcome: Outcome) {
        let bind = || {
            let (op, outcome) = (op.as_str(), outcome.as_str());
            counter!("forebay_peer_requests_total", "op" => op, "outcome" => outcome)
        };
        self.requests[op as usize][outcome as usize].get_or_init(bind).increment(1);
    }

    /// The head of an answer has come.
    pub(crate) fn answered(&self, op: Op, after: Duration) {
        self.rtt_seconds[op as usize].record(after.as_secs_f64());
    }

    /// Connections to all peers, and how many of these are down, as of now.
    pub(crate) fn seen(&self, busy: usize, idle: usize, suspects: usize) {
        self.busy_connections.set(busy as f64);
        self.idle_connections.set(idle as f64);
        self.suspects.set(suspects as f64);
    }

    /// A peer is on another epoch than this worker.
    pub(crate) fn epoch_mismatched(&self) {
        self.epoch_mismatches.increment(1);
    }

    /// A body that nobody read lost its connection.
    pub(crate) fn connection_taken(&self) {
        self.connections_taken.increment(1);
    }

    /// A hint was not sent.
    pub(crate) fn warm_dropped(&self) {
        self.warms_dropped.increment(1);
    }

    /// So many bytes of a peer were not read, but left in a pipe.
    pub(crate) fn piped(&self, bytes: u64) {
        self.piped_bytes.increment(bytes);
    }
}

/// What the page says of each metric.
fn describe_client() {
    describe_gauge!(
        "forebay_peer_connections",
        "Connections to other workers that are open, busy and idle."
    );
    describe_counter!(
        "forebay_peer_connections_taken_total",
        "Connections taken away from bodies that nobody read."
    );
    describe_counter!(
        "forebay_peer_piped_bytes_total",
        "Bytes of other workers that went to clients through a pipe, unread."
    );
    describe_counter!(
        "forebay_peer_requests_total",
        "Requests to other workers, by operation and outcome."
    );
    describe_histogram!(
        "forebay_peer_rtt_seconds",
        "Seconds until the head of another worker's answer, by operation."
    );
    describe_gauge!(
        "forebay_peer_suspects",
        "Workers that are not asked until a probe finds them back."
    );
    describe_counter!(
        "forebay_peer_warms_dropped_total",
        "Hints to other workers, of what will be read, that were not sent."
    );
    describe_counter!(
        "forebay_ring_epoch_mismatch_total",
        "Answers of other workers that follow an older or newer ring."
    );
}

/// One request to a peer, counted when it ends, body included; as dropped, unless said otherwise.
pub(crate) struct Tally {
    metrics: Arc<PeerMetrics>,
    op: Op,
    begun: Instant,
    outcome: Outcome,
}

impl Tally {
    pub(crate) fn begin(metrics: &Arc<PeerMetrics>, op: Op, clock: &SharedClock) -> Self {
        let (metrics, begun) = (metrics.clone(), clock.now());
        Self { metrics, op, begun, outcome: Outcome::Dropped }
    }

    /// The head of the answer has come; whether it is good for anything is not known yet.
    pub(crate) fn answered(&mut self, clock: &SharedClock) {
        self.metrics.answered(self.op, clock.now().saturating_duration_since(self.begun));
        self.outcome = Outcome::Broken;
    }

    /// The answer is what it should be, as far as its head tells.
    pub(crate) fn accepted(&mut self) {
        self.outcome = Outcome::Dropped;
    }

    pub(crate) fn done(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.metrics.ended(self.op, self.outcome);
    }
}
