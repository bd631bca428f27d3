//! Finding out which version of a name is current: from memory, from before a restart, or by
//! a question to the origin that everybody who asks at the same time shares.

use std::sync::Arc;
use std::time::Instant;

use forebay_rt::spawn;
use forebay_telemetry::ReadCtx;
use forebay_types::{ByteRange, Freshness, ObjectHead, ObjectName, PAGE_BYTES};

use crate::ask::OpenAsk;
use crate::authority::{Known, Question, ToPut, Version};
use crate::cache::Cache;
use crate::error::ReadError;
use crate::flight::Flight;
use crate::limits::OPEN_RESERVE_BYTES;
use crate::metrics::{NotAdmitted, Revalidation};
use crate::plan::{FirstAsk, first_ask};
use crate::traits::OriginFailure;

/// A version, and whether the origin was asked for it just now.
pub(crate) struct Current {
    pub(crate) version: Arc<Version>,
    pub(crate) asked: bool,
    /// The fill of the bytes that came along with the version.
    pub(crate) brought: Option<Arc<Flight>>,
}

impl Cache {
    /// The version that `ask` is to be answered from. With `anew` the origin is asked whatever
    /// is known.
    pub(crate) async fn current(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        ask: &OpenAsk,
        anew: bool,
    ) -> Result<Current, ReadError> {
        let anew = anew || ask.revalidate || ask.freshness == Freshness::Strict;
        if !anew
            && let Some(known) = self.authority.fresh(&ask.name, ask.freshness, self.clock.now())
        {
            return known.into_version().map(|version| Current {
                version,
                asked: false,
                brought: None,
            });
        }
        let (question, to_put) = self.authority.join(ask, anew);
        if let Some(to_put) = to_put {
            self.put(ctx, to_put);
        }
        let version = question.answer().await?.into_version()?;
        // One recalled from before a restart was not asked for.
        let asked = version.asked_at.is_some();
        Ok(Current { version, asked, brought: question.brought.get().cloned() })
    }

    /// Puts a question to the origin in a task of its own, and then the one queued behind it.
    pub(crate) fn put(self: &Arc<Self>, ctx: &ReadCtx, ToPut(question): ToPut) {
        let (cache, ctx) = (self.clone(), ctx.clone());
        spawn(async move {
            let mut next = Some(ToPut(question));
            while let Some(ToPut(question)) = next.take() {
                let asking = Asking { cache: &cache, ctx: &ctx, question: Some(question.clone()) };
                let answer = cache.find_out(&ctx, &question).await;
                next = asking.finish(answer);
            }
        });
    }

    async fn find_out(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        question: &Arc<Question>,
    ) -> Result<Known, ReadError> {
        let ask = &question.ask;
        // Looked up now and not when the question was joined: the one before it has taught us.
        let previous = match self.authority.known_version(&ask.name) {
            Some(version) => Some(version),
            None => self.recall(&ask.name).await,
        };
        match previous {
            Some(version) if ask.freshness == Freshness::Immutable && !question.anew => {
                Ok(Known::Version(version))
            }
            Some(version) => self.revalidate(ctx, &version).await,
            None => {
                self.remember_when_known(question);
                self.discover(ctx, question).await
            }
        }
    }

    /// The bytes of a version that is discovered may be stored already, by a worker that was
    /// killed before it remembered the version: then no fill will come by and do it.
    fn remember_when_known(self: &Arc<Self>, question: &Arc<Question>) {
        let (cache, question) = (self.clone(), question.clone());
        spawn(async move {
            let Ok(Known::Version(version)) = question.answer().await else { return };
            let first_page = ByteRange::new(0, version.id.size().min(PAGE_BYTES));
            let is_stored = |page| cache.local.gap(&version.id, page).is_none();
            if first_page.is_some_and(is_stored) {
                cache.remember(&version).await;
            }
        });
    }

    /// Remembers a version for after a restart, if it is still what its name means.
    ///
    /// A write forgets the name first and then, in its turn here, what the disk remembers:
    /// either it finds this to forget, or we find the name forgotten.
    pub(crate) async fn remember(&self, version: &Version) {
        let _turn = self.remembering.hold(&version.name).await;
        if self.authority.is_current(&version.name, &version.head.stamp) {
            self.versions.remember(&version.name, &version.head).await;
        }
    }

    /// Stops believing that a version is current, also after a restart: its bytes could not be
    /// had any more.
    pub(crate) async fn disbelieve(&self, version: &Version) {
        self.metrics.not_admitted(NotAdmitted::Moved);
        self.authority.forget_version(&version.name, &version.head.stamp);
        self.forget_remembered(&version.name).await;
    }

    /// Makes the disk forget what it remembers of a name.
    pub(crate) async fn forget_remembered(&self, name: &ObjectName) {
        let _turn = self.remembering.hold(name).await;
        self.versions.forget(name).await;
    }

    /// The version remembered from before a restart.
    async fn recall(&self, name: &ObjectName) -> Option<Arc<Version>> {
        let head = self.versions.recall(name).await?;
        Some(Version::new(name, head, None))
    }

    /// Asks whether a known version is still current: one request without a body.
    async fn revalidate(&self, ctx: &ReadCtx, known: &Arc<Version>) -> Result<Known, ReadError> {
        let asked_at = self.clock.now();
        let answer = self.origin.head(ctx, &known.name).await;
        let outcome = match &answer {
            Ok(head) if head.stamp == known.head.stamp => Revalidation::Fresh,
            Ok(_) => Revalidation::Changed,
            Err(OriginFailure::Refused(reply)) if reply.status == 404 => Revalidation::Gone,
            Err(_) => Revalidation::Error,
        };
        self.metrics.revalidated(outcome);
        if matches!(outcome, Revalidation::Changed | Revalidation::Gone) {
            self.local.cool(&known.id);
            self.forget_remembered(&known.name).await;
        }
        learnt(&known.name, answer, asked_at)
    }

    /// Asks for an object of which nothing is known, together with its first bytes where the
    /// reader wants those.
    async fn discover(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        question: &Arc<Question>,
    ) -> Result<Known, ReadError> {
        let ask = &question.ask;
        let asked_at = self.clock.now();
        if let FirstAsk::Get(range) = first_ask(ask)
            && let Some(answer) = self.discover_with_bytes(ctx, question, range).await
        {
            return learnt(&ask.name, answer, asked_at);
        }
        let answer = self.origin.head(ctx, &ask.name).await;
        learnt(&ask.name, answer, asked_at)
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
                let version = Version::new(name, head.clone(), None);
                if let Some(flight) = self.adopt(ctx, version, body, budget, question) {
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
        Ok(head) => Ok(Known::Version(Version::new(name, head, Some(asked_at)))),
        Err(OriginFailure::Refused(reply)) if reply.status == 404 => {
            Ok(Known::Absent { reply, asked_at })
        }
        Err(failure) => Err(failure.into()),
    }
}

impl Known {
    fn into_version(self) -> Result<Arc<Version>, ReadError> {
        match self {
            Self::Version(version) => Ok(version),
            Self::Absent { reply, .. } => Err(ReadError::Refused(reply)),
        }
    }
}

/// Answers the question even when the task that asks it panics: nobody waits for ever.
struct Asking<'a> {
    cache: &'a Arc<Cache>,
    ctx: &'a ReadCtx,
    question: Option<Arc<Question>>,
}

impl Asking<'_> {
    fn finish(mut self, answer: Result<Known, ReadError>) -> Option<ToPut> {
        let question = self.question.take()?;
        self.cache.authority.finish(&question, answer)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(question) = self.question.take() {
            let lost = ReadError::internal("asking the origin ended unexpectedly");
            if let Some(queued) = self.cache.authority.finish(&question, Err(lost)) {
                self.cache.put(self.ctx, queued);
            }
        }
    }
}
