//! What the cache needs from the rest of the worker. `node` plugs the implementations in.

use std::borrow::Cow;

use async_trait::async_trait;
use bytes::Bytes;
use forebay_telemetry::{ReadCtx, Tier};
use forebay_types::{BucketName, ByteRange, ObjectHead, ObjectId, ObjectName, Stamp};
use futures_util::stream::BoxStream;

/// Blocks kept on the disks of this worker. Never fails: what goes wrong is a miss.
#[async_trait]
pub trait LocalBlocks: Send + Sync + 'static {
    /// Looks up the first byte of `range` without waiting for a disk. `range` lies in one block.
    fn read_now(&self, id: &ObjectId, range: ByteRange) -> Found;

    /// As [`LocalBlocks::read_now`], but reads and verifies what is [`Found::Cold`].
    async fn read(&self, id: &ObjectId, range: ByteRange) -> Found;

    /// The first run of bytes of `range` that is not stored; `None` when all of it is.
    /// `range` lies in one block.
    fn gap(&self, id: &ObjectId, range: ByteRange) -> Option<ByteRange>;

    /// Stores `frames`, which together are exactly the bytes of `range`; when this returns
    /// `Ok`, they can be read. `range` lies in one block.
    async fn store(
        &self,
        id: &ObjectId,
        range: ByteRange,
        frames: Vec<Bytes>,
    ) -> Result<(), NotStored>;

    /// A hint that this version is no longer current and is the first to go.
    fn cool(&self, id: &ObjectId);
}

/// What a look at the local blocks found.
#[derive(Debug)]
pub enum Found {
    /// Verified bytes: a non-empty prefix of the range asked, at most one chunk.
    Hit(Bytes, Tier),
    /// Stored, but it has to come off a disk first: ask again with [`LocalBlocks::read`].
    Cold,
    /// The first byte is not stored.
    Miss,
}

/// Bytes that the store did not take: full, failed or being evicted faster than filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotStored;

/// Which version of a name was current when last asked, kept over a restart.
#[async_trait]
pub trait Versions: Send + Sync + 'static {
    /// The version remembered under `name`, if its bytes may still be here.
    async fn recall(&self, name: &ObjectName) -> Option<ObjectHead>;
    /// Remembers a version whose bytes have just been stored.
    async fn remember(&self, name: &ObjectName, head: &ObjectHead);
    /// Forgets `name`; when this returns, a restart does not bring it back.
    async fn forget(&self, name: &ObjectName);
}

/// Objects at the origin. Retries and limits are the implementation's.
#[async_trait]
pub trait OriginObjects: Send + Sync + 'static {
    /// Asks for the current version, without a body.
    async fn head(&self, ctx: &ReadCtx, name: &ObjectName) -> Result<ObjectHead, OriginFailure>;

    /// Asks for bytes. With `pin` the answer is of that version and of exactly `range`, or it
    /// is [`OriginFailure::Moved`]; without, of the current version and clamped to its size.
    async fn get(
        &self,
        ctx: &ReadCtx,
        name: &ObjectName,
        range: ByteRange,
        pin: Option<&Stamp>,
    ) -> Result<OriginBody, OriginFailure>;
}

/// A body on its way from the origin.
pub struct OriginBody {
    /// The version that it is of.
    pub head: ObjectHead,
    /// The bytes that it holds.
    pub range: ByteRange,
    /// The bytes: exactly `range.len()` of them, or an error in the place of the missing ones.
    pub frames: BoxStream<'static, Result<Bytes, OriginFailure>>,
}

/// Why the origin did not give what was asked, as what to do about it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OriginFailure {
    /// A definite answer for the client: 403, 404 and other client errors.
    #[error("origin refused: {0:?}")]
    Refused(OriginReply),
    /// The range begins past the end of the object (416), or the object is empty.
    #[error("range not satisfiable at the origin")]
    Unsatisfiable,
    /// The object is no longer the version that was pinned, or the answer is not what was asked.
    #[error("object changed at the origin")]
    Moved,
    /// The answer has no strong ETag or no size: pass the request through, cache nothing.
    #[error("answer cannot be cached: {0}")]
    Uncacheable(Cow<'static, str>),
    /// The origin, or our own limit before it, asks to slow down.
    #[error("origin asks to slow down")]
    SlowDown,
    /// No answer, a broken one, or a server error, after all retries.
    #[error("origin unavailable: {0}")]
    Unavailable(String),
}

/// An error answer of the origin, for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginReply {
    /// HTTP status.
    pub status: u16,
    /// S3 error code, such as `NoSuchKey`.
    pub code: String,
    /// The origin's message.
    pub message: String,
}

/// An error of a streamed body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A streamed body of a forwarded request or answer.
pub type ForwardBody = http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>;

/// Everything that is not a cached read: re-signed, sent to the origin, answered verbatim.
#[async_trait]
pub trait Forward: Send + Sync + 'static {
    /// Sends `request` (path style, without the client's authorization) to the origin that
    /// serves `bucket`, as a stream in both directions.
    async fn forward(
        &self,
        bucket: Option<&BucketName>,
        request: http::Request<ForwardBody>,
    ) -> Result<http::Response<ForwardBody>, OriginFailure>;
}
