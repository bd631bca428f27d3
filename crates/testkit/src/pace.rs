//! How fast bytes are let through, and how many requests a second.

use std::time::{Duration, Instant};

use forebay_rt::Clock;

/// Pieces a second that a paced stream is cut into, between the bounds below.
const PIECES_PER_SECOND: u64 = 250;
const MIN_PIECE_BYTES: u64 = 64;
/// Largest piece; small enough to stay in a core's cache between making and sending it.
pub(crate) const MAX_PIECE_BYTES: u64 = 256 << 10;

/// Timers are good to a millisecond: a shorter wait is left to the next piece.
const SHORTEST_WAIT: Duration = Duration::from_micros(500);

/// Requests that may come at once, as a share of a second's.
const BURST_SECONDS: f64 = 0.1;

/// How far a stream may be behind its schedule and still catch up. Timers and busy machines
/// are late by milliseconds; a pause of the sender earns nothing.
const SLACK: Duration = Duration::from_millis(50);

/// The schedule of one stream: a piece leaves when its last byte would have arrived over a
/// line of that rate.
#[derive(Debug)]
pub(crate) struct Pace {
    due: Instant,
    bytes_per_second: Option<u64>,
}

impl Pace {
    pub(crate) fn new(started: Instant, bytes_per_second: Option<u64>) -> Self {
        Self { due: started, bytes_per_second: bytes_per_second.filter(|&rate| rate > 0) }
    }

    /// Changes the rate, from the next piece on.
    pub(crate) fn set_rate(&mut self, bytes_per_second: Option<u64>) {
        self.bytes_per_second = bytes_per_second.filter(|&rate| rate > 0);
    }

    pub(crate) fn piece_bytes(&self) -> u64 {
        self.bytes_per_second.map_or(MAX_PIECE_BYTES, |rate| {
            (rate / PIECES_PER_SECOND).clamp(MIN_PIECE_BYTES, MAX_PIECE_BYTES)
        })
    }

    /// Completes when the next `bytes` are due.
    pub(crate) async fn release(&mut self, clock: &dyn Clock, bytes: u64) {
        let Some(rate) = self.bytes_per_second else { return };
        let now = clock.now();
        let earliest = now.checked_sub(SLACK).unwrap_or(now);
        self.due = self.due.max(earliest) + Duration::from_secs_f64(bytes as f64 / rate as f64);
        let wait = self.due.saturating_duration_since(now);
        if wait >= SHORTEST_WAIT {
            clock.sleep(wait).await;
        }
    }
}

/// A token bucket of requests.
#[derive(Debug)]
pub(crate) struct Throttle {
    tokens: f64,
    filled: Instant,
}

impl Throttle {
    pub(crate) fn new(now: Instant) -> Self {
        Self { tokens: 1.0, filled: now }
    }

    /// Whether one more request fits.
    pub(crate) fn admit(&mut self, now: Instant, per_second: u64) -> bool {
        let rate = per_second as f64;
        let earned = now.duration_since(self.filled).as_secs_f64() * rate;
        self.filled = now;
        self.tokens = (self.tokens + earned).min((rate * BURST_SECONDS).max(1.0));
        let fits = self.tokens >= 1.0;
        if fits {
            self.tokens -= 1.0;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_rt::SystemClock;

    #[test]
    fn a_throttle_admits_its_rate_and_no_more() {
        let start = SystemClock.now();
        let mut throttle = Throttle::new(start);
        let asks = (0..10_000).map(|i| start + Duration::from_millis(i));
        let admitted = asks.filter(|&now| throttle.admit(now, 500)).count();
        assert!((4990..=5060).contains(&admitted), "{admitted} in 10 s at 500 a second");
    }
}
