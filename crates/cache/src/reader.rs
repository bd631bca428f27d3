//! A body as a client gets it: the bytes of one range of one version, chunk by chunk, counted.
//!
//! Where this worker answers for the whole range, its owner reads it; else the range is spread
//! over the workers that own its blocks.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use forebay_telemetry::{ReadCtx, Tier};
use forebay_types::block::spans;
use forebay_types::{BlockIndex, ByteRange};
use forebay_zerocopy::PipePass;
use futures_util::Stream;

use crate::cache::Cache;
use crate::error::ReadError;
use crate::limits::HIT_LOOK_BLOCKS;
use crate::metrics::BucketMetrics;
use crate::open::{First, Source};
use crate::own_reader::{Chunk, ChunkResult, OwnReader};
use crate::peers::Place;
use crate::plan::within_block;
use crate::sequential::AheadOf;
use crate::spread::Spread;
use crate::version::Content;

/// What is to be read.
#[derive(Clone)]
pub(crate) struct Read {
    pub(crate) ctx: ReadCtx,
    pub(crate) content: Arc<Content>,
    pub(crate) range: ByteRange,
    pub(crate) pass: Option<PipePass>,
}

/// Reads one range of one version. Each item is at most one chunk; after an error, which the
/// connection must turn into a cut, there are no more.
pub struct Reader {
    cache: Arc<Cache>,
    ctx: ReadCtx,
    content: Arc<Content>,
    from: From,
    metrics: Arc<BucketMetrics>,
    /// The first chunk, where it has been waited for already.
    primed: Option<Bytes>,
    /// Bytes that have not been handed out or primed.
    left: u64,
    slowest: Tier,
}

enum From {
    Own(OwnReader),
    Spread(Box<Spread>),
}

impl Cache {
    /// How far a body's bytes are from here, as far as can be told without asking anybody.
    pub(crate) fn source_of(&self, read: &Read) -> Source {
        let alone = self.placement.is_alone();
        let missing = spans(read.range)
            .take(HIT_LOOK_BLOCKS)
            .filter(|span| self.owner.local.gap(&read.content.id, span.range).is_some());
        let place = |block| if alone { Source::Miss } else { self.source_of_block(read, block) };
        missing.map(|span| place(span.block)).max().unwrap_or(Source::Hit)
    }

    fn source_of_block(&self, read: &Read, block: BlockIndex) -> Source {
        match self.first_owner(&read.content, block) {
            Place::Here => Source::Miss,
            Place::There(_) => Source::Peer,
        }
    }

    /// The owner of a block.
    pub(crate) fn first_owner(&self, content: &Content, block: BlockIndex) -> Place {
        self.placement.owners(&content.name, block).first().copied().unwrap_or(Place::Here)
    }
}

impl Reader {
    pub(crate) fn new(cache: &Arc<Cache>, read: Read, first: First) -> Self {
        let walk = cache.sequential.note(&read.content.id, read.range, cache.read_ahead_blocks);
        Self {
            metrics: cache.metrics().bucket(&read.ctx.bucket_label),
            left: read.range.len(),
            ctx: read.ctx.clone(),
            content: read.content.clone(),
            from: From::choose(cache, read, walk, first),
            cache: cache.clone(),
            primed: None,
            slowest: Tier::Ram,
        }
    }

    /// Bytes still to come.
    pub fn remaining(&self) -> u64 {
        self.primed.as_ref().map_or(0, Bytes::len) as u64 + self.left
    }

    /// Waits for the first chunk, so that what goes wrong before it can still be answered, and
    /// tells where it came from.
    pub(crate) async fn prime(&mut self) -> Result<Source, ReadError> {
        let first = std::future::poll_fn(|cx| self.from.poll_chunk(cx)).await;
        let Some(first) = first else { return Ok(Source::Hit) };
        let (bytes, tier) = first.map_err(|error| self.fail(error))?;
        self.primed = Some(self.hand_out((bytes, tier)));
        Ok(match tier {
            Tier::Ram | Tier::Nvme => Source::Hit,
            Tier::Peer => Source::Peer,
            Tier::Origin => Source::Miss,
        })
    }

    /// Counts bytes and moves past them.
    fn hand_out(&mut self, (bytes, tier): Chunk) -> Bytes {
        let length = bytes.len() as u64;
        self.left = self.left.saturating_sub(length);
        self.metrics.served_bytes(tier, length);
        if let Some(app) = &self.ctx.app {
            app.served_bytes(tier, length);
        }
        self.slowest = self.slowest.max(tier);
        if self.left == 0 {
            self.metrics.served_request(self.slowest);
            if let Some(app) = &self.ctx.app {
                app.served_request(self.slowest);
            }
        }
        bytes
    }

    fn fail(&mut self, error: ReadError) -> ReadError {
        self.left = 0;
        if error.is_moved() {
            self.cache.metrics().mixed_version_prevented();
        }
        error
    }
}

impl Stream for Reader {
    type Item = Result<Bytes, ReadError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let me = self.get_mut();
        if let Some(first) = me.primed.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        if me.left == 0 {
            return Poll::Ready(None);
        }
        me.from.poll_chunk(cx).map(|item| {
            item.map(|chunk| match chunk {
                Ok(chunk) => Ok(me.hand_out(chunk)),
                Err(error) => {
                    if error.is_moved() {
                        me.cache.look_anew(&me.ctx, &me.content.name);
                    }
                    Err(me.fail(error))
                }
            })
        })
    }
}

impl From {
    /// A small read of a block that is ours is as short a way as it is without other workers.
    fn choose(cache: &Arc<Cache>, read: Read, walk: AheadOf, first: First) -> Self {
        let Read { ctx, content, range, .. } = &read;
        let is_ours = || {
            let in_one_block = within_block(*range) == *range && walk.end == range.end();
            cache.placement.is_alone()
                || in_one_block
                    && cache.first_owner(content, BlockIndex::of(range.start())) == Place::Here
        };
        let brought = match first {
            First::Nothing if is_ours() => None,
            First::Brought(flight) if is_ours() => Some(flight),
            first => return Self::Spread(Box::new(Spread::new(cache, read, walk, first))),
        };
        let mut reader = OwnReader::new(&cache.owner, ctx, content, *range, walk.end);
        reader.follow_first(brought);
        Self::Own(reader)
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<ChunkResult>> {
        match self {
            Self::Own(reader) => reader.poll_chunk(cx),
            Self::Spread(spread) => spread.poll_chunk(cx),
        }
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reader({} bytes left)", self.remaining())
    }
}
