//! Handing over: a worker that leaves the ring offers what it holds to those who own it now.
//!
//! It offers, they fetch: the new owner brings each extent as it brings anything, and finds it on
//! the shelf of this worker, which owned it before. So nothing is taken on trust, a new owner
//! that has the bytes already takes nothing, and one that is busy sets the pace.

use std::sync::Arc;
use std::time::Duration;

use forebay_meta::worker::Membership;
use forebay_peer::Peers;
use forebay_rt::{Clock, SharedClock};
use forebay_store::{HeldCursor, HeldExtent, Store};
use forebay_types::{BlockIndex, ObjectName, WorkerId, WorkerState};
use forebay_wire::peer::WarmAsk;
use futures_util::{StreamExt, stream};
use tokio::sync::watch;

use super::placement::RingPlacement;
use super::rings::Rings;
use super::status::HandedOver;

/// How often an extent is offered to an owner that does not take it, with longer pauses each time:
/// it may be out of memory for fills, or slow to answer for a moment.
const OFFER_TRIES: u32 = 4;
const OFFER_PAUSE: Duration = Duration::from_millis(200);
/// Extents offered at the same time.
const OFFERS: usize = 8;
/// Extents read from the index at a time.
const PAGE_EXTENTS: usize = 512;
/// How long a new owner may take for one extent: it may have others to bring as well.
const OFFER_LIMIT: Duration = Duration::from_secs(30);

/// How far this worker has handed over what it holds.
#[derive(Debug)]
pub(crate) struct Handover(watch::Sender<Option<HandedOver>>);

impl Default for Handover {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Handover {
    /// `None` for a worker that stays.
    pub(super) fn progress(&self) -> Option<HandedOver> {
        *self.0.borrow()
    }

    /// Returns when everything has been offered.
    pub(super) async fn finished(&self) {
        let mut progress = self.0.subscribe();
        let is_done = |progress: &Option<HandedOver>| progress.is_some_and(|so_far| so_far.done);
        // The sender lives as long as `self`.
        let _ = progress.wait_for(is_done).await;
    }

    /// Hands over whenever this worker is told to leave, for as long as the task lives.
    pub(super) async fn follow(
        self: Arc<Self>,
        placement: Arc<RingPlacement>,
        membership: Arc<Membership>,
        peers: Peers,
        store: Arc<Store>,
        clock: SharedClock,
    ) {
        let mut views = membership.view();
        loop {
            let me = placement.me();
            let state = views.borrow_and_update().worker(me).map(|worker| worker.state);
            match (state, self.progress()) {
                (Some(WorkerState::Draining), None) => {
                    let leaving = Leaving {
                        handover: &self,
                        placement: &placement,
                        peers: &peers,
                        clock: &*clock,
                    };
                    leaving.run(&store).await;
                }
                (Some(WorkerState::Active), Some(_)) => drop(self.0.send_replace(None)),
                _ => {}
            }
            if views.changed().await.is_err() {
                return;
            }
        }
    }
}

struct Leaving<'a> {
    handover: &'a Handover,
    placement: &'a RingPlacement,
    peers: &'a Peers,
    clock: &'a dyn Clock,
}

impl Leaving<'_> {
    async fn run(&self, store: &Arc<Store>) {
        self.handover.0.send_replace(Some(HandedOver { done: false, taken: 0, left: 0 }));
        let rings = self.placement.rings_without_me().await;
        tracing::info!(epoch = rings.epoch().0, "handing over what this worker holds");
        let mut cursor = Some(HeldCursor::default());
        while let Some(at) = cursor.take() {
            let page = store.held(at, PAGE_EXTENTS).await;
            let offers = page.extents.into_iter().map(|extent| self.offer(&rings, extent));
            stream::iter(offers)
                .buffer_unordered(OFFERS)
                .for_each(|taken| async move { self.count(taken) })
                .await;
            cursor = page.next;
        }
        self.handover.0.send_modify(|progress| {
            if let Some(progress) = progress {
                progress.done = true;
            }
        });
        tracing::info!(progress = ?self.handover.progress(), "handed over");
    }

    /// Whether somebody has it now.
    async fn offer(&self, rings: &Rings, extent: HeldExtent) -> bool {
        let HeldExtent { id, range } = extent;
        let (rule, bucket, key) = (id.rule(), id.bucket().clone(), id.key().clone());
        let name = ObjectName { rule, bucket, key, version_id: None };
        let Some(owner) = self.owner(rings, &name, BlockIndex::of(range.start())) else {
            return false;
        };
        let (epoch, stamp) = (rings.epoch(), id.stamp().clone());
        let ask = WarmAsk { epoch, name, stamp, range, wait: true };
        for tried in 1..=OFFER_TRIES {
            let taking = self.peers.warm_and_wait(owner, ask.clone());
            let taken = forebay_rt::timeout(self.clock, OFFER_LIMIT, taking).await;
            if matches!(taken, Ok(Ok(()))) {
                return true;
            }
            self.clock.sleep(OFFER_PAUSE * tried).await;
        }
        false
    }

    fn owner(&self, rings: &Rings, name: &ObjectName, block: BlockIndex) -> Option<WorkerId> {
        let owners = rings.present.owners(name, block);
        owners.iter().copied().find(|owner| *owner != self.placement.me())
    }

    fn count(&self, taken: bool) {
        self.handover.0.send_modify(|progress| {
            if let Some(progress) = progress {
                progress.taken += u64::from(taken);
                progress.left += u64::from(!taken);
            }
        });
    }
}
