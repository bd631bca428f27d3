//! How many requests may be at the origin at once, and how many may wait for their turn.
//!
//! Some loaders give up after three `503`s in a row, so the queue comes first and the refusal
//! only when the queue is full or the wait too long.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use forebay_rt::{SharedClock, timeout};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::OriginConfig;
use crate::error::OriginError;
use crate::metrics;

#[derive(Debug)]
pub(crate) struct Limit {
    slots: Arc<Semaphore>,
    waiting: AtomicUsize,
    max_waiting: usize,
    wait_timeout: Duration,
    clock: SharedClock,
}

/// One request at the origin, for as long as it or its body lives.
#[derive(Debug)]
pub(crate) struct InFlight {
    _slot: OwnedSemaphorePermit,
    _gauge: metrics::InFlightGauge,
}

impl Limit {
    pub(crate) fn new(config: &OriginConfig, clock: SharedClock) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(config.max_in_flight)),
            waiting: AtomicUsize::new(0),
            max_waiting: config.max_waiting,
            wait_timeout: config.wait_timeout,
            clock,
        }
    }

    /// A slot, after a bounded wait in a bounded queue.
    pub(crate) async fn enter(&self) -> Result<InFlight, OriginError> {
        let slot = match Arc::clone(&self.slots).try_acquire_owned() {
            Ok(slot) => slot,
            Err(_) => self.wait_for_slot().await?,
        };
        Ok(InFlight { _slot: slot, _gauge: metrics::in_flight() })
    }

    async fn wait_for_slot(&self) -> Result<OwnedSemaphorePermit, OriginError> {
        let _place = Place::take(&self.waiting, self.max_waiting).ok_or(OriginError::SlowDown)?;
        let slot = Arc::clone(&self.slots).acquire_owned();
        match timeout(self.clock.as_ref(), self.wait_timeout, slot).await {
            Ok(Ok(slot)) => Ok(slot),
            // The semaphore is never closed: what is left is that the wait was too long.
            Ok(Err(_)) | Err(_) => Err(OriginError::SlowDown),
        }
    }
}

/// A place in the queue.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicUsize, max_waiting: usize) -> Option<Self> {
        let place = Self(waiting);
        let ahead = waiting.fetch_add(1, Ordering::Relaxed);
        (ahead < max_waiting).then_some(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
