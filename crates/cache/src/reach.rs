//! Asking the owners of a block, one after the other, for bytes of it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use forebay_rt::{Task, spawn};
use forebay_types::{BlockIndex, WorkerId};

use crate::cache::Cache;
use crate::error::ReadError;
use crate::peers::{PeerBody, PeerFailure};
use crate::reader::Read;
use crate::version::Content;
use crate::walk::Walk;

/// Who gives the bytes of a span.
pub(crate) enum Reached {
    /// This worker: it owns the block, or stands in for those who do.
    Here,
    /// Another worker, which has the first of them ready.
    There(WorkerId, PeerBody),
}

/// A span that is being asked for, whether or not somebody waits for the answer. Given up when
/// it is dropped.
pub(crate) struct Reaching(Task<Result<Reached, ReadError>>);

impl Reaching {
    /// Asks for a span that lies in one block, but not the workers that were `tried` in vain.
    pub(crate) fn begin(cache: &Arc<Cache>, read: Read, tried: Vec<WorkerId>) -> Self {
        let cache = cache.clone();
        Self(spawn(async move { cache.reach(&read, &tried).await }))
    }
}

impl Future for Reaching {
    type Output = Result<Reached, ReadError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let lost = || Err(ReadError::internal("asking another worker ended unexpectedly"));
        Pin::new(&mut self.0).poll(cx).map(|ended| ended.unwrap_or_else(|_| lost()))
    }
}

impl Drop for Reaching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Cache {
    async fn reach(&self, read: &Read, tried: &[WorkerId]) -> Result<Reached, ReadError> {
        let Read { ctx, content, range, .. } = read;
        let block = BlockIndex::of(range.start());
        let mut walk = Walk::new(self.placement.owners(&content.name, block));
        while let Some(worker) = walk.next(tried) {
            let Content { name, id } = &**content;
            let answer = self.peers.read(ctx, worker, name, id.stamp(), *range).await;
            let failure = match answer {
                Ok(body) if body.range == *range => return Ok(Reached::There(worker, body)),
                Ok(_) => PeerFailure::Unreachable("it sends other bytes than were asked".into()),
                Err(failure) => failure,
            };
            if let Err(error) = walk.passes(failure, self.metrics()) {
                if error.is_moved() {
                    self.owner.disbelieve(content).await;
                }
                return Err(error);
            }
        }
        Ok(Reached::Here)
    }
}
