//! Everything that is not a cached read: addressed anew, signed anew, streamed both ways.
//!
//! What the origin answers goes back as it is, errors included; only headers of the connection
//! stay behind. Nothing is understood here, so that whatever S3 learns works through Forebay.

mod outgoing;
mod reply;
mod sign;
mod target;
mod upload;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{HttpConnector, SharedHttpConnector};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use forebay_rt::{SharedClock, timeout};
use http_body_util::combinators::UnsyncBoxBody;

use crate::config::OriginConfig;
use crate::connect::Site;
use crate::error::{Failure, OriginError};
use crate::metrics::{Metrics, Op, Tally};
use crate::sdk_error::unanswered;
pub(crate) use outgoing::{Outgoing, RequestHead, SizedBody};
pub(crate) use reply::Reply;
use sign::Signer;
use target::Target;
use upload::Progress;

/// An error of a streamed body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A streamed body of a forwarded request or answer.
pub type ForwardBody = UnsyncBoxBody<Bytes, BoxError>;

#[derive(Debug)]
pub(crate) struct Forwarder {
    target: Target,
    signer: Signer,
    connector: SharedHttpConnector,
    answer_timeout: Duration,
    clock: SharedClock,
    metrics: Arc<Metrics>,
}

impl Forwarder {
    pub(crate) fn new(
        site: &Site,
        connector: SharedHttpConnector,
        config: &OriginConfig,
        clock: SharedClock,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            target: Target::new(site),
            signer: Signer::new(site, clock.clone()),
            connector,
            answer_timeout: config.answer_timeout,
            clock,
            metrics,
        }
    }

    /// One try.
    pub(crate) async fn send(
        &self,
        head: RequestHead,
        body: Option<SizedBody>,
    ) -> Result<Reply, Failure> {
        let tally = self.metrics.begin(Op::Forward, head.bucket.as_ref());
        match self.exchange(head, body, &tally).await {
            Ok(response) => Ok(Reply { response, tally }),
            Err(failure) => {
                tally.done(failure.outcome());
                Err(failure)
            }
        }
    }

    async fn exchange(
        &self,
        head: RequestHead,
        body: Option<SizedBody>,
        tally: &Tally,
    ) -> Result<http::Response<SdkBody>, Failure> {
        let progress = Progress::default();
        let body = match body {
            Some(body) => body.into_sdk_body(progress.clone()),
            None => SdkBody::empty(),
        };
        let url = self.target.url(&head).await.map_err(Failure::last)?;
        let mut request = head.into_request(url, body);
        self.signer.sign(&mut request).await?;
        let request = request.try_into().map_err(|_| unsendable())?;
        let begun = self.clock.now();
        let answered = self.watched(self.connector.call(request), &progress).await?;
        tally.first_byte(self.clock.now().saturating_duration_since(begun));
        answered.try_into_http1x().map_err(|_| {
            Failure::last(OriginError::Unavailable("the answer's head is malformed".into()))
        })
    }

    /// Waits for an answer for as long as the request's body moves, and then `answer_timeout`:
    /// so long that it is not waited for twice.
    async fn watched(
        &self,
        call: impl Future<Output = Result<HttpResponse, ConnectorError>>,
        progress: &Progress,
    ) -> Result<HttpResponse, Failure> {
        let mut call = pin!(call);
        loop {
            let seen = progress.bytes();
            match timeout(self.clock.as_ref(), self.answer_timeout, &mut call).await {
                Ok(answered) => return answered.map_err(|error| unanswered(&error)),
                Err(_) if progress.bytes() > seen => {}
                Err(_) => {
                    let waited_ms = self.answer_timeout.as_millis();
                    let detail = format!("no answer within {waited_ms} ms");
                    return Err(Failure::last(OriginError::Unavailable(detail)));
                }
            }
        }
    }
}

fn unsendable() -> Failure {
    let message = "The request has a header that cannot be sent.";
    Failure::last(OriginError::refused(400, "InvalidRequest", message))
}
