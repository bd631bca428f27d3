//! Which workers there are, and the care that all of them need.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use forebay_types::{View, WorkerId};
use parking_lot::RwLock;

use super::error::PeerError;
use super::peer::Peer;
use super::shared::Shared;

pub(super) struct Directory {
    shared: Arc<Shared>,
    known: RwLock<Known>,
}

/// The peers of one view.
#[derive(Default)]
struct Known {
    view: Option<Arc<View>>,
    peers: HashMap<WorkerId, Arc<Peer>>,
    /// No longer in the view, or elsewhere by now: asked nothing more, and cared for until what
    /// is under way has ended.
    leaving: Vec<Arc<Peer>>,
}

impl Directory {
    pub(super) fn new(shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self { shared, known: RwLock::default() })
    }

    /// The worker, as the latest view describes it.
    pub(super) fn find(&self, id: WorkerId) -> Result<Arc<Peer>, PeerError> {
        self.follow();
        let found = self.known.read().peers.get(&id).cloned();
        found.ok_or_else(|| PeerError::Unreachable("it is not in the view".into()))
    }

    /// Takes over the latest view, if that is another one than before.
    fn follow(&self) {
        let view = self.shared.views.borrow().clone();
        let is_known = |known: &Known| known.view.as_ref().is_some_and(|of| Arc::ptr_eq(of, &view));
        if !is_known(&self.known.read()) {
            self.known.write().follow(view, &self.shared);
        }
    }

    /// Looks after all peers, every [`tick`](crate::PeerLimits::tick), for as long as there is
    /// a directory.
    pub(super) async fn care(directory: Weak<Self>, shared: Arc<Shared>) {
        loop {
            shared.clock.sleep(shared.limits.tick).await;
            let Some(directory) = directory.upgrade() else { return };
            directory.look_after();
        }
    }

    fn look_after(&self) {
        let peers = self.known.write().all();
        let now_ms = self.shared.now_ms();
        for peer in &peers {
            peer.look_after(now_ms);
        }
        let busy = peers.iter().map(|peer| peer.pool.busy()).sum();
        let idle = peers.iter().map(|peer| peer.pool.idle()).sum();
        let suspects = peers.iter().filter(|peer| peer.life.is_down()).count();
        self.shared.metrics.seen(busy, idle, suspects);
    }
}

impl Known {
    fn follow(&mut self, view: Arc<View>, shared: &Arc<Shared>) {
        let before = std::mem::take(&mut self.peers);
        for worker in &view.workers {
            let same = before.get(&worker.id).filter(|peer| peer.addr == worker.data_addr);
            let new = || Peer::new(worker.id, &worker.data_addr, shared.clone());
            self.peers.insert(worker.id, same.cloned().unwrap_or_else(new));
        }
        let stays = |peer: &Arc<Peer>| {
            self.peers.get(&peer.id).is_some_and(|known| Arc::ptr_eq(known, peer))
        };
        self.leaving.extend(before.into_values().filter(|peer| !stays(peer)));
        self.view = Some(view);
    }

    fn all(&mut self) -> Vec<Arc<Peer>> {
        self.leaving.retain(|peer| {
            peer.pool.close_idle();
            !peer.exchanges.is_empty()
        });
        self.peers.values().chain(&self.leaving).cloned().collect()
    }
}
