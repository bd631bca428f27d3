//! The origins as the cache sees them: one, chosen by the bucket. Rules may change while the
//! worker runs; what was asked under the old ones ends there.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use forebay_cache::{Forward, ForwardBody, OriginBody, OriginFailure, OriginObjects, OriginReply};
use forebay_origin::{Origin, OriginError};
use forebay_telemetry::ReadCtx;
use forebay_types::{BucketName, ByteRange, ObjectHead, ObjectName, RuleId, Stamp};
use futures_util::StreamExt;
use parking_lot::RwLock;

/// The origins of all bucket rules.
#[derive(Debug, Default)]
pub(crate) struct Origins(RwLock<Arc<OriginTable>>);

/// The origins of one state of the rules.
#[derive(Debug, Default)]
pub(crate) struct OriginTable {
    pub(crate) by_bucket: HashMap<BucketName, Known>,
    /// For buckets without a rule of their own.
    pub(crate) default: Option<Known>,
    /// For requests that name no bucket; `None` where several origins would have to answer.
    pub(crate) only: Option<Arc<Origin>>,
}

/// An origin, and the name that its bytes are kept under.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) rule: RuleId,
    pub(crate) origin: Arc<Origin>,
}

impl Origins {
    pub(crate) fn replace(&self, table: OriginTable) {
        *self.0.write() = Arc::new(table);
    }

    pub(crate) fn table(&self) -> Arc<OriginTable> {
        self.0.read().clone()
    }

    /// Whether the origin of a bucket does not answer this worker at the moment.
    pub(crate) fn is_silent(&self, bucket: &BucketName) -> bool {
        self.of_bucket(bucket).is_ok_and(|known| known.origin.is_silent())
    }

    /// The origin of a name. One that was named under other rules has another origin now, and
    /// what that sends must not be kept as this one's.
    fn of_name(&self, name: &ObjectName) -> Result<Arc<Origin>, OriginFailure> {
        let known = self.of_bucket(&name.bucket)?;
        if known.rule != name.rule {
            return Err(OriginFailure::Unavailable("the bucket's rule has changed".into()));
        }
        Ok(known.origin)
    }

    fn of_bucket(&self, bucket: &BucketName) -> Result<Known, OriginFailure> {
        let table = self.table();
        table.by_bucket.get(bucket).or(table.default.as_ref()).cloned().ok_or_else(|| {
            refused(404, "NoSuchBucket", "The specified bucket does not exist".into())
        })
    }
}

#[async_trait]
impl OriginObjects for Origins {
    async fn head(&self, _ctx: &ReadCtx, name: &ObjectName) -> Result<ObjectHead, OriginFailure> {
        self.of_name(name)?.head(name).await.map_err(failure)
    }

    async fn get(
        &self,
        _ctx: &ReadCtx,
        name: &ObjectName,
        range: ByteRange,
        pin: Option<&Stamp>,
    ) -> Result<OriginBody, OriginFailure> {
        let body = self.of_name(name)?.get(name, range, pin).await.map_err(failure)?;
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
            Some(bucket) => self.of_bucket(bucket)?.origin,
            None => self.table().only.clone().ok_or_else(|| {
                let message = "The buckets here have several origins: name one of them";
                refused(501, "NotImplemented", message.into())
            })?,
        };
        origin.forward(request).await.map_err(failure)
    }
}

fn failure(error: OriginError) -> OriginFailure {
    match error {
        OriginError::Refused(reply) => refused(reply.status, &reply.code, reply.message),
        OriginError::Unsatisfiable => OriginFailure::Unsatisfiable,
        OriginError::Moved => OriginFailure::Moved,
        OriginError::Uncacheable(reason) => OriginFailure::Uncacheable(reason.into()),
        OriginError::SlowDown => OriginFailure::SlowDown,
        OriginError::Unavailable(reason) => OriginFailure::Unavailable(reason),
    }
}

fn refused(status: u16, code: &str, message: String) -> OriginFailure {
    OriginFailure::Refused(OriginReply { status, code: code.into(), message })
}
