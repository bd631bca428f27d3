//! Following the view: a stream from one voter, any; from another when it fails or falls silent.

use std::sync::Arc;
use std::time::Duration;

use forebay_rt::timeout;
use forebay_types::View;
use forebay_wire::WireError;
use forebay_wire::meta::WatchRequest;
use forebay_wire::view;
use tonic::{Status, Streaming};

use super::Shared;
use super::voters::{Addr, Failure};

/// Follows one voter after the other, for good.
pub(super) async fn run(shared: Arc<Shared>) {
    let voters = shared.voters.configured();
    let mut in_vain = 0;
    for addr in voters.iter().cycle() {
        let Followed { has_news, lost } = shared.follow(addr).await;
        in_vain = if has_news { 0 } else { in_vain + 1 };
        if in_vain as usize == voters.len() {
            tracing::warn!(voter = %addr, why = %lost, "no voter can be followed");
        } else {
            tracing::debug!(voter = %addr, why = %lost, "follows another voter");
        }
        let wait = shared.limits.retry.wait_after(in_vain, &*shared.rng);
        shared.clock.sleep(wait.unwrap_or(shared.limits.retry.cap)).await;
    }
}

/// How it was to follow a voter.
struct Followed {
    /// It had a view at least as new as the one that this worker had.
    has_news: bool,
    lost: Lost,
}

/// Why a voter is followed no longer.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error(transparent)]
    Failed(#[from] Failure),
    #[error("it ended the stream")]
    Ended,
    #[error("no view as new as this worker's in {0:?}")]
    Silent(Duration),
    #[error("it lags behind the leader")]
    Behind,
    #[error(transparent)]
    Garbled(#[from] WireError),
}

impl From<Status> for Lost {
    fn from(status: Status) -> Self {
        Self::Failed(Failure::of(&status))
    }
}

impl Shared {
    async fn follow(&self, addr: &Addr) -> Followed {
        let mut has_news = false;
        let lost = match self.watch(addr).await {
            Ok(views) => self.take_views(views, addr, &mut has_news).await,
            Err(lost) => lost,
        };
        self.touch.lock().follows = None;
        Followed { has_news, lost }
    }

    async fn watch(&self, addr: &Addr) -> Result<Streaming<view::View>, Lost> {
        let request = WatchRequest { revision: self.revision() };
        let limit = self.limits.answer;
        let mut control = self.voters.control(addr);
        let answer = timeout(&*self.clock, limit, control.watch(request)).await;
        Ok(answer.map_err(|_| Failure::Silent(limit))??.into_inner())
    }

    /// Takes what a voter sends for as long as it keeps up: one that is cut off from the others
    /// may go on sending an old view.
    async fn take_views(
        &self,
        mut views: Streaming<view::View>,
        addr: &Addr,
        has_news: &mut bool,
    ) -> Lost {
        let mut fresh_at = self.clock.now();
        loop {
            let stale = self.clock.now().saturating_duration_since(fresh_at);
            let left = self.limits.silence.saturating_sub(stale);
            let next = tokio::select! {
                next = timeout(&*self.clock, left, views.message()) => next,
                () = self.look_elsewhere.notified() => return Lost::Behind,
            };
            let view = match next {
                Err(_) => return Lost::Silent(self.limits.silence),
                Ok(Err(status)) => return status.into(),
                Ok(Ok(None)) => return Lost::Ended,
                Ok(Ok(Some(view))) => view,
            };
            match View::try_from(view) {
                Err(garbled) => return garbled.into(),
                Ok(view) if view.revision < self.revision() => {}
                Ok(view) => {
                    fresh_at = self.clock.now();
                    *has_news = true;
                    self.touch.lock().follows = Some(addr.clone());
                    self.learn(view);
                }
            }
        }
    }
}
