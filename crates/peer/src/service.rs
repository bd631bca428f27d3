//! What the data port is answered by. `node` plugs the cache's owner and shelf in.

use async_trait::async_trait;
use forebay_types::View;
use forebay_wire::peer::{
    Failure, ForgetAnswer, ForgetAsk, OpenAnswer, OpenAsk, PeekAnswer, PeekAsk, ReadAnswer,
    ReadAsk, RecallAnswer, RecallAsk, WarmAsk,
};
use std::sync::Arc;

use crate::Frames;

/// Answers for blocks and names that this worker owns, or stands in for.
#[async_trait]
pub trait OwnerService: Send + Sync + 'static {
    /// Which version, and its first bytes.
    async fn open(&self, ask: OpenAsk) -> Result<OpenReply, Failure>;
    /// Bytes of one block. Returns when the first of them are there.
    async fn read(&self, ask: ReadAsk) -> Result<ReadReply, Failure>;
    /// Brings bytes here in the background, or before it returns.
    async fn warm(&self, ask: WarmAsk) -> Result<(), Failure>;
    /// Forgets names.
    async fn forget(&self, ask: ForgetAsk) -> ForgetAnswer;
    /// What this worker knows of the cluster.
    fn view(&self) -> Arc<View>;
}

/// Answers for what is on the disks of this worker, and nothing else.
#[async_trait]
pub trait ShelfService: Send + Sync + 'static {
    /// The version that is remembered under a name, from when this worker was its authority.
    async fn recall(&self, ask: RecallAsk) -> RecallAnswer;
    /// Bytes of one block, if they are here.
    async fn peek(&self, ask: PeekAsk) -> PeekReply;
}

/// An opened name.
pub struct OpenReply {
    /// The message.
    pub answer: OpenAnswer,
    /// Exactly the bytes of `answer.range`.
    pub frames: Option<Frames>,
}

/// Bytes of a block.
pub struct ReadReply {
    /// The message.
    pub answer: ReadAnswer,
    /// Exactly the bytes asked.
    pub frames: Frames,
}

/// Bytes found on the shelf.
pub struct PeekReply {
    /// The message.
    pub answer: PeekAnswer,
    /// Exactly the bytes of `answer.range`.
    pub frames: Option<Frames>,
}
