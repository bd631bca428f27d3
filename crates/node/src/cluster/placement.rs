//! Who owns what, as the ring and the voters' lease have it.

use std::sync::Arc;

use forebay_cache::{Place, Placement, Vouching};
use forebay_meta::worker::{Membership, Standing};
use forebay_types::{BlockIndex, Epoch, ObjectName, View, WorkerId, WorkerState};
use tokio::sync::watch;

use super::rings::Rings;

/// Placement by the present ring.
pub(crate) struct RingPlacement {
    me: WorkerId,
    membership: Arc<Membership>,
    rings: watch::Sender<Arc<Rings>>,
}

impl RingPlacement {
    pub(crate) fn new(me: WorkerId, membership: Arc<Membership>) -> Arc<Self> {
        let view = membership.view().borrow().clone();
        let rings = watch::Sender::new(Arc::new(Rings::build(view, None)));
        Arc::new(Self { me, membership, rings })
    }

    /// Follows the view for as long as the task lives.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut views = self.membership.view();
        loop {
            let view = views.borrow_and_update().clone();
            let (known, me) = (self.rings(), self.clone());
            if view.revision != known.view.revision {
                let build =
                    move || drop(me.rings.send_replace(Arc::new(Rings::build(view, Some(&known)))));
                // A panic in there would be the ring's; the rings stay what they were.
                let _ = forebay_rt::spawn_blocking(build).await;
            }
            if views.changed().await.is_err() {
                return;
            }
        }
    }

    pub(crate) fn rings(&self) -> Arc<Rings> {
        self.rings.borrow().clone()
    }

    /// The rings, as soon as this worker is in the present one no more.
    pub(crate) async fn rings_without_me(&self) -> Arc<Rings> {
        self.rings_once(|rings| rings.view.ring.members.iter().all(|member| member.id != self.me))
            .await
    }

    /// Returns when the present ring is that of `epoch`, or a newer one.
    pub(crate) async fn reached(&self, epoch: Epoch) {
        self.rings_once(|rings| rings.epoch() >= epoch).await;
    }

    async fn rings_once(&self, is_so: impl Fn(&Rings) -> bool) -> Arc<Rings> {
        match self.rings.subscribe().wait_for(|rings| is_so(rings)).await {
            Ok(rings) => rings.clone(),
            // The sender lives as long as `self`.
            Err(_) => self.rings(),
        }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.rings.borrow().epoch()
    }

    pub(crate) fn me(&self) -> WorkerId {
        self.me
    }

    fn place(&self, worker: WorkerId) -> Place {
        if worker == self.me { Place::Here } else { Place::There(worker) }
    }
}

impl Placement for RingPlacement {
    fn owners(&self, name: &ObjectName, block: BlockIndex) -> Vec<Place> {
        let owners = self.rings.borrow().present.owners(name, block);
        if owners.is_empty() {
            return vec![Place::Here];
        }
        owners.iter().map(|worker| self.place(*worker)).collect()
    }

    fn previous_owners(&self, name: &ObjectName, block: BlockIndex) -> Vec<WorkerId> {
        let rings = self.rings();
        let mut previous = Vec::new();
        for ring in &rings.previous {
            let Some(owner) = ring.owners(name, block).first().copied() else { continue };
            if owner != self.me && !previous.contains(&owner) && answers(&rings.view, owner) {
                previous.push(owner);
            }
        }
        previous
    }

    fn vouching(&self, name: &ObjectName) -> Vouching {
        let rings = self.rings();
        let owner = rings.present.owners(name, BlockIndex(0)).first().copied();
        if owner != Some(self.me) {
            return Vouching::NotMine;
        }
        match self.membership.standing(rings.epoch()) {
            Standing::Vouches { since } => Vouching::Since(since),
            Standing::NotYet(wait) => Vouching::NotYet(wait),
            Standing::Lapsed => Vouching::Lapsed,
        }
    }

    fn others(&self) -> Vec<WorkerId> {
        let rings = self.rings();
        let ids = rings.view.workers.iter().map(|worker| worker.id);
        ids.filter(|id| *id != self.me).collect()
    }
}

fn answers(view: &View, worker: WorkerId) -> bool {
    view.worker(worker).is_some_and(|worker| worker.state != WorkerState::Down)
}
