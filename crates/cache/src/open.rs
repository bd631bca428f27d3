//! Opening a read: which version, for how long, under which conditions, which bytes.

use std::sync::Arc;
use std::time::Duration;

use forebay_telemetry::ReadCtx;
use forebay_types::block::spans;
use forebay_types::range::Resolved;
use forebay_types::{ByteRange, ObjectHead};

use crate::ask::OpenAsk;
use crate::authority::Version;
use crate::cache::Cache;
use crate::conditions::Verdict;
use crate::error::ReadError;
use crate::flight::Flight;
use crate::limits::{HIT_LOOK_BLOCKS, OPEN_ATTEMPTS};
use crate::question::Current;
use crate::reader::Reader;

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

/// Whether the origin had to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Version and bytes were here (of a very large range, its beginning was looked at).
    Hit,
    /// The origin was asked for the version or for bytes.
    Miss,
}

/// A read whose version is known.
struct Read<'a> {
    ctx: &'a ReadCtx,
    ask: &'a OpenAsk,
    version: &'a Arc<Version>,
    brought: Option<Arc<Flight>>,
}

impl Cache {
    /// Opens a read. When this returns, the first bytes are there: what goes wrong before
    /// them is an error here, not a body that breaks off.
    pub async fn open(self: &Arc<Self>, ctx: &ReadCtx, ask: OpenAsk) -> Result<Opened, ReadError> {
        let mut anew = false;
        for attempt in 1..=OPEN_ATTEMPTS {
            let current = self.current(ctx, &ask, anew).await?;
            // Someone else's write may be what the condition is about: 412 needs a fresh look.
            let may_be_outdated = !current.asked;
            match self.answer(ctx, &ask, current).await {
                Ok(Opened { answer: Answer::PreconditionFailed, .. }) if may_be_outdated => {
                    anew = true;
                }
                Err(error) if error.is_moved() && attempt < OPEN_ATTEMPTS => anew = true,
                answered => return answered,
            }
        }
        Err(ReadError::moved())
    }

    async fn answer(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        ask: &OpenAsk,
        Current { version, asked, brought }: Current,
    ) -> Result<Opened, ReadError> {
        let mut source = if asked { Source::Miss } else { Source::Hit };
        let stamp = &version.head.stamp;
        let read = Read { ctx, ask, version: &version, brought };
        let answer = match ask.conditions.verdict(stamp) {
            Verdict::NotModified => Answer::NotModified,
            Verdict::PreconditionFailed => Answer::PreconditionFailed,
            Verdict::Proceed => match ask.conditions.range(ask.range, stamp).resolve(stamp.size) {
                Resolved::Unsatisfiable => Answer::Unsatisfiable,
                Resolved::Whole(range) => {
                    Answer::Whole(self.body(&read, range, &mut source).await?)
                }
                Resolved::Part(range) => {
                    let reader = self.body(&read, Some(range), &mut source).await?;
                    Answer::Part { range, reader }
                }
            },
        };
        let age = version.age(self.clock.now());
        Ok(Opened { head: version.head.clone(), answer, source, age })
    }

    async fn body(
        self: &Arc<Self>,
        read: &Read<'_>,
        range: Option<ByteRange>,
        source: &mut Source,
    ) -> Result<Option<Reader>, ReadError> {
        let Read { ctx, ask, version, brought } = read;
        let Some(range) = range.filter(|_| ask.body) else { return Ok(None) };
        if *source == Source::Hit && !self.begins_stored(version, range) {
            *source = Source::Miss;
        }
        let ahead = self.sequential.note(&version.id, range, self.read_ahead_blocks);
        let ahead_end = range.end().saturating_add(ahead).min(version.id.size());
        let mut reader = Reader::new(self, ctx, version, range, ahead_end);
        reader.follow_first(brought.clone());
        reader.prime().await?;
        Ok(Some(reader))
    }

    fn begins_stored(&self, version: &Version, range: ByteRange) -> bool {
        let mut looked_at = spans(range).take(HIT_LOOK_BLOCKS);
        looked_at.all(|span| self.local.gap(&version.id, span.range).is_none())
    }
}
