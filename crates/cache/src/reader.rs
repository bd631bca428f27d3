//! A body: the bytes of one range of one version, chunk by chunk, from wherever they are.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use forebay_telemetry::{ReadCtx, Tier};
use forebay_types::{BLOCK_BYTES, BlockIndex, ByteRange};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};

use crate::authority::Version;
use crate::cache::Cache;
use crate::error::ReadError;
use crate::fills::Joined;
use crate::flight::{Flight, Progress};
use crate::limits::LOCAL_LOOKS;
use crate::metrics::BucketMetrics;
use crate::plan::within_block;
use crate::traits::{Found, OriginFailure};

/// Reads one range of one version. Each item is at most one chunk; after an error, which the
/// connection must turn into a cut, there are no more.
pub struct Reader {
    cache: Arc<Cache>,
    ctx: ReadCtx,
    version: Arc<Version>,
    metrics: Arc<BucketMetrics>,
    /// What is still to be handed out; `None` at the end.
    rest: Option<ByteRange>,
    /// The first chunk, where it has been waited for already.
    primed: Option<Bytes>,
    step: Step,
    local_looks: u32,
    ahead: Ahead,
    slowest: Tier,
}

enum Step {
    Look,
    ReadDisk(Later<Found>),
    Follow(Arc<Flight>),
    FollowLater(Arc<Flight>, Later<()>),
    AskDirect(Later<DirectBody>),
    Direct(Frames),
}

type Item = Result<Bytes, ReadError>;
type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Frames = BoxStream<'static, Result<Bytes, OriginFailure>>;
type DirectBody = Result<Frames, OriginFailure>;

/// The fills that have been sent ahead of the reader.
struct Ahead {
    /// In the order of their bytes. What the store does not take is read from here.
    flights: VecDeque<Arc<Flight>>,
    /// First block that has not been considered yet.
    next: BlockIndex,
    /// One past the last byte that may be fetched ahead.
    end: u64,
}

impl Ahead {
    /// The fill that was sent ahead for byte `at`, if it has it or is still bringing it.
    fn take(&mut self, at: u64) -> Option<Arc<Flight>> {
        while self.flights.front().is_some_and(|flight| flight.range().end() <= at) {
            self.flights.pop_front();
        }
        let flight = self.flights.pop_front_if(|flight| flight.range().holds(at))?;
        matches!(flight.progress(at), Progress::Bytes(_) | Progress::NotYet).then_some(flight)
    }
}

impl Reader {
    /// A reader of `range`; bytes up to `ahead_end` may be fetched before they are asked for.
    pub(crate) fn new(
        cache: &Arc<Cache>,
        ctx: &ReadCtx,
        version: &Arc<Version>,
        range: ByteRange,
        ahead_end: u64,
    ) -> Self {
        Self {
            cache: cache.clone(),
            ctx: ctx.clone(),
            version: version.clone(),
            metrics: cache.metrics.bucket(&ctx.bucket_label),
            rest: Some(range),
            primed: None,
            step: Step::Look,
            local_looks: 0,
            ahead: Ahead {
                flights: VecDeque::new(),
                next: BlockIndex(BlockIndex::of(range.start()).0 + 1),
                end: ahead_end,
            },
            slowest: Tier::Ram,
        }
    }

    /// Follows the fill that came along with the version, should it have the first bytes.
    pub(crate) fn follow_first(&mut self, brought: Option<Arc<Flight>>) {
        self.ahead.flights.extend(brought);
    }

    /// Bytes still to come.
    pub fn remaining(&self) -> u64 {
        let primed = self.primed.as_ref().map_or(0, Bytes::len) as u64;
        primed + self.rest.map_or(0, ByteRange::len)
    }

    /// Waits for the first chunk, so that what goes wrong before it can still be answered.
    pub(crate) async fn prime(&mut self) -> Result<(), ReadError> {
        if let Some(first) = self.next().await {
            self.primed = Some(first?);
        }
        Ok(())
    }

    /// Looks where the next byte is, and takes the step that leads there.
    fn look(&mut self, rest: ByteRange) -> Option<Bytes> {
        let part = within_block(rest);
        self.fill_ahead(part);
        self.local_looks += 1;
        if self.local_looks > LOCAL_LOOKS {
            self.step = self.ask_direct(part);
            return None;
        }
        match self.cache.local.read_now(&self.version.id, part) {
            Found::Hit(bytes, tier) => return Some(self.hand_out(bytes, tier)),
            Found::Cold => self.step = self.read_disk(part),
            Found::Miss => self.step = self.follow(part),
        }
        None
    }

    fn read_disk(&self, part: ByteRange) -> Step {
        let (cache, version) = (self.cache.clone(), self.version.clone());
        Step::ReadDisk(Box::pin(async move { cache.local.read(&version.id, part).await }))
    }

    fn follow(&mut self, part: ByteRange) -> Step {
        if let Some(flight) = self.ahead.take(part.start()) {
            return Step::Follow(flight);
        }
        match self.cache.fills.join(&*self.cache.local, &self.version.id, part) {
            Joined::Local => Step::Look,
            Joined::Existing(flight) => {
                self.cache.metrics.joined_a_fill();
                Step::Follow(flight)
            }
            Joined::New(flight) => {
                self.cache.launch(&self.ctx, &self.version, flight.clone());
                Step::Follow(flight)
            }
        }
    }

    /// Reads from the origin past the cache, for one reader: when there is no memory for a
    /// fill, or the store does not give back what it says it has.
    fn ask_direct(&self, part: ByteRange) -> Step {
        let (cache, ctx, version) = (self.cache.clone(), self.ctx.clone(), self.version.clone());
        Step::AskDirect(Box::pin(async move {
            let stamp = &version.head.stamp;
            match cache.origin.get(&ctx, &version.name, part, Some(stamp)).await {
                Ok(body) => Ok(body.frames),
                Err(failure) => {
                    if matches!(failure, OriginFailure::Moved) {
                        cache.disbelieve(&version).await;
                    }
                    Err(failure)
                }
            }
        }))
    }

    /// Sends fills ahead, once for each block, while there is memory for them.
    fn fill_ahead(&mut self, part: ByteRange) {
        let window_end =
            BlockIndex::of(part.start()).0.saturating_add(self.cache.read_ahead_blocks);
        while self.ahead.next.0 <= window_end && self.ahead.next.start() < self.ahead.end {
            let block = self.ahead.next;
            if !self.cache.fills.has_room(BLOCK_BYTES) {
                return;
            }
            self.ahead.next = BlockIndex(block.0 + 1);
            let end = block.end().min(self.ahead.end);
            let Some(part) = ByteRange::new(block.start(), end) else { return };
            let Some(gap) = self.cache.local.gap(&self.version.id, part) else { continue };
            let joined = self.cache.fills.join(&*self.cache.local, &self.version.id, gap);
            if let Joined::New(flight) = joined {
                self.cache.launch(&self.ctx, &self.version, flight.clone());
                self.ahead.flights.push_back(flight);
            }
        }
    }

    /// Counts bytes and moves past them.
    fn hand_out(&mut self, bytes: Bytes, tier: Tier) -> Bytes {
        let length = bytes.len() as u64;
        self.rest = self.rest.and_then(|rest| ByteRange::new(rest.start() + length, rest.end()));
        self.local_looks = 0;
        self.metrics.served_bytes(tier, length);
        if rank(tier) > rank(self.slowest) {
            self.slowest = tier;
        }
        if self.rest.is_none() {
            self.metrics.served_request(self.slowest);
        }
        bytes
    }

    /// Hands out what a fill has, or takes the step that the fill's end leads to.
    fn follow_on(
        &mut self,
        flight: Arc<Flight>,
        rest: ByteRange,
    ) -> Result<Option<Bytes>, ReadError> {
        let part = within_block(rest);
        match flight.progress(rest.start()) {
            Progress::Bytes(mut bytes) => {
                bytes.truncate(part.len().min(bytes.len() as u64) as usize);
                let bytes = self.hand_out(bytes, Tier::Origin);
                let goes_on = self.rest.is_some_and(|rest| flight.range().holds(rest.start()));
                self.step = if goes_on { Step::Follow(flight) } else { Step::Look };
                return Ok(Some(bytes));
            }
            Progress::NotYet => {
                let (waiting, at) = (flight.clone(), rest.start());
                let later = Box::pin(async move { waiting.moved_past(at).await });
                self.step = Step::FollowLater(flight, later);
            }
            Progress::LookLocal => self.step = Step::Look,
            Progress::GoDirect => self.step = self.ask_direct(part),
            Progress::Failed(error) => return Err(self.fail(error)),
        }
        Ok(None)
    }

    fn direct_on(
        &mut self,
        frame: Option<Result<Bytes, OriginFailure>>,
        rest: ByteRange,
    ) -> Result<Bytes, ReadError> {
        let cut = || OriginFailure::Unavailable("the body ended early".into());
        let frame =
            frame.unwrap_or_else(|| Err(cut())).map_err(|failure| self.fail(failure.into()))?;
        if frame.len() as u64 > within_block(rest).len() {
            return Err(self.fail(ReadError::moved()));
        }
        let at_block_end = frame.len() as u64 == within_block(rest).len();
        let frame = self.hand_out(frame, Tier::Origin);
        if at_block_end {
            self.step = Step::Look;
        }
        Ok(frame)
    }

    fn fail(&mut self, error: ReadError) -> ReadError {
        self.rest = None;
        if error.is_moved() {
            self.cache.metrics.mixed_version_prevented();
        }
        error
    }
}

impl Stream for Reader {
    type Item = Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let me = self.get_mut();
        if let Some(first) = me.primed.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        loop {
            let Some(rest) = me.rest else { return Poll::Ready(None) };
            let item = match std::mem::replace(&mut me.step, Step::Look) {
                Step::Look => me.look(rest).map(Ok),
                Step::ReadDisk(read) => ready!(me.poll_disk(read, cx)),
                Step::Follow(flight) => me.follow_on(flight, rest).transpose(),
                Step::FollowLater(flight, later) => ready!(me.poll_flight(flight, later, cx)),
                Step::AskDirect(ask) => ready!(me.poll_ask(ask, cx)),
                Step::Direct(frames) => Some(ready!(me.poll_direct(frames, rest, cx))),
            };
            // Without an item, a step has been taken that may lead to one.
            if item.is_some() {
                return Poll::Ready(item);
            }
        }
    }
}

/// Each polls one step, and puts it back where it is not done.
impl Reader {
    fn poll_disk(&mut self, mut read: Later<Found>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        match read.as_mut().poll(cx) {
            Poll::Ready(Found::Hit(bytes, tier)) => {
                Poll::Ready(Some(Ok(self.hand_out(bytes, tier))))
            }
            // Dropped as corrupt or evicted since: what is missing is filled.
            Poll::Ready(Found::Cold | Found::Miss) => Poll::Ready(None),
            Poll::Pending => {
                self.step = Step::ReadDisk(read);
                Poll::Pending
            }
        }
    }

    fn poll_flight(
        &mut self,
        flight: Arc<Flight>,
        mut later: Later<()>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Item>> {
        if later.as_mut().poll(cx).is_pending() {
            self.step = Step::FollowLater(flight, later);
            return Poll::Pending;
        }
        self.step = Step::Follow(flight);
        Poll::Ready(None)
    }

    fn poll_ask(&mut self, mut ask: Later<DirectBody>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        match ask.as_mut().poll(cx) {
            Poll::Ready(Ok(frames)) => {
                self.step = Step::Direct(frames);
                Poll::Ready(None)
            }
            Poll::Ready(Err(failure)) => Poll::Ready(Some(Err(self.fail(failure.into())))),
            Poll::Pending => {
                self.step = Step::AskDirect(ask);
                Poll::Pending
            }
        }
    }

    fn poll_direct(
        &mut self,
        mut frames: Frames,
        rest: ByteRange,
        cx: &mut Context<'_>,
    ) -> Poll<Item> {
        let frame = frames.poll_next_unpin(cx);
        self.step = Step::Direct(frames);
        frame.map(|frame| self.direct_on(frame, rest))
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reader({}, {} bytes left)", self.version.id, self.remaining())
    }
}

fn rank(tier: Tier) -> u8 {
    match tier {
        Tier::Ram => 0,
        Tier::Nvme => 1,
        Tier::Origin => 2,
    }
}
