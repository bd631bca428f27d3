//! What is not a read: handed to the origin, and announced where it changed something.

use std::sync::Arc;

use bytes::Bytes;
use forebay_rt::spawn;
use forebay_telemetry::ReadCtx;
use forebay_types::{BucketName, ObjectName};
use futures_util::StreamExt;
use http_body::{Body, Frame};
use http_body_util::{BodyExt, BodyStream, StreamBody};
use tokio::sync::mpsc;

use crate::announce::NotAnnounced;
use crate::cache::Cache;
use crate::error::ReadError;
use crate::limits::FORWARD_QUEUE_FRAMES;
use crate::traits::{BoxError, ForwardBody};

type FrameResult = Result<Frame<Bytes>, BoxError>;
type Answer = http::Response<ForwardBody>;

impl Cache {
    /// Sends a request to the origin and returns its answer as it comes.
    ///
    /// `changed` names what the request may change. Whatever becomes of the request or of the
    /// client, these names are announced before the client can see that the answer is complete.
    /// A success that cannot be announced is not shown to the client as one.
    pub async fn forward(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        bucket: Option<BucketName>,
        request: http::Request<ForwardBody>,
        changed: Vec<ObjectName>,
    ) -> Result<Answer, ReadError> {
        if changed.is_empty() {
            return Ok(self.forward.forward(bucket.as_ref(), request).await?);
        }
        let (cache, ctx) = (self.clone(), ctx.clone());
        let writing = spawn(async move {
            let answer = cache.forward.forward(bucket.as_ref(), request).await;
            let announced = cache.announce(&ctx, &changed).await;
            let answer = answer?;
            if !answer.status().is_success() {
                // Nothing is acknowledged: what the origin says is as true as before.
                return Ok(answer);
            }
            announced?;
            // Without a body the answer is complete: who reads next may remember what they read.
            if answer.body().is_end_stream() || answer.body().size_hint().exact() == Some(0) {
                return Ok(answer);
            }
            Ok(cache.announce_again_at_the_end(ctx, answer, changed))
        });
        writing.await.unwrap_or_else(|_| Err(ReadError::internal("a write ended unexpectedly")))
    }

    /// S3 may answer 200 and then spend minutes completing an upload, sending blanks; what the
    /// request changes is changed only when the body ends. So the last frame is held back
    /// until the names have been announced once more, and a client that hangs up changes
    /// nothing. Where they cannot be, an error takes the place of the last frame.
    fn announce_again_at_the_end(
        self: &Arc<Self>,
        ctx: ReadCtx,
        answer: Answer,
        changed: Vec<ObjectName>,
    ) -> Answer {
        let (head, body) = answer.into_parts();
        let (sender, mut receiver) = mpsc::channel::<FrameResult>(FORWARD_QUEUE_FRAMES);
        let cache = self.clone();
        spawn(async move {
            let mut frames = BodyStream::new(body);
            let mut held_back = None;
            while let Some(frame) = frames.next().await {
                if let Some(before) = held_back.replace(frame) {
                    // Nobody reads any more: the origin is still heard out.
                    let _ = sender.send(before).await;
                }
            }
            if let Err(error) = cache.announce(&ctx, &changed).await {
                held_back = Some(Err(ReadError::from(error).into()));
            }
            if let Some(last) = held_back {
                let _ = sender.send(last).await;
            }
        });
        let frames = futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx));
        http::Response::from_parts(head, StreamBody::new(frames).boxed_unsync())
    }
}

impl From<NotAnnounced> for ReadError {
    fn from(_: NotAnnounced) -> Self {
        Self::Unannounced
    }
}
