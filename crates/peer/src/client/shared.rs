//! What all peers have in common, and the news that they bring.

use std::sync::Arc;
use std::time::Instant;

use forebay_rt::{SharedClock, SharedRng};
use forebay_types::{Epoch, View, WorkerId};
use forebay_wire::Handshake;
use tokio::sync::{mpsc, watch};

use crate::limits::PeerLimits;
use crate::metrics::PeerMetrics;

pub(super) struct Shared {
    pub(super) handshake: Handshake,
    pub(super) limits: PeerLimits,
    pub(super) clock: SharedClock,
    pub(super) rng: SharedRng,
    pub(super) metrics: Arc<PeerMetrics>,
    pub(super) views: watch::Receiver<Arc<View>>,
    pub(super) news: mpsc::Sender<WorkerId>,
    pub(super) started: Instant,
}

impl Shared {
    /// Milliseconds since the start, from 1: zero is free to mean never.
    pub(super) fn now_ms(&self) -> u64 {
        let since = self.clock.now().saturating_duration_since(self.started);
        since.as_millis() as u64 + 1
    }

    /// The epoch that this worker is on.
    pub(super) fn epoch(&self) -> Epoch {
        self.views.borrow().ring.epoch
    }
}

/// Which workers know a newer epoch than this one.
#[derive(Debug)]
pub struct EpochNews(pub(super) mpsc::Receiver<WorkerId>);

impl EpochNews {
    /// The next worker whose view is worth fetching. Each is named at most every
    /// [`PeerLimits::news_pause`], and for as long as it keeps answering with a newer epoch.
    /// `None` when nobody asks peers any more.
    pub async fn next(&mut self) -> Option<WorkerId> {
        self.0.recv().await
    }
}
