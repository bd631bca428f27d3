//! A worker among others: its membership, its ring, its peers, its data port.

mod handover;
mod kept_view;
mod peers;
mod placement;
mod ring_page;
mod rings;
mod services;
mod status;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use forebay_cache::{Alone, Cache, Fence, Peek, PeerBlocks, Placement};
use forebay_meta::worker::{Membership, MembershipConfig};
use forebay_peer::{EpochNews, PeerLimits, Peers, PeersConfig, ServerConfig, ServerLimits};
use forebay_rt::{Shutdown, Task, spawn};
use forebay_s3::RingPage;
use forebay_store::Store;
use forebay_types::{WorkerId, WorkerInfo, WorkerState};
use forebay_wire::ClusterSecret;
use tokio::net::TcpListener;

use self::handover::Handover;
use self::peers::{ClusterFence, ClusterPeers};
use self::placement::RingPlacement;
use self::services::{OwnerPort, ShelfPort};
pub use self::status::{ClusterStatus, HandedOver, WorkerStatus};
use crate::config::ClusterConfig;
use crate::live_rules::LiveRules;
use crate::wiring::Runtime;

/// What a worker brings into its cluster.
pub(crate) struct Joining {
    pub(crate) id: WorkerId,
    pub(crate) data: SocketAddr,
    pub(crate) s3: SocketAddr,
    pub(crate) capacity_bytes: u64,
    /// Where the last view is kept.
    pub(crate) kept_in: PathBuf,
    /// The control port of the voter in the same process.
    pub(crate) own_voter: Option<String>,
}

/// A worker's place among others.
pub(crate) struct Cluster {
    membership: Arc<Membership>,
    placement: Arc<RingPlacement>,
    peers: Peers,
    secret: ClusterSecret,
    kept_in: PathBuf,
    handover: Arc<Handover>,
}

/// What of this worker other workers are served from.
pub(crate) struct Inside<'a> {
    pub(crate) cache: &'a Arc<Cache>,
    pub(crate) store: &'a Arc<Store>,
    pub(crate) rules: &'a Arc<LiveRules>,
}

/// The parts of the cache that know of other workers.
pub(crate) struct Neighbours {
    pub(crate) placement: Arc<dyn Placement>,
    pub(crate) peers: Arc<dyn PeerBlocks>,
    pub(crate) previous: Arc<dyn Peek>,
    pub(crate) fence: Arc<dyn Fence>,
}

impl Neighbours {
    /// None: the worker is alone.
    pub(crate) fn none(runtime: &Runtime) -> Self {
        let alone = Arc::new(Alone::new(runtime.clock.now()));
        Self {
            placement: alone.clone(),
            peers: alone.clone(),
            previous: alone.clone(),
            fence: alone,
        }
    }
}

impl Cluster {
    /// Begins to follow the cluster. Does not wait for it: a worker serves without voters too.
    pub(crate) fn join(
        config: &ClusterConfig,
        joining: Joining,
        runtime: &Runtime,
    ) -> (Self, EpochNews) {
        let Joining { id, data, s3, capacity_bytes, kept_in, own_voter } = joining;
        let me = WorkerInfo {
            id,
            state: WorkerState::Joining,
            data_addr: config.data_advertise.given(data),
            s3_addr: config.s3_advertise.given(s3),
            zone: config.zone.clone(),
            capacity_bytes,
        };
        let membership = Membership::join(MembershipConfig {
            me,
            incarnation: runtime.rng.next_u64(),
            voters: config.voters.iter().cloned().chain(own_voter).collect(),
            secret: config.secret.clone(),
            kept: kept_view::load(&kept_in),
            clock: runtime.clock.clone(),
            rng: runtime.rng.clone(),
            limits: forebay_meta::worker::Limits::default(),
        });
        let (peers, news) = Peers::new(PeersConfig {
            secret: config.secret.clone(),
            limits: PeerLimits::default(),
            clock: runtime.clock.clone(),
            rng: runtime.rng.clone(),
            views: membership.view(),
        });
        let cluster = Self {
            placement: RingPlacement::new(id, membership.clone()),
            membership,
            peers,
            secret: config.secret.clone(),
            kept_in,
            handover: Arc::new(Handover::default()),
        };
        (cluster, news)
    }

    pub(crate) fn neighbours(&self, runtime: &Runtime) -> Neighbours {
        let peers = Arc::new(ClusterPeers {
            peers: self.peers.clone(),
            placement: self.placement.clone(),
            started: runtime.clock.now(),
        });
        Neighbours {
            placement: self.placement.clone(),
            previous: peers.clone(),
            peers,
            fence: Arc::new(ClusterFence(self.membership.clone())),
        }
    }

    /// Serves other workers, and begins all that goes on in the background.
    pub(crate) fn serve(
        &self,
        listener: TcpListener,
        news: EpochNews,
        inside: &Inside<'_>,
        runtime: &Runtime,
        shutdown: &Shutdown,
    ) -> Vec<Task<()>> {
        let Inside { cache, store, rules } = *inside;
        let config = ServerConfig {
            secret: self.secret.clone(),
            limits: ServerLimits::default(),
            clock: runtime.clock.clone(),
            rng: runtime.rng.clone(),
        };
        let owner = Arc::new(OwnerPort {
            owner: cache.owner().clone(),
            placement: self.placement.clone(),
            rules: rules.clone(),
            clock: runtime.clock.clone(),
            rng: runtime.rng.clone(),
        });
        let shelf = Arc::new(ShelfPort(cache.shelf().clone()));
        let (peers, membership) = (self.peers.clone(), self.membership.clone());
        vec![
            spawn(forebay_peer::serve(listener, config, owner, shelf, shutdown.clone())),
            spawn(self.placement.clone().follow()),
            spawn(kept_view::keep(self.kept_in.clone(), self.membership.view())),
            spawn(self.handover.clone().follow(
                self.placement.clone(),
                self.membership.clone(),
                self.peers.clone(),
                store.clone(),
                runtime.clock.clone(),
            )),
            spawn(learn(news, peers, membership)),
        ]
    }

    pub(crate) fn views(&self) -> tokio::sync::watch::Receiver<Arc<forebay_types::View>> {
        self.membership.view()
    }

    /// The worker can serve: it wants its share.
    pub(crate) fn enter(&self) {
        self.membership.set_wanted(WorkerState::Active);
    }

    /// The worker is going to end: it gives up its share, and hands over what it holds.
    /// Returns when all of it has been taken; the caller has a limit.
    pub(crate) async fn hand_over(&self) {
        self.membership.set_wanted(WorkerState::Draining);
        self.handover.finished().await;
    }

    pub(crate) fn status(&self) -> ClusterStatus {
        status::status(&self.membership, &self.placement, &self.handover)
    }

    pub(crate) fn ring_page(&self, rules: &Arc<LiveRules>) -> RingPage {
        ring_page::ring_page(self.placement.clone(), rules.clone())
    }
}

/// Fetches the views of those who know a newer ring than this worker, who may have lost the voters.
async fn learn(mut news: EpochNews, peers: Peers, membership: Arc<Membership>) {
    while let Some(worker) = news.next().await {
        match peers.view(worker).await {
            Ok(view) => membership.learn(view),
            Err(error) => tracing::debug!(%error, ?worker, "a newer view cannot be had"),
        }
    }
}
