//! Whether a body still moves: no silence beyond a limit, no drip below a rate.
//!
//! Only time in which somebody waits for the origin counts, so that a slow reader is never taken
//! for a slow origin.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use forebay_rt::SharedClock;

use crate::config::MinRate;

/// The limits of one origin, from which every body gets its own watchdog.
#[derive(Debug, Clone)]
pub(crate) struct Patience {
    pub(crate) stall_timeout: Duration,
    pub(crate) min_rate: MinRate,
    pub(crate) clock: SharedClock,
}

pub(crate) struct Watchdog {
    patience: Patience,
    waiting_since: Option<Instant>,
    alarm: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    waited: Duration,
    bytes: u64,
}

/// The body is too slow.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooSlow(pub(crate) String);

impl Patience {
    pub(crate) fn watch(&self) -> Watchdog {
        Watchdog {
            patience: self.clone(),
            waiting_since: None,
            alarm: None,
            waited: Duration::ZERO,
            bytes: 0,
        }
    }
}

impl Watchdog {
    /// Nothing has come yet; wakes the task when it has not for too long.
    ///
    /// The alarm is not set anew for each piece of a body but left to ring, and then set for
    /// what is left: one timer a limit, not one a piece.
    pub(crate) fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<TooSlow> {
        let limit = self.patience.stall_timeout;
        let clock = &self.patience.clock;
        let since = *self.waiting_since.get_or_insert_with(|| clock.now());
        loop {
            let alarm = self.alarm.get_or_insert_with(|| {
                let silent = clock.now().saturating_duration_since(since);
                clock.sleep(limit.saturating_sub(silent))
            });
            if alarm.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.alarm = None;
            if clock.now().saturating_duration_since(since) >= limit {
                return Poll::Ready(TooSlow(format!("no byte for {} ms", limit.as_millis())));
            }
        }
    }

    /// `bytes` have come.
    pub(crate) fn moved(&mut self, bytes: usize) -> Result<(), TooSlow> {
        self.bytes += bytes as u64;
        if let Some(since) = self.waiting_since.take() {
            self.waited += self.patience.clock.now().saturating_duration_since(since);
        }
        let MinRate { bytes_per_s, window } = self.patience.min_rate;
        if self.waited < window {
            return Ok(());
        }
        let (waited, bytes) = (std::mem::take(&mut self.waited), std::mem::take(&mut self.bytes));
        let rate = bytes as f64 / waited.as_secs_f64().max(f64::MIN_POSITIVE);
        if rate < bytes_per_s as f64 {
            let waited_ms = waited.as_millis();
            return Err(TooSlow(format!("only {bytes} bytes in {waited_ms} ms")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;

    use forebay_rt::ManualClock;
    use futures_util::FutureExt;

    use super::*;

    fn watchdog() -> (Watchdog, ManualClock) {
        let clock = ManualClock::new();
        let patience = Patience {
            stall_timeout: Duration::from_secs(10),
            min_rate: MinRate { bytes_per_s: 100, window: Duration::from_secs(30) },
            clock: Arc::new(clock.clone()),
        };
        (patience.watch(), clock)
    }

    fn rings(watchdog: &mut Watchdog) -> bool {
        poll_fn(|cx| watchdog.poll_silence(cx)).now_or_never().is_some()
    }

    #[test]
    fn silence_is_counted_from_the_last_byte_waited_for() {
        let (mut watchdog, clock) = watchdog();
        assert!(!rings(&mut watchdog));
        clock.advance(Duration::from_secs(9));
        watchdog.moved(1_000).unwrap();
        assert!(!rings(&mut watchdog));
        clock.advance(Duration::from_secs(9));
        assert!(!rings(&mut watchdog), "an alarm set for an earlier wait means nothing");
        clock.advance(Duration::from_secs(1));
        assert!(rings(&mut watchdog));
    }

    #[test]
    fn time_in_which_nobody_reads_does_not_count() {
        let (mut watchdog, clock) = watchdog();
        watchdog.moved(1).unwrap();
        clock.advance(Duration::from_hours(1));
        watchdog.moved(1).unwrap();
        assert!(!rings(&mut watchdog));
    }

    #[test]
    fn a_drip_below_the_rate_is_given_up() {
        let (mut watchdog, clock) = watchdog();
        for nth in 1..=6 {
            assert!(!rings(&mut watchdog));
            clock.advance(Duration::from_secs(5));
            assert_eq!(watchdog.moved(10).is_err(), nth == 6);
        }
        for _ in 1..=12 {
            assert!(!rings(&mut watchdog));
            clock.advance(Duration::from_secs(5));
            watchdog.moved(1_000).unwrap();
        }
    }
}
