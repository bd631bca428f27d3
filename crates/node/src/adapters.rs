//! Fits the implementations to the traits of the cache. Nothing is decided here but which
//! origin a bucket belongs to.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use forebay_cache::{
    Forward, ForwardBody, Found, LocalBlocks, NotStored, OriginBody, OriginFailure, OriginObjects,
    OriginReply, Versions,
};
use forebay_origin::{Origin, OriginError};
use forebay_store::Store;
use forebay_telemetry::ReadCtx;
use forebay_types::{BucketName, ByteRange, ObjectHead, ObjectId, ObjectName, Stamp};
use futures_util::StreamExt;

/// The store as the cache sees it.
#[derive(Debug)]
pub(crate) struct Disks(pub(crate) Arc<Store>);

#[async_trait]
impl LocalBlocks for Disks {
    fn read_now(&self, id: &ObjectId, range: ByteRange) -> Found {
        found(self.0.read_now(id, range))
    }

    async fn read(&self, id: &ObjectId, range: ByteRange) -> Found {
        found(self.0.read(id, range).await)
    }

    fn gap(&self, id: &ObjectId, range: ByteRange) -> Option<ByteRange> {
        self.0.gap(id, range)
    }

    async fn store(
        &self,
        id: &ObjectId,
        range: ByteRange,
        frames: Vec<Bytes>,
    ) -> Result<(), NotStored> {
        self.0.put(id, range, frames).await.map_err(|forebay_store::NotStored| NotStored)
    }

    fn cool(&self, id: &ObjectId) {
        self.0.cool(id);
    }
}

#[async_trait]
impl Versions for Disks {
    async fn recall(&self, name: &ObjectName) -> Option<ObjectHead> {
        self.0.recall(name).await
    }

    async fn remember(&self, name: &ObjectName, head: &ObjectHead) {
        self.0.remember(name, head).await;
    }

    async fn forget(&self, name: &ObjectName) {
        self.0.forget(name).await;
    }
}

/// The origins as the cache sees them: one, chosen by the bucket.
#[derive(Debug)]
pub(crate) struct Origins {
    pub(crate) by_bucket: HashMap<BucketName, Arc<Origin>>,
    /// For buckets without a rule of their own.
    pub(crate) default: Option<Arc<Origin>>,
    /// For requests that name no bucket; `None` where several origins would have to answer.
    pub(crate) only: Option<Arc<Origin>>,
}

impl Origins {
    fn of(&self, bucket: &BucketName) -> Result<&Arc<Origin>, OriginFailure> {
        self.by_bucket.get(bucket).or(self.default.as_ref()).ok_or_else(|| {
            refused(404, "NoSuchBucket", "The specified bucket does not exist".into())
        })
    }
}

#[async_trait]
impl OriginObjects for Origins {
    async fn head(&self, _ctx: &ReadCtx, name: &ObjectName) -> Result<ObjectHead, OriginFailure> {
        self.of(&name.bucket)?.head(name).await.map_err(failure)
    }

    async fn get(
        &self,
        _ctx: &ReadCtx,
        name: &ObjectName,
        range: ByteRange,
        pin: Option<&Stamp>,
    ) -> Result<OriginBody, OriginFailure> {
        let body = self.of(&name.bucket)?.get(name, range, pin).await.map_err(failure)?;
        let frames = body.frames.map(|frame| frame.map_err(failure)).boxed();
        Ok(OriginBody { head: body.head, range: body.range, frames })
    }
}

#[async_trait]
impl Forward for Origins {
    async fn forward(
        &self,
        bucket: Option<&BucketName>,
        request: http::Request<ForwardBody>,
    ) -> Result<http::Response<ForwardBody>, OriginFailure> {
        let origin = match bucket {
            Some(bucket) => self.of(bucket)?,
            None => self.only.as_ref().ok_or_else(|| {
                let message = "The buckets here have several origins: name one of them";
                refused(501, "NotImplemented", message.into())
            })?,
        };
        origin.forward(request).await.map_err(failure)
    }
}

fn found(found: forebay_store::Found) -> Found {
    match found {
        forebay_store::Found::Hit { bytes, tier } => Found::Hit(bytes, tier),
        forebay_store::Found::Cold => Found::Cold,
        forebay_store::Found::Miss => Found::Miss,
    }
}

fn failure(error: OriginError) -> OriginFailure {
    match error {
        OriginError::Refused(reply) => refused(reply.status, &reply.code, reply.message),
        OriginError::Unsatisfiable => OriginFailure::Unsatisfiable,
        OriginError::Moved => OriginFailure::Moved,
        OriginError::Uncacheable(reason) => OriginFailure::Uncacheable(reason),
        OriginError::SlowDown => OriginFailure::SlowDown,
        OriginError::Unavailable(reason) => OriginFailure::Unavailable(reason),
    }
}

fn refused(status: u16, code: &str, message: String) -> OriginFailure {
    OriginFailure::Refused(OriginReply { status, code: code.into(), message })
}
