//! Ending in order: new work stops, work in flight finishes, then the process leaves.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Handed to everything that accepts work. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    begun: CancellationToken,
    busy: TaskTracker,
}

/// Held while a piece of work is in flight.
#[derive(Debug)]
pub struct Busy(#[expect(dead_code, reason = "counts by being held")] TaskTrackerToken);

impl Shutdown {
    /// A process that is running.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells every holder to accept no more work.
    pub fn begin(&self) {
        self.begun.cancel();
        self.busy.close();
    }

    /// Whether shutdown has begun.
    pub fn has_begun(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// Completes when shutdown begins.
    pub async fn begun(&self) {
        self.begun.cancelled().await;
    }

    /// Marks one piece of work as in flight for as long as the guard lives.
    pub fn busy(&self) -> Busy {
        Busy(self.busy.token())
    }

    /// Pieces of work in flight.
    pub fn in_flight(&self) -> usize {
        self.busy.len()
    }

    /// Completes when shutdown has begun and nothing is in flight any more.
    pub async fn finished(&self) {
        self.begun().await;
        self.busy.wait().await;
    }
}
