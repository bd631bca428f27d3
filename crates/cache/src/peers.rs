//! What the cache needs to know of other workers: who owns what, and how to ask them.
//!
//! Alone, a worker owns everything ([`Alone`]). Whom to ask and what to do with the answer is
//! decided in this crate; how a message travels is the implementation's.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use forebay_telemetry::ReadCtx;
use forebay_types::{
    BlockIndex, ByteRange, Freshness, ObjectHead, ObjectName, RangeAsk, Stamp, WorkerId,
};
use forebay_zerocopy::PipePass;
use futures_util::Stream;
use futures_util::stream::BoxStream;

use crate::traits::OriginFailure;

/// One of the owners of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// This worker.
    Here,
    /// Another one.
    There(WorkerId),
}

/// Who owns what, as this worker knows it. Never waits.
pub trait Placement: Send + Sync + 'static {
    /// Whether this worker owns every block: then nobody is looked for.
    fn is_alone(&self) -> bool {
        false
    }

    /// The owner of a block, then those who would own it without the ones before. Not empty.
    fn owners(&self, name: &ObjectName, block: BlockIndex) -> Vec<Place>;

    /// Other workers that owned the block under earlier rings and may still hold it, newest
    /// ring first, each once. Empty where this worker has owned it all along.
    fn previous_owners(&self, name: &ObjectName, block: BlockIndex) -> Vec<WorkerId>;

    /// Whether this worker may answer for `name` from memory.
    fn vouching(&self, name: &ObjectName) -> Vouching;

    /// All other workers known, in the ring or not.
    fn others(&self) -> Vec<WorkerId>;
}

/// Whether this worker alone says which version of a name is current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vouching {
    /// It does, by what the origin was asked at this time or later.
    Since(Instant),
    /// It will in this long; until then another worker may.
    NotYet(Duration),
    /// It owns the name in the ring that it knows, but has lost touch with the voters.
    Lapsed,
    /// It does not own the name in the ring that it knows.
    NotMine,
}

/// Bytes from another worker. Ends early or with an error where the connection did.
pub trait PeerFrames: Stream<Item = Result<Bytes, PeerFailure>> + Send + Unpin {
    /// From now on frames may be tokens of what is in a pipe.
    fn pass_on(&mut self, pass: PipePass);
}

/// Frames that have been read already.
impl PeerFrames for BoxStream<'static, Result<Bytes, PeerFailure>> {
    fn pass_on(&mut self, _: PipePass) {}
}

/// What an authority is asked.
#[derive(Debug, Clone)]
pub struct PeerOpenAsk {
    /// Which name.
    pub name: ObjectName,
    /// How long a known version may stand.
    pub freshness: Freshness,
    /// Whether the origin is to be asked whatever is known.
    pub anew: bool,
    /// The bytes wanted with the answer.
    pub range: Option<RangeAsk>,
}

/// What an authority answered.
pub struct PeerOpened {
    /// The version.
    pub head: ObjectHead,
    /// Whether the origin was asked for it just now.
    pub asked: bool,
    /// How long ago the origin was asked; `None` where that is not known.
    pub age: Option<Duration>,
    /// The beginning of what was wanted, within one block, where that worker owns it.
    pub body: Option<PeerBody>,
}

/// Bytes of one block on their way from another worker.
pub struct PeerBody {
    /// Which.
    pub range: ByteRange,
    /// Whether that worker had all of them.
    pub hit: bool,
    /// They.
    pub frames: Box<dyn PeerFrames>,
}

/// Asking other workers for names and blocks that they own. Each call is one round trip, is
/// given up when that worker shows no sign of life, and is not repeated.
#[async_trait]
pub trait PeerBlocks: Send + Sync + 'static {
    /// Asks the authority of a name.
    async fn open(
        &self,
        ctx: &ReadCtx,
        worker: WorkerId,
        ask: PeerOpenAsk,
    ) -> Result<PeerOpened, PeerFailure>;

    /// Asks the owner of a block for bytes of it.
    async fn read(
        &self,
        ctx: &ReadCtx,
        worker: WorkerId,
        name: &ObjectName,
        stamp: &Stamp,
        range: ByteRange,
    ) -> Result<PeerBody, PeerFailure>;

    /// Tells the owner of a block that bytes of it will be wanted. Never waits, may be dropped.
    fn warm(&self, worker: WorkerId, name: &ObjectName, stamp: &Stamp, range: ByteRange);

    /// Tells a worker that names may have got other bytes; it says what it vouches for, in order.
    async fn forget(
        &self,
        worker: WorkerId,
        names: &[ObjectName],
    ) -> Result<Vec<Vouching>, PeerFailure>;
}

/// Looking at the disks of a worker that owned a block under an earlier ring. It can ask for
/// nothing else, so what a peer asks of this worker cannot be passed on.
#[async_trait]
pub trait Peek: Send + Sync + 'static {
    /// Which version of `name` that worker remembers, as its authority under an earlier ring.
    /// It may be outdated: it says no more than what is remembered over a restart.
    async fn recall(&self, worker: WorkerId, name: &ObjectName) -> Recalled;

    /// A prefix of `range`, if that worker has its first byte.
    async fn peek(
        &self,
        worker: WorkerId,
        name: &ObjectName,
        stamp: &Stamp,
        range: ByteRange,
    ) -> Option<PeerBody>;
}

/// What an earlier authority of a name remembers of it.
#[derive(Debug, Clone)]
pub enum Recalled {
    /// This version.
    Version(ObjectHead),
    /// Nothing: it never had the object, or has evicted it.
    Nothing,
    /// It does not answer.
    NoAnswer,
}

/// The last resort of a writer that cannot reach an authority.
#[async_trait]
pub trait Fence: Send + Sync + 'static {
    /// Returns when no worker any more answers from what it asked the origin before this call.
    /// Takes seconds. Calls at the same time share one.
    async fn fence(&self) -> Result<(), NoVoters>;
}

/// No majority of the voters answered in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no majority of the voters answers")]
pub struct NoVoters;

/// Why another worker did not give what was asked, as what to do about it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PeerFailure {
    /// No process listens at its address: it has ended, and with it what it remembered.
    #[error("the worker is gone")]
    Gone,
    /// No answer in time, a broken one, or a refusal to be asked: ask the next.
    #[error("the worker does not answer: {0}")]
    Unreachable(String),
    /// It knows a newer ring and does not have the bytes: ask the next.
    #[error("the worker does not own this")]
    NotOwner,
    /// The origin does not answer that worker; it may answer this one.
    #[error("the origin does not answer the worker: {0}")]
    OriginUnavailable(String),
    /// The origin's answer to it, as good as an answer to this worker.
    #[error(transparent)]
    Origin(OriginFailure),
}
