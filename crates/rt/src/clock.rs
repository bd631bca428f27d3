//! Time as something that is handed in.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::{Either, select};
use tokio::sync::watch;

/// Where time comes from.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Monotonic time.
    fn now(&self) -> Instant;
    /// Wall time, for dates on the wire.
    fn wall(&self) -> SystemTime;
    /// Completes when `duration` has passed.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// A clock as it is passed around.
pub type SharedClock = Arc<dyn Clock>;

/// A future did not finish in its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed;

/// Runs `future` for at most `limit` of `clock`'s time.
pub async fn timeout<F: Future>(
    clock: &dyn Clock,
    limit: Duration,
    future: F,
) -> Result<F::Output, Elapsed> {
    match select(pin!(future), clock.sleep(limit)).await {
        Either::Left((output, _)) => Ok(output),
        Either::Right(((), _)) => Err(Elapsed),
    }
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug, Clone)]
pub struct ManualClock {
    origin: (Instant, SystemTime),
    passed: Arc<watch::Sender<Duration>>,
}

impl ManualClock {
    /// Starts at the machine's present time.
    pub fn new() -> Self {
        let origin = (SystemClock.now(), SystemClock.wall());
        Self { origin, passed: Arc::new(watch::Sender::new(Duration::ZERO)) }
    }

    /// Moves time on and wakes every sleeper whose time has come.
    pub fn advance(&self, by: Duration) {
        self.passed.send_modify(|passed| *passed += by);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.origin.0 + *self.passed.borrow()
    }

    fn wall(&self) -> SystemTime {
        self.origin.1 + *self.passed.borrow()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut passed = self.passed.subscribe();
        let until = *passed.borrow() + duration;
        Box::pin(async move {
            // An error means that the clock itself is gone, and with it whoever would wake us.
            let _ = passed.wait_for(|now| *now >= until).await;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manual_clock_sleeps_until_it_is_moved() {
        let clock = ManualClock::new();
        let sleeper = crate::spawn(clock.sleep(Duration::from_secs(60)));
        clock.advance(Duration::from_secs(59));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(Duration::from_secs(1));
        sleeper.await.unwrap();
    }

    #[tokio::test]
    async fn timeouts_follow_the_clock() {
        let clock = ManualClock::new();
        assert_eq!(timeout(&clock, Duration::from_secs(1), async { 7 }).await, Ok(7));
        let (result, ()) = tokio::join!(
            timeout(&clock, Duration::from_secs(1), std::future::pending::<()>()),
            async { clock.advance(Duration::from_secs(2)) }
        );
        assert_eq!(result, Err(Elapsed));
    }
}
