//! Opening a read: which version, for how long, under which conditions, which bytes.

use std::sync::Arc;
use std::time::Duration;

use forebay_rt::spawn;
use forebay_telemetry::ReadCtx;
use forebay_types::range::Resolved;
use forebay_types::{BlockIndex, ByteRange, Freshness, ObjectHead, ObjectName, WorkerId};

use crate::ask::OpenAsk;
use crate::cache::Cache;
use crate::conditions::Verdict;
use crate::error::ReadError;
use crate::flight::Flight;
use crate::limits::OPEN_ATTEMPTS;
use crate::peers::{PeerBody, PeerOpenAsk, PeerOpened, Place};
use crate::plan::wanted_first;
use crate::question::Current;
use crate::reader::{Read, Reader};
use crate::version::{Asked, Version};
use crate::walk::Walk;

/// An opened read.
#[derive(Debug)]
pub struct Opened {
    /// The version that answers.
    pub head: Arc<ObjectHead>,
    /// What to answer.
    pub answer: Answer,
    /// Where the answer comes from.
    pub source: Source,
    /// How long ago the origin was asked about this version.
    pub age: Duration,
}

/// What to answer. The size of the object is in the head's stamp.
#[derive(Debug)]
pub enum Answer {
    /// 200; no reader for HEAD and for an empty object.
    Whole(Option<Reader>),
    /// 206; no reader for HEAD.
    Part {
        /// The bytes, clamped to the object.
        range: ByteRange,
        /// Gives them.
        reader: Option<Reader>,
    },
    /// 304.
    NotModified,
    /// 412.
    PreconditionFailed,
    /// 416.
    Unsatisfiable,
}

/// Who had to be asked, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Version and bytes were here (of a very large range, its beginning was looked at).
    Hit,
    /// Another worker had the version or the bytes.
    Peer,
    /// The origin was asked for the version or for bytes.
    Miss,
}

/// A version that answers, and the bytes that came along with it.
struct Found {
    version: Arc<Version>,
    source: Source,
    first: First,
}

/// The first bytes of a body, where somebody has sent them already.
pub(crate) enum First {
    Nothing,
    /// A fill of this worker.
    Brought(Arc<Flight>),
    /// Another worker's answer.
    Sent(WorkerId, PeerBody),
}

impl Cache {
    /// Opens a read. When this returns, the first bytes are there: what goes wrong before
    /// them is an error here, not a body that breaks off.
    ///
    /// Nobody joins another's open: a read that begins after a write was acknowledged must not
    /// share what was asked before it. Who may share is for the authority to say.
    pub async fn open(self: &Arc<Self>, ctx: &ReadCtx, ask: OpenAsk) -> Result<Opened, ReadError> {
        let mut anew = ask.revalidate;
        for attempt in 1..=OPEN_ATTEMPTS {
            match self.open_once(ctx, &ask, anew).await {
                // Someone else's write may be what the condition is about: 412 needs a fresh look.
                Ok(Opened { answer: Answer::PreconditionFailed, source, .. })
                    if source != Source::Miss =>
                {
                    anew = true;
                }
                Err(error) if error.is_moved() && attempt < OPEN_ATTEMPTS => anew = true,
                answered => return answered,
            }
        }
        Err(ReadError::moved())
    }

    async fn open_once(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        ask: &OpenAsk,
        anew: bool,
    ) -> Result<Opened, ReadError> {
        let (name, freshness) = (ask.name.clone(), ask.freshness);
        let version_ask = PeerOpenAsk { name, freshness, anew, range: wanted_first(ask) };
        let found = self.find(ctx, &version_ask).await?;
        self.answer(ctx, ask, found).await
    }

    /// The version that a reader gets: from memory where versions stand for ever, else from the
    /// authority of the name. If that does not answer, from whoever stands in for it, who does
    /// not speak for the name and therefore asks the origin.
    async fn find(self: &Arc<Self>, ctx: &ReadCtx, ask: &PeerOpenAsk) -> Result<Found, ReadError> {
        if self.placement.is_alone() {
            return self.find_here(ctx, ask).await;
        }
        let owners = self.placement.owners(&ask.name, BlockIndex(0));
        if owners.first() == Some(&Place::Here) {
            return self.find_here(ctx, ask).await;
        }
        if ask.freshness == Freshness::Immutable
            && !ask.anew
            && let Some(version) = self.owner.believed(&ask.name).await
        {
            return Ok(Found { version, source: Source::Hit, first: First::Nothing });
        }
        let mut walk = Walk::new(owners);
        while let Some(worker) = walk.next(&[]) {
            match self.peers.open(ctx, worker, ask.clone()).await {
                Ok(opened) => return Ok(self.heard(ask, worker, opened)),
                Err(failure) => walk.passes(failure, self.metrics())?,
            }
        }
        self.find_here(ctx, ask).await
    }

    async fn find_here(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        ask: &PeerOpenAsk,
    ) -> Result<Found, ReadError> {
        let Current { version, asked, brought } = self.owner.current(ctx, ask).await?;
        let source = if asked { Source::Miss } else { Source::Hit };
        Ok(Found { version, source, first: brought.map_or(First::Nothing, First::Brought) })
    }

    /// A body had to be cut because the object moved under it. Its authority may be another
    /// worker, which has to hear of that: the next reader would be cut as well.
    pub(crate) fn look_anew(self: &Arc<Self>, ctx: &ReadCtx, name: &ObjectName) {
        if self.placement.is_alone() {
            return;
        }
        let (cache, ctx, name) = (self.clone(), ctx.clone(), name.clone());
        spawn(async move {
            let freshness = Freshness::Immutable;
            let ask = PeerOpenAsk { name, freshness, anew: true, range: None };
            // The next reader finds out what went wrong, if that does not end.
            let _ = cache.find(&ctx, &ask).await;
        });
    }

    fn heard(&self, ask: &PeerOpenAsk, worker: WorkerId, opened: PeerOpened) -> Found {
        let PeerOpened { head, asked, age, body } = opened;
        let at = age.and_then(|age| self.clock.now().checked_sub(age));
        let version = Version::new(&ask.name, head, at.map_or(Asked::Unknown, Asked::Elsewhere));
        if ask.freshness == Freshness::Immutable {
            self.owner.authority.hear(&version);
        }
        let source = if asked { Source::Miss } else { Source::Peer };
        let first = body.map_or(First::Nothing, |body| First::Sent(worker, body));
        Found { version, source, first }
    }

    async fn answer(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        ask: &OpenAsk,
        Found { version, mut source, first }: Found,
    ) -> Result<Opened, ReadError> {
        let stamp = &version.head.stamp;
        let body = |range: Option<ByteRange>| {
            let range = range.filter(|_| ask.body)?;
            let (ctx, content) = (ctx.clone(), version.content.clone());
            Some(Read { ctx, content, range, pass: ask.pass })
        };
        let answer = match ask.conditions.verdict(stamp) {
            Verdict::NotModified => Answer::NotModified,
            Verdict::PreconditionFailed => Answer::PreconditionFailed,
            Verdict::Proceed => match ask.conditions.range(ask.range, stamp).resolve(stamp.size) {
                Resolved::Unsatisfiable => Answer::Unsatisfiable,
                Resolved::Whole(range) => {
                    Answer::Whole(self.read(body(range), first, &mut source).await?)
                }
                Resolved::Part(range) => {
                    let reader = self.read(body(Some(range)), first, &mut source).await?;
                    Answer::Part { range, reader }
                }
            },
        };
        let age = version.age(self.clock.now()).unwrap_or_default();
        Ok(Opened { head: version.head.clone(), answer, source, age })
    }

    async fn read(
        self: &Arc<Self>,
        read: Option<Read>,
        first: First,
        source: &mut Source,
    ) -> Result<Option<Reader>, ReadError> {
        let Some(read) = read else { return Ok(None) };
        if *source != Source::Miss {
            *source = self.source_of(&read).max(*source);
        }
        let mut reader = Reader::new(self, read, first);
        let first_from = reader.prime().await?;
        *source = first_from.max(*source);
        Ok(Some(reader))
    }
}
