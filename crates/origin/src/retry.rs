//! Trying again, with full jitter, what may work the next time.

use std::future::Future;

use forebay_rt::{Backoff, SharedClock, SharedRng};

use crate::error::{Failure, OriginError};
use crate::metrics;

/// Runs tries until one succeeds, one fails for good, or the backoff has no more.
#[derive(Debug)]
pub(crate) struct Retrying {
    backoff: Backoff,
    clock: SharedClock,
    rng: SharedRng,
}

impl Retrying {
    pub(crate) fn new(backoff: Backoff, clock: SharedClock, rng: SharedRng) -> Self {
        Self { backoff, clock, rng }
    }

    pub(crate) async fn run<T, F>(&self, attempt: impl Fn() -> F) -> Result<T, OriginError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut failed = 0;
        loop {
            let failure = match attempt().await {
                Ok(value) => return Ok(value),
                Err(failure) => failure,
            };
            failed += 1;
            let Some(reason) = failure.retry else { return Err(failure.error) };
            let Some(wait) = self.backoff.wait_after(failed, self.rng.as_ref()) else {
                return Err(failure.error);
            };
            metrics::retried(reason);
            self.clock.sleep(wait).await;
        }
    }
}
