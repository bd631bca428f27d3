//! A fill: a task of its own that outlives whoever began it, brings one run of missing pages
//! and stores them.
//!
//! Before the origin, the disks of the block's earlier owners are asked. Whatever the source,
//! the bytes go through the same flight: held to their length, then stored.

use std::sync::Arc;

use forebay_rt::spawn;
use forebay_telemetry::ReadCtx;
use forebay_types::{BlockIndex, ByteRange};
use futures_util::StreamExt;
use tokio::sync::OwnedSemaphorePermit;

use crate::authority::Question;
use crate::error::ReadError;
use crate::fills::Joined;
use crate::flight::{Flight, Outcome};
use crate::limits::FILL_RESUME;
use crate::metrics::NotAdmitted;
use crate::owner::Owner;
use crate::peers::PeerBody;
use crate::traits::{OriginBody, OriginFailure};
use crate::version::Content;

impl Owner {
    /// Sends a fill on its way.
    pub(crate) fn launch(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        content: &Arc<Content>,
        flight: Arc<Flight>,
    ) {
        let (owner, ctx, content) = (self.clone(), ctx.clone(), content.clone());
        spawn(async move {
            let question = None;
            let fill =
                Fill { owner: &owner, ctx: &ctx, content: &content, flight: &flight, question };
            let landing = Landing { fill: &fill, landed: false };
            let outcome = match owner.fills.reserve(&*owner.clock, flight.range().len()).await {
                None => Outcome::NoBudget,
                Some(budget) => {
                    flight.hold(budget);
                    fill.run(None).await
                }
            };
            landing.land(outcome);
        });
    }

    /// Makes a fill of a body that came along with the version; drops the body where its
    /// pages are already stored or on their way. Returns the fill that brings them.
    pub(crate) fn adopt(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        content: Arc<Content>,
        body: OriginBody,
        budget: OwnedSemaphorePermit,
        question: &Arc<Question>,
    ) -> Option<Arc<Flight>> {
        let flight = match self.fills.join(&*self.local, &content.id, body.range) {
            Joined::Local => return None,
            Joined::Existing(flight) => return Some(flight),
            Joined::New(flight) => flight,
        };
        let (owner, ctx, adopted) = (self.clone(), ctx.clone(), flight.clone());
        let question = Some(question.clone());
        spawn(async move {
            let fill =
                Fill { owner: &owner, ctx: &ctx, content: &content, flight: &flight, question };
            let landing = Landing { fill: &fill, landed: false };
            landing.land(fill.run_adopted(body, budget).await);
        });
        Some(adopted)
    }
}

/// One fill while it runs.
struct Fill<'a> {
    owner: &'a Arc<Owner>,
    ctx: &'a ReadCtx,
    content: &'a Arc<Content>,
    flight: &'a Arc<Flight>,
    /// The question whose answer brought the body.
    question: Option<Arc<Question>>,
}

impl Fill<'_> {
    /// The size was unknown when the first share of the budget was taken: trims it, or takes
    /// the rest where there is some. It does not wait for memory: the body has a place at the
    /// origin, which those who have memory may be waiting for.
    async fn run_adopted(&self, body: OriginBody, budget: OwnedSemaphorePermit) -> Outcome {
        let Some(budget) = self.owner.fills.resize(budget, self.flight.range().len()) else {
            return Outcome::NoBudget;
        };
        self.flight.hold(budget);
        // The body may begin with pages that somebody else is already filling, or go past ours.
        let fits = body.range == self.flight.range();
        self.run(fits.then_some(body)).await
    }

    async fn run(&self, first: Option<OriginBody>) -> Outcome {
        let started = self.owner.clock.now();
        if first.is_none() {
            self.peek().await;
        }
        if let Err(failure) = self.fetch(first).await {
            return self.failed(&failure).await;
        }
        self.owner.metrics.filled(self.owner.clock.now().saturating_duration_since(started));
        self.store().await
    }

    /// What is still to be brought.
    fn rest(&self) -> Option<ByteRange> {
        ByteRange::new(self.flight.arrived(), self.flight.range().end())
    }

    /// Takes what the disks of earlier owners have, one after the other.
    async fn peek(&self) {
        let Content { name, id } = &**self.content;
        let block = BlockIndex::of(self.flight.range().start());
        for worker in self.owner.placement.previous_owners(name, block) {
            let Some(rest) = self.rest() else { return };
            if let Some(body) = self.owner.previous.peek(worker, name, id.stamp(), rest).await {
                self.take_peeked(body, rest).await;
            }
        }
    }

    /// Takes bytes for as long as they are what was asked for. Never fails: the origin has them.
    async fn take_peeked(&self, mut body: PeerBody, rest: ByteRange) {
        if body.range.start() != rest.start() {
            return;
        }
        while let Some(Ok(frame)) = body.frames.next().await {
            let fits = self.rest().is_some_and(|rest| frame.len() as u64 <= rest.len());
            if !fits {
                return;
            }
            if !frame.is_empty() {
                self.owner.metrics.peeked(frame.len() as u64);
                self.flight.push_peeked(frame);
            }
        }
    }

    /// Brings all bytes of the range that are missing, carrying on where an attempt broke off.
    async fn fetch(&self, first: Option<OriginBody>) -> Result<(), OriginFailure> {
        let mut body = first;
        let mut failures = 0;
        loop {
            let Some(rest) = self.rest() else { return Ok(()) };
            let arrived_before = rest.start();
            let Err(failure) = self.attempt(body.take(), rest).await else { continue };
            if !is_worth_resuming(&failure) {
                return Err(failure);
            }
            failures = if self.flight.arrived() > arrived_before { 1 } else { failures + 1 };
            match FILL_RESUME.wait_after(failures, &*self.owner.rng) {
                Some(wait) => self.owner.clock.sleep(wait).await,
                None => return Err(failure),
            }
        }
    }
    async fn attempt(
        &self,
        body: Option<OriginBody>,
        rest: ByteRange,
    ) -> Result<(), OriginFailure> {
        let content = self.content;
        let pin = Some(content.id.stamp());
        let mut body = match body {
            Some(body) => body,
            None => self.owner.origin.get(self.ctx, &content.name, rest, pin).await?,
        };
        if body.head.stamp != *content.id.stamp() || body.range != rest {
            return Err(OriginFailure::Moved);
        }
        while let Some(frame) = body.frames.next().await {
            let frame = frame?;
            if frame.len() as u64 > rest.end() - self.flight.arrived() {
                return Err(OriginFailure::Moved);
            }
            if !frame.is_empty() {
                self.flight.push(frame);
            }
        }
        Ok(())
    }

    async fn store(&self) -> Outcome {
        let (owner, content) = (self.owner, self.content);
        let Some(frames) = self.flight.frames() else {
            return Outcome::Failed(ReadError::internal("a fill ended before its last byte"));
        };
        if owner.local.store(&content.id, self.flight.range(), frames).await.is_err() {
            owner.metrics.not_admitted(NotAdmitted::Store);
            return Outcome::Kept;
        }
        // A small body can be here before its version is known to be current.
        if let Some(question) = &self.question {
            let _ = question.answer().await;
        }
        owner.remember(content).await;
        Outcome::Stored
    }

    /// An object that moved is no longer what its name means: the next reader asks anew.
    async fn failed(&self, failure: &OriginFailure) -> Outcome {
        let error = ReadError::from(failure.clone());
        if error.is_moved() {
            self.owner.disbelieve(self.content).await;
        }
        Outcome::Failed(error)
    }
}

fn is_worth_resuming(failure: &OriginFailure) -> bool {
    match failure {
        OriginFailure::SlowDown | OriginFailure::Unavailable(_) => true,
        OriginFailure::Refused(_)
        | OriginFailure::Unsatisfiable
        | OriginFailure::Moved
        | OriginFailure::Uncacheable(_) => false,
    }
}

/// Takes the fill out of the table and tells its followers, also when its task panics.
struct Landing<'a> {
    fill: &'a Fill<'a>,
    landed: bool,
}

impl Landing<'_> {
    fn land(mut self, outcome: Outcome) {
        self.landed = true;
        self.end(outcome);
    }

    fn end(&self, outcome: Outcome) {
        let Fill { owner, content, flight, .. } = self.fill;
        owner.fills.remove(&content.id, flight);
        flight.land(outcome);
    }
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        if !self.landed {
            self.end(Outcome::Failed(ReadError::internal("a fill ended unexpectedly")));
        }
    }
}
