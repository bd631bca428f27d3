//! The connections to one peer: so many, and no more.
//!
//! A request holds a place for as long as it has a connection. Idle connections need none: a
//! request takes one of them before it makes a new one, so idle and busy ones together are never
//! more than there are places.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use forebay_rt::timeout;
use forebay_wire::peer::Failure;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::PeerError;
use super::exchange::Call;
use super::link::Link;
use super::shared::Shared;

pub(super) struct Pool {
    size: usize,
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    /// The one used last is the first to be used again, so that the others can age and be closed.
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    link: Link,
    since_ms: u64,
}

impl Pool {
    pub(super) fn new(size: usize) -> Self {
        let places = Arc::new(Semaphore::new(size));
        Self { size, places, waiting: AtomicUsize::new(0), idle: Mutex::default() }
    }

    /// A place, if nobody waits for one.
    pub(super) fn try_place(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    /// A place, when one is free and it is this request's turn.
    pub(super) async fn place(&self, shared: &Shared) -> Result<OwnedSemaphorePermit, PeerError> {
        let too_many = || PeerError::Failed(Failure::SlowDown);
        let _waits = Waits::begin(&self.waiting, shared.limits.waiting).ok_or_else(too_many)?;
        let place = self.places.clone().acquire_owned();
        match timeout(&*shared.clock, shared.limits.wait, place).await {
            Ok(Ok(place)) => Ok(place),
            // The semaphore is never closed: what is left is that it took too long.
            Ok(Err(_)) | Err(_) => Err(too_many()),
        }
    }

    /// A connection that is there already.
    pub(super) fn idle_link(&self) -> Option<Link> {
        loop {
            let Idle { link, .. } = self.idle.lock().pop()?;
            if link.is_ready() {
                return Some(link);
            }
        }
    }

    /// Takes back a connection over which nothing more is to come, and then its place.
    pub(super) fn give_back(&self, call: Call, now_ms: u64) {
        let Call { link, place, .. } = call;
        self.idle.lock().push(Idle { link, since_ms: now_ms });
        drop(place);
    }

    /// Closes connections that have been idle since before.
    pub(super) fn close_idle_since(&self, before_ms: u64) {
        let mut idle = self.idle.lock();
        let old = idle.partition_point(|idle| idle.since_ms < before_ms);
        let old: Vec<Idle> = idle.drain(..old).collect();
        drop(idle);
        drop(old);
    }

    /// Closes all idle connections.
    pub(super) fn close_idle(&self) {
        drop(std::mem::take(&mut *self.idle.lock()));
    }

    /// Connections in use.
    pub(super) fn busy(&self) -> usize {
        self.size - self.places.available_permits()
    }

    /// Connections not in use.
    pub(super) fn idle(&self) -> usize {
        self.idle.lock().len()
    }

    /// Requests without a place.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// A request in the queue for a place.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn begin(waiting: &'a AtomicUsize, max: usize) -> Option<Self> {
        let waits = Self(waiting);
        let ahead = waiting.fetch_add(1, Ordering::Relaxed);
        (ahead < max).then_some(waits)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
