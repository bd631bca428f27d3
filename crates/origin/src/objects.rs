//! One HEAD or ranged GET of an object, through the SDK.
//!
//! The SDK encodes and signs the request; of its answer only the raw head and the body are used,
//! because what it makes of headers (dates, numbers, metadata) is not what the origin sent.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::interceptors::BeforeDeserializationInterceptorContextRef;
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::dyn_dispatch_hint;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use forebay_rt::{SharedClock, timeout};
use forebay_types::{BucketName, ByteRange, ObjectHead, ObjectName, Stamp};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::answer::RawHead;
use crate::body::Part;
use crate::credentials::Identity;
use crate::error::{Failure, OriginError, RetryReason};
use crate::metrics::{Metrics, Op};
use crate::reach::Reach;
use crate::sdk_error::failure;

#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) client: Client,
    pub(crate) identity: Option<Identity>,
    pub(crate) first_byte_timeout: Duration,
    pub(crate) clock: SharedClock,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) reach: Reach,
}

impl Objects {
    /// One try to learn the current version.
    pub(crate) async fn head(&self, name: &ObjectName) -> Result<ObjectHead, Failure> {
        let tally = self.metrics.begin(Op::Head, Some(&name.bucket));
        let result = self.ask_head(name).await;
        tally.settle(&result);
        result
    }

    /// One try to get bytes. Its tally ends with the body.
    pub(crate) async fn get(
        &self,
        name: &ObjectName,
        range: ByteRange,
        pin: Option<&Stamp>,
    ) -> Result<Part, Failure> {
        let tally = self.metrics.begin(Op::Get, Some(&name.bucket));
        let begun = self.clock.now();
        match self.ask_part(name, range, pin).await {
            Ok((head, range, body)) => {
                tally.first_byte(self.clock.now().saturating_duration_since(begun));
                Ok(Part { head, range, body, tally })
            }
            Err(failure) => {
                tally.done(failure.outcome());
                Err(failure)
            }
        }
    }

    /// One try to see a bucket.
    pub(crate) async fn head_bucket(&self, bucket: &BucketName) -> Result<RawHead, Failure> {
        let raw = KeptHead::default();
        let call = self.client.head_bucket().bucket(bucket.as_str());
        let sent =
            self.answered(Box::pin(call.customize().interceptor(raw.clone()).send()), false).await;
        match (sent, raw.take()) {
            // Any answer will do: its status says what the SDK makes an error of.
            (_, Ok(head)) => Ok(head),
            (Err(failure), Err(_)) | (Ok(_), Err(failure)) => Err(failure),
        }
    }

    /// The error code with which a listing of the bucket is refused, which HEAD does not tell.
    pub(crate) async fn list_refusal(&self, bucket: &BucketName) -> Option<OriginError> {
        let call = self.client.list_objects_v2().bucket(bucket.as_str()).max_keys(1);
        self.answered(Box::pin(call.send()), false).await.err().map(|failure| failure.error)
    }

    async fn ask_head(&self, name: &ObjectName) -> Result<ObjectHead, Failure> {
        check_sayable(name)?;
        let raw = KeptHead::default();
        let call = self
            .client
            .head_object()
            .bucket(name.bucket.as_str())
            .key(name.key.as_str())
            .set_version_id(name.version_id.as_deref().map(Into::into))
            .customize()
            .interceptor(raw.clone());
        self.answered(Box::pin(call.send()), false).await?;
        raw.take()?.whole().map_err(Failure::last)
    }

    async fn ask_part(
        &self,
        name: &ObjectName,
        range: ByteRange,
        pin: Option<&Stamp>,
    ) -> Result<(ObjectHead, ByteRange, aws_smithy_types::body::SdkBody), Failure> {
        check_sayable(name)?;
        let pinned = pin.and_then(|stamp| stamp.version_id.as_deref());
        match pinned.filter(|_| name.version_id.is_none()) {
            None => self.ask_part_of(name, range, pin, name.version_id.as_deref()).await,
            Some(version_id) => {
                let answer = self.ask_part_of(name, range, pin, Some(version_id)).await;
                // To name a version takes s3:GetObjectVersion, which an identity that may read
                // the object need not have. If-Match and the stamp hold the version as well.
                match answer {
                    Err(failure) if failure.is_forbidden() => {
                        self.ask_part_of(name, range, pin, None).await
                    }
                    answer => answer,
                }
            }
        }
    }

    async fn ask_part_of(
        &self,
        name: &ObjectName,
        range: ByteRange,
        pin: Option<&Stamp>,
        version_id: Option<&str>,
    ) -> Result<(ObjectHead, ByteRange, aws_smithy_types::body::SdkBody), Failure> {
        let raw = KeptHead::default();
        let call = self
            .client
            .get_object()
            .bucket(name.bucket.as_str())
            .key(name.key.as_str())
            .range(range.to_range_header())
            .set_if_match(pin.map(|stamp| stamp.etag.as_str().into()))
            .set_version_id(version_id.map(Into::into))
            .customize()
            .interceptor(raw.clone());
        // Where the reader named a version, its absence is the reader's answer.
        let may_move = pin.is_some() && name.version_id.is_none();
        let output = self.answered(Box::pin(call.send()), may_move).await?;
        let (head, range) = raw.take()?.part(range, pin).map_err(Failure::last)?;
        Ok((head, range, output.body.into_inner()))
    }

    /// Waits for the head of an answer, and says what a missing or bad one means. The SDK's
    /// futures are boxed: they have 16 KiB each, which every caller's future would have too.
    async fn answered<T, E>(
        &self,
        call: Pin<Box<impl Future<Output = Result<T, SdkError<E, HttpResponse>>>>>,
        pinned: bool,
    ) -> Result<T, Failure>
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let limit = self.first_byte_timeout;
        let tried = if let Ok(answered) = timeout(self.clock.as_ref(), limit, call).await {
            answered.map_err(|error| failure(&error, pinned))
        } else {
            let detail = format!("no answer within {} ms", limit.as_millis());
            Err(Failure::again(RetryReason::Timeout, detail))
        };
        self.reach.note(&tried);
        let failure = match tried {
            Ok(output) => return Ok(output),
            Err(failure) => failure,
        };
        if let (Some(RetryReason::Credentials), Some(identity)) = (failure.retry, &self.identity) {
            identity.expired().await;
        }
        Err(failure)
    }
}

/// The SDK takes a key of white space for a missing one. Such an object is forwarded.
fn check_sayable(name: &ObjectName) -> Result<(), Failure> {
    match name.key.as_str().trim() {
        "" => Err(Failure::last(OriginError::Uncacheable("a key of white space"))),
        _ => Ok(()),
    }
}

/// Keeps the head of the answer as it came, before the SDK interprets it, and before other
/// interceptors of the SDK take out what they do not like (an odd Expires, for one).
#[derive(Debug, Clone, Default)]
struct KeptHead(Arc<OnceLock<RawHead>>);

impl KeptHead {
    fn take(&self) -> Result<RawHead, Failure> {
        let unread = || Failure::again(RetryReason::Connection, "no answer");
        self.0.get().cloned().ok_or_else(unread)
    }
}

#[dyn_dispatch_hint]
impl Intercept for KeptHead {
    fn name(&self) -> &'static str {
        "KeptHead"
    }

    fn read_after_transmit(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let response = context.response();
        let mut headers = HeaderMap::with_capacity(response.headers().len());
        for (name, value) in response.headers().iter_bytes() {
            let name = HeaderName::from_bytes(name.as_bytes())?;
            headers.append(name, HeaderValue::from_bytes(value)?);
        }
        // One call is one try: nothing can have been kept before.
        let _ = self.0.set(RawHead { status: response.status().as_u16(), headers });
        Ok(())
    }
}
