//! The view, for all who follow it.

use std::sync::Arc;

use forebay_rt::{Shutdown, timeout};
use forebay_wire::view::View;
use futures_util::stream::unfold;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tonic::Status;

use super::{ControlService, Streamed};
use crate::raft::Published;
use crate::voter::{Group, stopped};

/// One who follows.
struct Follower {
    group: Arc<Group>,
    published: watch::Receiver<Published>,
    shutdown: Shutdown,
    is_new: bool,
    _place: OwnedSemaphorePermit,
}

impl ControlService {
    pub(super) async fn follow(&self) -> Result<Streamed<View>, Status> {
        if !self.group.raft.is_initialized().await.map_err(stopped)? {
            return Err(Status::unavailable("this voter belongs to no group yet"));
        }
        let full = |_| Status::resource_exhausted("this voter has too many followers: ask another");
        let place = self.watches.clone().try_acquire_owned().map_err(full)?;
        let follower = Follower {
            group: self.group.clone(),
            published: self.group.published.clone(),
            shutdown: self.shutdown.clone(),
            is_new: true,
            _place: place,
        };
        Ok(Box::pin(unfold(follower, |mut follower| async {
            let view = follower.next().await?;
            Some((Ok(view), follower))
        })))
    }
}

impl Follower {
    /// The view at once, then whenever it changes, and now and then unchanged. Views in between
    /// are left out for who is slow to read.
    async fn next(&mut self) -> Option<View> {
        if !std::mem::take(&mut self.is_new) {
            let group = &self.group;
            let keep_alive = group.timings.watch_keep_alive;
            tokio::select! {
                changed = timeout(&*group.clock, keep_alive, self.published.changed()) => {
                    // An error means that there is nothing to follow any more.
                    if changed.is_ok_and(|changed| changed.is_err()) {
                        return None;
                    }
                }
                () = self.shutdown.begun() => return None,
            }
        }
        Some(View::from(&*self.published.borrow_and_update().view))
    }
}
