//! What this worker answers other workers with: its owner, its shelf, its view.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use forebay_cache::{Owner, OwnerBody, PeerOpenAsk, Place, Placement, ReadError, Shelf, Vouching};
use forebay_peer::{Frames, OpenReply, OwnerService, PeekReply, ReadReply, ShelfService};
use forebay_rt::{Elapsed, SharedClock, SharedRng, timeout};
use forebay_telemetry::{ReadCtx, RequestId};
use forebay_types::{
    BlockIndex, BucketName, ByteRange, Epoch, ErrorCode, ObjectHead, ObjectName, View,
};
use forebay_wire::peer::{
    self, Failure, ForgetAnswer, ForgetAsk, OpenAnswer, OpenAsk, PeekAnswer, PeekAsk, ReadAnswer,
    ReadAsk, RecallAnswer, RecallAsk, WarmAsk,
};
use futures_util::StreamExt;

use super::placement::RingPlacement;
use crate::live_rules::LiveRules;

/// How long an ask is worked on before it is asked for the first time whether the origin answers:
/// longer than any answer from memory or disk takes.
const FIRST_LOOK: Duration = Duration::from_millis(50);
/// And then again.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long a leaving worker waits for one that has not heard of the ring without it. News of a
/// ring take milliseconds, or as long as it takes to find another voter.
const RING_PATIENCE: Duration = Duration::from_secs(5);

/// The owner of this worker, as others reach it.
pub(crate) struct OwnerPort {
    pub(crate) owner: Arc<Owner>,
    pub(crate) placement: Arc<RingPlacement>,
    pub(crate) rules: Arc<LiveRules>,
    pub(crate) clock: SharedClock,
    pub(crate) rng: SharedRng,
}

/// The shelf of this worker, as others reach it.
pub(crate) struct ShelfPort(pub(crate) Shelf);

impl OwnerPort {
    /// What is asked must be of the origin that this worker knows for the bucket.
    fn admit(&self, name: &ObjectName) -> Result<ReadCtx, Failure> {
        let (rule, bucket_label) = self.rules.rule_of(&name.bucket).ok_or(Failure::NoSuchRule)?;
        if rule != name.rule {
            return Err(Failure::NoSuchRule);
        }
        Ok(self.ctx(bucket_label))
    }

    /// No job: the worker that it asks counts for it.
    fn ctx(&self, bucket_label: Arc<str>) -> ReadCtx {
        ReadCtx { request: RequestId(self.rng.next_u64()), bucket_label, app: None }
    }

    /// An asker may reach the origin where this worker does not: it is not kept waiting for tries
    /// that go on here. They do go on, and an answer that comes is remembered.
    async fn unless_silent<T>(
        &self,
        bucket: &BucketName,
        answer: impl Future<Output = Result<T, ReadError>>,
    ) -> Result<T, Failure> {
        let mut answer = std::pin::pin!(answer);
        let mut patience = FIRST_LOOK;
        loop {
            match timeout(&*self.clock, patience, answer.as_mut()).await {
                Ok(answered) => return answered.map_err(failure),
                Err(Elapsed) if self.rules.origins.is_silent(bucket) => {
                    return Err(Failure::OriginUnavailable("no answer from the origin".into()));
                }
                Err(Elapsed) => patience = LOOK_EVERY,
            }
        }
    }

    /// Waits for the ring of `epoch`. Under an older one this worker would not look for the bytes
    /// on the shelf of the asker, whom it would still take for their owner, but at the origin.
    async fn know_ring(&self, epoch: Epoch) -> Result<(), Failure> {
        let known = timeout(&*self.clock, RING_PATIENCE, self.placement.reached(epoch)).await;
        known.map_err(|Elapsed| Failure::Internal(format!("does not know ring {} yet", epoch.0)))
    }

    /// An asker with an older ring is told so, unless what it asks for is here.
    fn check_owner(
        &self,
        epoch: Epoch,
        name: &ObjectName,
        block: BlockIndex,
        is_here: impl FnOnce() -> bool,
    ) -> Result<(), Failure> {
        let mine = self.placement.epoch();
        if epoch >= mine || is_here() {
            return Ok(());
        }
        match self.placement.owners(name, block).first() {
            Some(Place::Here) => Ok(()),
            _ => Err(Failure::NotOwner(mine)),
        }
    }
}

#[async_trait]
impl OwnerService for OwnerPort {
    async fn open(&self, ask: OpenAsk) -> Result<OpenReply, Failure> {
        let ctx = self.admit(&ask.name)?;
        self.check_owner(ask.epoch, &ask.name, BlockIndex(0), || false)?;
        let OpenAsk { name, freshness, anew, range, .. } = ask;
        let ask = PeerOpenAsk { name, freshness, anew, range };
        let bucket = ask.name.bucket.clone();
        let opened = self.unless_silent(&bucket, self.owner.open(&ctx, ask)).await?;
        let answer = OpenAnswer {
            epoch: self.placement.epoch(),
            head: ObjectHead::clone(&opened.head),
            asked: opened.asked,
            age: opened.age,
            range: opened.body.as_ref().map(|body| body.range),
            hit: opened.body.as_ref().is_some_and(|body| body.hit),
        };
        Ok(OpenReply { answer, frames: opened.body.map(frames) })
    }

    async fn read(&self, ask: ReadAsk) -> Result<ReadReply, Failure> {
        let ctx = self.admit(&ask.name)?;
        let ReadAsk { epoch, name, stamp, range } = ask;
        let is_here = || self.owner.holds(&name, &stamp, range);
        self.check_owner(epoch, &name, BlockIndex::of(range.start()), is_here)?;
        let reading = self.owner.read(&ctx, &name, &stamp, range);
        let body = self.unless_silent(&name.bucket, reading).await?;
        let answer = ReadAnswer { epoch: self.placement.epoch(), hit: body.hit };
        Ok(ReadReply { answer, frames: frames(body) })
    }

    async fn warm(&self, ask: WarmAsk) -> Result<(), Failure> {
        let ctx = self.admit(&ask.name)?;
        let WarmAsk { epoch, name, stamp, range, wait } = ask;
        if wait {
            self.know_ring(epoch).await?;
            return self.owner.bring(&ctx, &name, &stamp, range).await.map_err(failure);
        }
        if self.placement.epoch() >= epoch {
            self.owner.warm(&ctx, &name, &stamp, range);
        }
        Ok(())
    }

    async fn forget(&self, ask: ForgetAsk) -> ForgetAnswer {
        // Also for a bucket that this worker has no rule for: then it knows nothing of it.
        let ctx = self.ctx("other".into());
        let vouching = self.owner.forget(&ctx, &ask.names).await;
        let vouching = vouching.into_iter().map(|vouching| match vouching {
            Vouching::Since(_) => peer::Vouching::Yes,
            Vouching::NotYet(wait) => peer::Vouching::NotYet(wait),
            Vouching::Lapsed => peer::Vouching::Lapsed,
            Vouching::NotMine => peer::Vouching::NotMine,
        });
        ForgetAnswer { epoch: self.placement.epoch(), vouching: vouching.collect() }
    }

    fn view(&self) -> Arc<View> {
        self.placement.rings().view.clone()
    }
}

#[async_trait]
impl ShelfService for ShelfPort {
    async fn recall(&self, ask: RecallAsk) -> RecallAnswer {
        RecallAnswer { head: self.0.recall(&ask.name).await }
    }

    async fn peek(&self, ask: PeekAsk) -> PeekReply {
        let PeekAsk { name, stamp, range } = ask;
        let found: Option<(ByteRange, _)> = self.0.peek(&name.at(stamp), range).await;
        let (range, frames) = found.unzip();
        let frames = frames.map(|frames| {
            frames.map(|frame: Result<_, ReadError>| frame.map_err(io::Error::other)).boxed()
        });
        PeekReply { answer: PeekAnswer { range }, frames }
    }
}

fn frames(body: OwnerBody) -> Frames {
    body.reader.map(|frame| frame.map_err(io::Error::other)).boxed()
}

fn failure(error: ReadError) -> Failure {
    match error {
        ReadError::Refused(reply) => {
            Failure::Refused { status: reply.status, code: reply.code, message: reply.message }
        }
        ReadError::PassThrough(reason) => Failure::Uncacheable(reason.into_owned()),
        ReadError::Unannounced => Failure::Internal(error.to_string()),
        ReadError::Failed { code, detail } => match code {
            ErrorCode::VersionMoved => Failure::Moved,
            ErrorCode::SlowDown => Failure::SlowDown,
            ErrorCode::OriginUnavailable => Failure::OriginUnavailable(detail),
            ErrorCode::NoSuchKey
            | ErrorCode::NoSuchBucket
            | ErrorCode::OriginDenied
            | ErrorCode::Internal => Failure::Internal(detail),
        },
    }
}
