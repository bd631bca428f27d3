//! A worker's place in the cluster: it follows the view, keeps its lease, and fences.
//!
//! Readers take the view from a watch channel and never wait for a voter: with all voters gone
//! the last view stands. What a worker may answer from memory is [`Membership::standing`]'s.

mod fence;
mod follow;
mod heartbeat;
pub mod lease;
pub mod limits;
mod metrics;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod voters;

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_rt::{SharedClock, SharedRng, Shutdown, spawn};
use forebay_types::{Epoch, View, WorkerInfo, WorkerState};
use forebay_wire::ClusterSecret;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use self::fence::Fences;
pub use self::fence::NoVoters;
pub use self::lease::Standing;
use self::lease::{LEASE, Lease};
pub use self::limits::Limits;
use self::metrics::Metrics;
use self::voters::{Addr, Voters};

/// What a worker needs to belong to a cluster.
#[derive(Debug)]
pub struct MembershipConfig {
    /// Who it is. Its `state` is what it wants to be.
    pub me: WorkerInfo,
    /// Drawn anew at each start of the process.
    pub incarnation: u64,
    /// `host:port` of the voters' control ports.
    pub voters: Vec<String>,
    /// Of the cluster.
    pub secret: ClusterSecret,
    /// The last view of an earlier life.
    pub kept: Option<View>,
    /// Time.
    pub clock: SharedClock,
    /// Chance.
    pub rng: SharedRng,
    /// Patience.
    pub limits: Limits,
}

/// A worker's membership. Ends when it is dropped.
pub struct Membership {
    shared: Arc<Shared>,
}

/// How a worker stands with the voters, for whoever looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// The leader that answered last.
    pub leader: Option<String>,
    /// How long ago it did.
    pub heard_ago: Option<Duration>,
    /// The voter whose views are followed.
    pub follows: Option<String>,
    /// Why the leader will not have this worker, in its words: another process was started under
    /// its id, say.
    pub refused: Option<String>,
}

impl Membership {
    /// Begins to follow the view and to send heartbeats. Does not wait for either.
    pub fn join(config: MembershipConfig) -> Arc<Self> {
        let shared = Arc::new(Shared::new(config));
        shared.clone().keep(async |shared| follow::run(shared).await);
        shared.clone().keep(async |shared| heartbeat::run(shared).await);
        Arc::new(Self { shared })
    }

    /// The newest view, and those after it. Revision 0 until one has ever been seen.
    pub fn view(&self) -> watch::Receiver<Arc<View>> {
        self.shared.view.subscribe()
    }

    /// The epoch of the newest view.
    pub fn epoch(&self) -> Epoch {
        self.shared.epoch()
    }

    /// What this worker's word is worth for names that it owns under the ring of `epoch`: the one
    /// in which they were looked up, not one that may have come since.
    pub fn standing(&self, epoch: Epoch) -> Standing {
        self.shared.standing(epoch)
    }

    /// Changes what this worker wants to be (joining, active or draining), and says so at once.
    pub fn set_wanted(&self, state: WorkerState) {
        self.shared.wanted.send_if_modified(|wanted| std::mem::replace(wanted, state) != state);
    }

    /// Takes a view from another worker, if it is newer.
    pub fn learn(&self, view: View) {
        self.shared.learn(view);
    }

    /// Returns when no worker any more answers from what it asked the origin before this call.
    /// Takes seconds; calls at the same time share one. Without voters gives up after the time
    /// that [`Limits::fence`] names, or twice that where it had to queue.
    pub async fn fence(&self) -> Result<(), NoVoters> {
        self.shared.fences.join(&self.shared).await
    }

    /// Whether a leader has answered within the time of a lease.
    pub fn has_voters(&self) -> bool {
        self.contact().heard_ago.is_some_and(|ago| ago < LEASE)
    }

    /// How this worker stands with the voters.
    pub fn contact(&self) -> Contact {
        let now = self.shared.clock.now();
        let touch = self.shared.touch.lock();
        Contact {
            leader: self.shared.voters.leader().map(|addr| addr.to_string()),
            heard_ago: touch.heard_at.map(|at| now.saturating_duration_since(at)),
            follows: touch.follows.as_ref().map(ToString::to_string),
            refused: touch.refused.clone(),
        }
    }

    /// Falls silent: the voters will take this worker for down. Returns when its tasks have ended.
    /// Who would rather leave the ring first wants to be draining, and waits for the view that
    /// says so.
    pub async fn leave(&self) {
        self.shared.shutdown.begin();
        self.shared.shutdown.finished().await;
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.shared.shutdown.begin();
    }
}

/// What the tasks of a membership work on together.
struct Shared {
    me: WorkerInfo,
    incarnation: u64,
    wanted: watch::Sender<WorkerState>,
    view: watch::Sender<Arc<View>>,
    touch: Mutex<Touch>,
    /// The voter that is followed lags behind the leader.
    look_elsewhere: Notify,
    fences: Fences,
    voters: Voters,
    clock: SharedClock,
    rng: SharedRng,
    limits: Limits,
    metrics: Metrics,
    shutdown: Shutdown,
}

/// What was last heard of the voters.
#[derive(Default)]
struct Touch {
    lease: Lease,
    heard_at: Option<Instant>,
    follows: Option<Addr>,
    refused: Option<String>,
}

impl Shared {
    fn new(config: MembershipConfig) -> Self {
        let MembershipConfig { me, incarnation, voters, secret, kept, clock, rng, limits } = config;
        let view = Arc::new(kept.unwrap_or_default());
        let metrics = Metrics::new();
        metrics.saw(&view);
        Self {
            wanted: watch::Sender::new(me.state),
            me,
            incarnation,
            view: watch::Sender::new(view),
            touch: Mutex::default(),
            look_elsewhere: Notify::new(),
            fences: Fences::default(),
            voters: Voters::new(&voters, secret, clock.clone(), &rng),
            clock,
            rng,
            limits,
            metrics,
            shutdown: Shutdown::new(),
        }
    }

    fn keep<Task>(self: Arc<Self>, task: impl FnOnce(Arc<Self>) -> Task)
    where
        Task: Future<Output = ()> + Send + 'static,
    {
        let (busy, shutdown, task) = (self.shutdown.busy(), self.shutdown.clone(), task(self));
        spawn(async move {
            let _busy = busy;
            tokio::select! {
                () = shutdown.begun() => {}
                () = task => {}
            }
        });
    }

    fn epoch(&self) -> Epoch {
        self.view.borrow().ring.epoch
    }

    fn revision(&self) -> u64 {
        self.view.borrow().revision
    }

    fn standing(&self, epoch: Epoch) -> Standing {
        self.touch.lock().lease.standing(self.clock.now(), epoch)
    }

    /// Views only ever go forward: a cluster that was restored continues above the revisions of
    /// the lost one.
    fn learn(&self, view: View) {
        let view = Arc::new(view);
        let is_news = self.view.send_if_modified(|held| {
            let is_newer = view.revision > held.revision;
            if is_newer {
                *held = view.clone();
            }
            is_newer
        });
        if is_news {
            self.metrics.saw(&view);
        }
    }
}
