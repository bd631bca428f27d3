//! One origin, wired: every request passes the limit, then the retries, then goes out.

use std::sync::Arc;

use forebay_rt::{SharedClock, SharedRng};
use forebay_types::{BucketName, ByteRange, ObjectHead, ObjectName, Stamp};

use crate::body::OriginBody;
use crate::config::OriginConfig;
use crate::connect::{self, Site};
use crate::error::{OriginError, SetupError};
use crate::forward::{ForwardBody, Forwarder, Outgoing};
use crate::limit::Limit;
use crate::metrics::Metrics;
use crate::objects::Objects;
use crate::probe;
use crate::reach::Reach;
use crate::retry::Retrying;
use crate::watchdog::Patience;

/// One S3 endpoint with one identity there, shared by all bucket rules that name both.
#[derive(Debug)]
pub struct Origin {
    site: Site,
    limit: Limit,
    retrying: Retrying,
    patience: Patience,
    objects: Objects,
    forwarder: Forwarder,
}

impl Origin {
    /// Prepares an origin. Asks it nothing: it may be down while what is cached is served.
    pub async fn connect(
        config: OriginConfig,
        clock: SharedClock,
        rng: SharedRng,
    ) -> Result<Arc<Self>, SetupError> {
        let site = Site::resolve(&config, &clock).await?;
        let connector = connect::connector(&config);
        let metrics = Arc::new(Metrics::new(&config.metric_buckets));
        let patience = Patience {
            stall_timeout: config.stall_timeout,
            min_rate: config.min_rate,
            clock: clock.clone(),
        };
        let objects = Objects {
            client: connect::sdk_client(&site, &connector, &clock),
            identity: site.identity.clone(),
            first_byte_timeout: config.first_byte_timeout,
            clock: clock.clone(),
            metrics: metrics.clone(),
            reach: Reach::default(),
        };
        let forwarder = Forwarder::new(&site, connector, &config, clock.clone(), metrics);
        Ok(Arc::new(Self {
            limit: Limit::new(&config, clock.clone()),
            retrying: Retrying::new(config.retry, clock, rng),
            site,
            patience,
            objects,
            forwarder,
        }))
    }

    /// Checks, at start, that `bucket` can be reached and read with our identity.
    ///
    /// [`SetupError::Denied`] may be an identity that may get objects but not list them.
    pub async fn probe(&self, bucket: &BucketName) -> Result<(), SetupError> {
        probe::probe(&self.site, &self.objects, bucket).await
    }

    /// Whether the last HEAD or GET that was tried got no answer at all. Requests are being tried
    /// again then: who has another way to the object need not wait for them.
    pub fn is_silent(&self) -> bool {
        self.objects.reach.is_silent()
    }

    /// Asks for the current version of `name`, without a body.
    pub async fn head(&self, name: &ObjectName) -> Result<ObjectHead, OriginError> {
        let _in_flight = self.limit.enter().await?;
        self.retrying.run(|| self.objects.head(name)).await
    }

    /// Asks for bytes. With `pin` the answer is of that version and of exactly `range`, or it is
    /// [`OriginError::Moved`]; without, of the current version and clamped to its size.
    ///
    /// A `200` to a range, even one that would hold it, is [`OriginError::Uncacheable`].
    pub async fn get(
        &self,
        name: &ObjectName,
        range: ByteRange,
        pin: Option<&Stamp>,
    ) -> Result<OriginBody, OriginError> {
        let in_flight = self.limit.enter().await?;
        let part = self.retrying.run(|| self.objects.get(name, range, pin)).await?;
        Ok(part.into_body(self.patience.watch(), in_flight))
    }

    /// Sends a path-style request, whose caller has already been authorized and whose own
    /// signature has been removed, under our identity, and gives back the answer as it comes.
    ///
    /// Only a GET or HEAD without a body is tried again, and only while no answer has begun:
    /// of all else the origin may have done its part. Needs the length of the body.
    pub async fn forward(
        &self,
        request: http::Request<ForwardBody>,
    ) -> Result<http::Response<ForwardBody>, OriginError> {
        let Outgoing { head, body } = Outgoing::parse(request)?;
        let in_flight = self.limit.enter().await?;
        let answer = match body {
            None if head.is_read() => {
                self.retrying.run(|| self.forwarder.send(head.clone(), None)).await?
            }
            body => self.forwarder.send(head, body).await.map_err(|failure| failure.error)?,
        };
        Ok(answer.into_response(self.patience.watch(), in_flight))
    }
}
