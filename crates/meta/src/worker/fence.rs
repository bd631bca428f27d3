//! Fencing: beginning a new epoch, and waiting until nobody vouches any more under an older one.

use std::sync::Arc;

use forebay_rt::timeout;
use forebay_types::Epoch;
use forebay_wire::meta::{FenceReply, FenceRequest};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::Shared;
use super::lease::FENCE_WAIT;
use super::voters::{Control, NoAnswer};

/// No majority of the voters answered in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no majority of the voters answers")]
pub struct NoVoters;

type Outcome = Result<(), NoVoters>;

/// One fence that runs, and one that waits for its turn.
#[derive(Default)]
pub(super) struct Fences {
    turn: tokio::sync::Mutex<()>,
    /// Of the one that waits. Who comes while one runs is served only by the next: the epoch of
    /// the running one may have begun already.
    queued: Mutex<Option<watch::Receiver<Option<Outcome>>>>,
}

impl Fences {
    /// Waits for a fence that begins after this call.
    pub(super) async fn join(&self, shared: &Arc<Shared>) -> Outcome {
        let mut outcome = self.queued.lock().get_or_insert_with(|| queue(shared.clone())).clone();
        let outcome = outcome.wait_for(Option::is_some).await;
        // An error means that the worker leaves.
        outcome.ok().and_then(|outcome| *outcome).unwrap_or(Err(NoVoters))
    }
}

/// Runs a fence when its turn comes, in a task of its own: who began it may give up, others wait.
fn queue(shared: Arc<Shared>) -> watch::Receiver<Option<Outcome>> {
    let (tell, outcome) = watch::channel(None);
    shared.keep(async move |shared: Arc<Shared>| {
        let _turn = shared.fences.turn.lock().await;
        shared.fences.queued.lock().take();
        tell.send_replace(Some(shared.fence().await));
    });
    outcome
}

impl Shared {
    async fn fence(&self) -> Outcome {
        let begun = timeout(&*self.clock, self.limits.fence, self.begin_epoch()).await;
        self.metrics.fenced(begun.is_ok());
        let Ok(epoch) = begun else {
            tracing::warn!("gave up fencing: no majority of the voters answers");
            return Err(NoVoters);
        };
        tracing::info!(epoch = epoch.0, "fenced: waiting until older leases have lapsed");
        self.clock.sleep(FENCE_WAIT).await;
        Ok(())
    }

    /// Returns an epoch that this call began.
    ///
    /// One that had begun already proves nothing, also where it is newer than this worker knows
    /// or than the last answer said: any voter may say so, and one that lags behind names an
    /// epoch that is old. Under it, another worker may vouch by what it asked before this call.
    async fn begin_epoch(&self) -> Epoch {
        let mut newest = self.epoch();
        let mut failed = 0;
        loop {
            match self.ask_for_epoch_after(newest).await {
                Ok(reply) if reply.begun => return Epoch(reply.epoch),
                Ok(reply) if reply.epoch > newest.0 => {
                    // Another was faster. One of them is each time, so all get there.
                    newest = Epoch(reply.epoch);
                    continue;
                }
                Err(why) if failed == 0 => tracing::warn!(%why, "a fence failed, trying again"),
                // No answer, or one that makes no sense: nothing begun, and nothing newer.
                _ => {}
            }
            failed += 1;
            let wait = self.limits.retry.wait_after(failed, &*self.rng);
            self.clock.sleep(wait.unwrap_or(self.limits.retry.cap)).await;
        }
    }

    async fn ask_for_epoch_after(&self, epoch: Epoch) -> Result<FenceReply, NoAnswer> {
        let ask = |mut control: Control| async move {
            Ok(control.fence(FenceRequest { epoch: epoch.0 }).await?.into_inner())
        };
        self.voters.ask_leader(self.limits.fence_answer, ask).await
    }
}
