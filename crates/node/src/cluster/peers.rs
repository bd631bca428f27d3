//! Other workers, as the cache asks them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use forebay_cache::{
    Fence, NoVoters, OriginFailure, OriginReply, Peek, PeerBlocks, PeerBody, PeerFailure,
    PeerFrames, PeerOpenAsk, PeerOpened, Recalled, Vouching,
};
use forebay_meta::worker::Membership;
use forebay_peer::{PeerError, Peers};
use forebay_telemetry::ReadCtx;
use forebay_types::{ByteRange, ObjectName, Stamp, WorkerId};
use forebay_wire::peer::{self, Failure};
use forebay_zerocopy::PipePass;
use futures_util::{Stream, StreamExt};

use super::placement::RingPlacement;

/// Asks other workers, as one that places by this ring.
pub(crate) struct ClusterPeers {
    pub(crate) peers: Peers,
    pub(crate) placement: Arc<RingPlacement>,
    /// What stands for "vouches" in an answer that says no more than that.
    pub(crate) started: Instant,
}

#[async_trait]
impl PeerBlocks for ClusterPeers {
    async fn open(
        &self,
        _ctx: &ReadCtx,
        worker: WorkerId,
        ask: PeerOpenAsk,
    ) -> Result<PeerOpened, PeerFailure> {
        let PeerOpenAsk { name, freshness, anew, range } = ask;
        let epoch = self.placement.epoch();
        let ask = peer::OpenAsk { epoch, name, freshness, anew, range };
        let (answer, body) = self.peers.open(worker, ask).await.map_err(failure)?;
        let body = answer.range.zip(body).map(|(range, body)| PeerBody {
            range,
            hit: answer.hit,
            frames: Box::new(Frames(body)),
        });
        Ok(PeerOpened { head: answer.head, asked: answer.asked, age: answer.age, body })
    }

    async fn read(
        &self,
        _ctx: &ReadCtx,
        worker: WorkerId,
        name: &ObjectName,
        stamp: &Stamp,
        range: ByteRange,
    ) -> Result<PeerBody, PeerFailure> {
        let (name, stamp) = (name.clone(), stamp.clone());
        let ask = peer::ReadAsk { epoch: self.placement.epoch(), name, stamp, range };
        let (answer, body) = self.peers.read(worker, ask).await.map_err(failure)?;
        Ok(PeerBody { range, hit: answer.hit, frames: Box::new(Frames(body)) })
    }

    fn warm(&self, worker: WorkerId, name: &ObjectName, stamp: &Stamp, range: ByteRange) {
        let (name, stamp) = (name.clone(), stamp.clone());
        let epoch = self.placement.epoch();
        self.peers.warm(worker, peer::WarmAsk { epoch, name, stamp, range, wait: false });
    }

    async fn forget(
        &self,
        worker: WorkerId,
        names: &[ObjectName],
    ) -> Result<Vec<Vouching>, PeerFailure> {
        let ask = peer::ForgetAsk { names: names.to_vec() };
        let answer = self.peers.forget(worker, &ask).await.map_err(failure)?;
        let vouching = |vouching| match vouching {
            peer::Vouching::Yes => Vouching::Since(self.started),
            peer::Vouching::NotYet(wait) => Vouching::NotYet(wait),
            peer::Vouching::Lapsed => Vouching::Lapsed,
            peer::Vouching::NotMine => Vouching::NotMine,
        };
        Ok(answer.vouching.into_iter().map(vouching).collect())
    }
}

#[async_trait]
impl Peek for ClusterPeers {
    async fn recall(&self, worker: WorkerId, name: &ObjectName) -> Recalled {
        let ask = peer::RecallAsk { name: name.clone() };
        match self.peers.recall(worker, ask).await.map(|answer| answer.head) {
            Ok(Some(head)) => Recalled::Version(head),
            Ok(None) => Recalled::Nothing,
            Err(_) => Recalled::NoAnswer,
        }
    }

    async fn peek(
        &self,
        worker: WorkerId,
        name: &ObjectName,
        stamp: &Stamp,
        range: ByteRange,
    ) -> Option<PeerBody> {
        let ask = peer::PeekAsk { name: name.clone(), stamp: stamp.clone(), range };
        let (answer, body) = self.peers.peek(worker, ask).await.ok()?;
        Some(PeerBody { range: answer.range?, hit: true, frames: Box::new(Frames(body?)) })
    }
}

/// Fences through the voters.
pub(crate) struct ClusterFence(pub(crate) Arc<Membership>);

#[async_trait]
impl Fence for ClusterFence {
    async fn fence(&self) -> Result<(), NoVoters> {
        self.0.fence().await.map_err(|_| NoVoters)
    }
}

/// A body of the data port, as the cache knows them.
struct Frames(forebay_peer::PeerBody);

impl Stream for Frames {
    type Item = Result<Bytes, PeerFailure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx).map(|frame| frame.map(|frame| frame.map_err(failure)))
    }
}

impl PeerFrames for Frames {
    fn pass_on(&mut self, pass: PipePass) {
        self.0.pass_on(pass);
    }
}

fn failure(error: PeerError) -> PeerFailure {
    match error {
        PeerError::Gone => PeerFailure::Gone,
        PeerError::Unreachable(reason) => PeerFailure::Unreachable(reason),
        PeerError::Failed(failure) => failed(failure),
    }
}

fn failed(failure: Failure) -> PeerFailure {
    match failure {
        Failure::Refused { status, code, message } => {
            PeerFailure::Origin(OriginFailure::Refused(OriginReply { status, code, message }))
        }
        Failure::Uncacheable(reason) => {
            PeerFailure::Origin(OriginFailure::Uncacheable(reason.into()))
        }
        Failure::Moved => PeerFailure::Origin(OriginFailure::Moved),
        Failure::SlowDown => PeerFailure::Origin(OriginFailure::SlowDown),
        Failure::OriginUnavailable(reason) => PeerFailure::OriginUnavailable(reason),
        Failure::NotOwner(_) | Failure::NoSuchRule => PeerFailure::NotOwner,
        Failure::Internal(reason) => PeerFailure::Unreachable(reason),
    }
}
