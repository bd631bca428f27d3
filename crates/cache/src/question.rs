//! Finding out which version of a name is current: from memory, from before a restart, or by
//! a question to the origin that everybody who asks at the same time shares.

use std::sync::Arc;
use std::time::Instant;

use forebay_rt::spawn;
use forebay_telemetry::ReadCtx;
use forebay_types::{BlockIndex, ByteRange, Freshness, ObjectHead, ObjectName, PAGE_BYTES};

use crate::authority::{Question, ToPut};
use crate::error::ReadError;
use crate::flight::Flight;
use crate::limits::OPEN_RESERVE_BYTES;
use crate::metrics::{NotAdmitted, Revalidation};
use crate::owner::Owner;
use crate::peers::{PeerOpenAsk, Recalled, Vouching};
use crate::plan::{FirstAsk, first_ask};
use crate::traits::OriginFailure;
use crate::version::{Asked, Content, Known, Terms, Version};

/// A version, and whether the origin was asked for it just now.
pub(crate) struct Current {
    pub(crate) version: Arc<Version>,
    pub(crate) asked: bool,
    /// The fill of the bytes that came along with the version.
    pub(crate) brought: Option<Arc<Flight>>,
}

impl Owner {
    /// The version that `ask` is to be answered from.
    pub(crate) async fn current(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        ask: &PeerOpenAsk,
    ) -> Result<Current, ReadError> {
        let terms = self.terms(ask);
        if !ask.anew
            && let Some(known) = self.authority.standing(&ask.name, &terms)
        {
            let version = known.into_version()?;
            return Ok(Current { version, asked: false, brought: None });
        }
        let (question, to_put) = self.authority.join(ask, &terms);
        if let Some(to_put) = to_put {
            self.put(ctx, to_put);
        }
        let version = question.answer().await?.into_version()?;
        // One recalled from before a restart was not asked for.
        let asked = matches!(version.asked, Asked::Here(_));
        Ok(Current { version, asked, brought: question.brought.get().cloned() })
    }

    /// What this worker knows counts only while it speaks for the name. A stand-in, and a worker
    /// that has lost touch with the voters, asks the origin for everyone who asks it.
    fn terms(&self, ask: &PeerOpenAsk) -> Terms {
        let anew = ask.anew || ask.freshness == Freshness::Strict;
        let since = match self.placement.vouching(&ask.name) {
            Vouching::Since(since) if !anew => Some(since),
            _ => None,
        };
        let must_ask = anew || ask.freshness != Freshness::Immutable;
        Terms { freshness: ask.freshness, since, must_ask, now: self.clock.now() }
    }

    /// The version that `name` is believed to be, where versions stand for ever.
    pub(crate) async fn believed(&self, name: &ObjectName) -> Option<Arc<Version>> {
        match self.authority.known_version(name) {
            Some(version) => Some(version),
            None => self.recall(name).await,
        }
    }

    /// Puts a question to the origin in a task of its own, and then the one queued behind it.
    pub(crate) fn put(self: &Arc<Self>, ctx: &ReadCtx, ToPut(question): ToPut) {
        let (owner, ctx) = (self.clone(), ctx.clone());
        spawn(async move {
            let mut next = Some(ToPut(question));
            while let Some(ToPut(question)) = next.take() {
                let asking = Asking { owner: &owner, ctx: &ctx, question: Some(question.clone()) };
                let answer = owner.find_out(&ctx, &question).await;
                next = asking.finish(answer);
            }
        });
    }

    async fn find_out(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        question: &Arc<Question>,
    ) -> Result<Known, ReadError> {
        // Looked up now and not when the question was joined: the one before it has taught us.
        let mut others_may_have_it = false;
        let mut believed = self.believed(&question.ask.name).await;
        if believed.is_none() {
            (believed, others_may_have_it) = self.recalled_elsewhere(&question.ask.name).await;
        }
        match believed {
            Some(version) if !question.must_ask() => Ok(Known::Version(version)),
            Some(version) => self.revalidate(ctx, question, &version).await,
            None => {
                self.remember_when_known(question);
                self.discover(ctx, question, others_may_have_it).await
            }
        }
    }

    /// The version that an earlier authority remembers; and, where none is remembered, whether
    /// one of those who did not answer may have the object all the same.
    async fn recalled_elsewhere(&self, name: &ObjectName) -> (Option<Arc<Version>>, bool) {
        let mut some_did_not_answer = false;
        for worker in self.placement.previous_owners(name, BlockIndex(0)) {
            match self.previous.recall(worker, name).await {
                Recalled::Version(head) => {
                    return (Some(Version::new(name, head, Asked::Unknown)), true);
                }
                Recalled::Nothing => {}
                Recalled::NoAnswer => some_did_not_answer = true,
            }
        }
        (None, some_did_not_answer)
    }

    /// The bytes of a version that is discovered may be stored already, by a worker that was
    /// killed before it remembered the version: then no fill will come by and do it.
    fn remember_when_known(self: &Arc<Self>, question: &Arc<Question>) {
        let (owner, question) = (self.clone(), question.clone());
        spawn(async move {
            let Ok(Known::Version(version)) = question.answer().await else { return };
            let first_page = ByteRange::new(0, version.head.stamp.size.min(PAGE_BYTES));
            let is_stored = |page| owner.local.gap(&version.content.id, page).is_none();
            if first_page.is_some_and(is_stored) {
                owner.remember(&version.content).await;
            }
        });
    }

    /// Remembers a version for after a restart, if it is still what its name means.
    ///
    /// A write forgets the name first and then, in its turn here, what the disk remembers:
    /// either it finds this to forget, or we find the name forgotten.
    pub(crate) async fn remember(&self, content: &Content) {
        let _turn = self.remembering.hold(&content.name).await;
        let known = self.authority.known_version(&content.name);
        if let Some(version) = known.filter(|version| version.content.id == content.id) {
            self.versions.remember(&content.name, &version.head).await;
        }
    }

    /// Stops believing that a version is current, also after a restart: its bytes could not be
    /// had any more.
    pub(crate) async fn disbelieve(&self, content: &Content) {
        self.metrics.not_admitted(NotAdmitted::Moved);
        self.authority.forget_version(content);
        self.forget_remembered(&content.name).await;
    }

    /// Makes the disk forget what it remembers of a name.
    pub(crate) async fn forget_remembered(&self, name: &ObjectName) {
        let _turn = self.remembering.hold(name).await;
        self.versions.forget(name).await;
    }

    /// The version remembered from before a restart.
    async fn recall(&self, name: &ObjectName) -> Option<Arc<Version>> {
        let head = self.versions.recall(name).await?;
        Some(Version::new(name, head, Asked::Unknown))
    }

    /// Asks whether a known version is still current: one request without a body.
    async fn revalidate(
        &self,
        ctx: &ReadCtx,
        question: &Question,
        known: &Version,
    ) -> Result<Known, ReadError> {
        let asked_at = question.put_at(self.clock.now());
        let answer = self.origin.head(ctx, &known.content.name).await;
        let outcome = match &answer {
            Ok(head) if head.stamp == known.head.stamp => Revalidation::Fresh,
            Ok(_) => Revalidation::Changed,
            Err(OriginFailure::Refused(reply)) if reply.status == 404 => Revalidation::Gone,
            Err(_) => Revalidation::Error,
        };
        self.metrics.revalidated(outcome);
        if matches!(outcome, Revalidation::Changed | Revalidation::Gone) {
            self.local.cool(&known.content.id);
            self.forget_remembered(&known.content.name).await;
        }
        learnt(&known.content.name, answer, asked_at)
    }

    /// Asks for an object of which nothing is known, together with its first bytes where the
    /// reader wants those and no other worker may have them.
    async fn discover(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        question: &Arc<Question>,
        others_may_have_it: bool,
    ) -> Result<Known, ReadError> {
        let name = &question.ask.name;
        let asked_at = question.put_at(self.clock.now());
        if let FirstAsk::Get(range) = first_ask(question.ask.range)
            && !others_may_have_it
            && let Some(answer) = self.discover_with_bytes(ctx, question, range).await
        {
            return learnt(name, answer, asked_at);
        }
        let answer = self.origin.head(ctx, name).await;
        learnt(name, answer, asked_at)
    }

    /// `None` where only a HEAD can tell: an empty object, a range past the end, no memory.
    async fn discover_with_bytes(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        question: &Arc<Question>,
        range: ByteRange,
    ) -> Option<Result<ObjectHead, OriginFailure>> {
        let name = &question.ask.name;
        let reserve_bytes = range.len().min(OPEN_RESERVE_BYTES);
        let budget = self.fills.reserve(&*self.clock, reserve_bytes).await?;
        match self.origin.get(ctx, name, range, None).await {
            Ok(body) => {
                let head = body.head.clone();
                let content = Content::new(name, &head.stamp);
                if let Some(flight) = self.adopt(ctx, content, body, budget, question) {
                    question.brought.get_or_init(|| flight);
                }
                Some(Ok(head))
            }
            Err(OriginFailure::Unsatisfiable) => None,
            Err(failure) => Some(Err(failure)),
        }
    }
}

fn learnt(
    name: &ObjectName,
    answer: Result<ObjectHead, OriginFailure>,
    asked_at: Instant,
) -> Result<Known, ReadError> {
    match answer {
        Ok(head) => Ok(Known::Version(Version::new(name, head, Asked::Here(asked_at)))),
        Err(OriginFailure::Refused(reply)) if reply.status == 404 => {
            Ok(Known::Absent { reply, asked_at })
        }
        Err(failure) => Err(failure.into()),
    }
}

/// Answers the question even when the task that asks it panics: nobody waits for ever.
struct Asking<'a> {
    owner: &'a Arc<Owner>,
    ctx: &'a ReadCtx,
    question: Option<Arc<Question>>,
}

impl Asking<'_> {
    fn finish(mut self, answer: Result<Known, ReadError>) -> Option<ToPut> {
        let question = self.question.take()?;
        self.owner.authority.finish(&question, answer)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(question) = self.question.take() {
            let lost = ReadError::internal("asking the origin ended unexpectedly");
            if let Some(queued) = self.owner.authority.finish(&question, Err(lost)) {
                self.owner.put(self.ctx, queued);
            }
        }
    }
}
