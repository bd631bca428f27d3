//! The bounds of the workers' and operators' side of the control port. What safety rests on is
//! in `lease`.

use std::time::Duration;

use forebay_rt::Backoff;

use super::lease::LEASE;
use crate::limits::{HELLO_TIME_MAX, MEMBERSHIP_TIME_MAX, PROPOSE_TIME_MAX, VOTERS_MAX};

/// A worker's patience with the voters. Only tests need others than the default.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// From the start of one heartbeat to the start of the next.
    pub heartbeat_every: Duration,
    /// For one voter's answer to a heartbeat, or to begin a watch.
    pub answer: Duration,
    /// For one voter's answer to a fence, which waits for a majority's disks.
    pub fence_answer: Duration,
    /// For all tries to begin an epoch together.
    pub fence: Duration,
    /// Without news from the voter that is followed, before another is. Voters speak at least
    /// every 5 s.
    pub silence: Duration,
    /// Between tries to follow a voter, and to begin an epoch.
    pub retry: Backoff,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            heartbeat_every: HEARTBEAT_EVERY,
            answer: ANSWER,
            fence_answer: Duration::from_secs(2),
            fence: Duration::from_secs(10),
            silence: Duration::from_secs(10),
            retry: Backoff {
                base: Duration::from_millis(100),
                cap: Duration::from_secs(1),
                tries: u32::MAX,
            },
        }
    }
}

const HEARTBEAT_EVERY: Duration = Duration::from_millis(500);
const ANSWER: Duration = Duration::from_millis(750);

// One heartbeat may be lost, and the next be answered late, without the lease lapsing.
const _: () = assert!(LEASE.as_millis() > 2 * (HEARTBEAT_EVERY.as_millis() + ANSWER.as_millis()));

/// Heartbeats in a row that name a newer epoch than the view before another voter is followed.
pub(super) const BEHIND_BEATS: u32 = 3;

/// Voters asked for one thing: each that is configured, and where they say that the leader is.
pub(super) const ASKS_MAX: usize = VOTERS_MAX + 3;

/// Connections kept to voters; leaders that were not configured come and go.
pub(super) const CHANNELS_MAX: usize = 16;

/// An operator's patience with a change.
pub(crate) const CHANGE: Duration = Duration::from_secs(10);

/// With a change of the voters: a new one must copy the state before it is one.
pub(crate) const CHANGE_OF_VOTERS: Duration = Duration::from_secs(75);

/// With one voter's answer to what it is and knows.
pub(crate) const STATUS: Duration = Duration::from_secs(3);

/// With the next piece of a snapshot.
pub(crate) const SNAPSHOT_PIECE: Duration = Duration::from_secs(30);

// Who is more patient than the leader learns what the leader knows.
const _: () = assert!(CHANGE.as_millis() > PROPOSE_TIME_MAX.as_millis());
const _: () = assert!(
    CHANGE_OF_VOTERS.as_millis() > MEMBERSHIP_TIME_MAX.as_millis() + HELLO_TIME_MAX.as_millis()
);
