//! Bytes of one version as this worker has or brings them by itself, chunk by chunk: from its
//! disks, from a fill that is on its way, or from the origin. Never from another owner.

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

use crate::error::ReadError;
use crate::fills::Joined;
use crate::flight::{Flight, Progress};
use crate::limits::LOCAL_LOOKS;
use crate::owner::Owner;
use crate::plan::within_block;
use crate::traits::{Found, OriginFailure};
use crate::version::Content;

/// Reads one range of one version. Each item is at most one chunk; after an error, which the
/// connection must turn into a cut, there are no more.
pub struct OwnReader {
    owner: Arc<Owner>,
    ctx: ReadCtx,
    content: Arc<Content>,
    /// What is still to be handed out; `None` at the end.
    rest: Option<ByteRange>,
    /// The first chunk, where it has been waited for already.
    primed: Option<Chunk>,
    step: Step,
    local_looks: u32,
    ahead: Ahead,
}

enum Step {
    Look,
    ReadDisk(Later<Found>),
    Follow(Arc<Flight>),
    FollowLater(Arc<Flight>, Later<()>),
    AskDirect(Later<DirectBody>),
    Direct(Frames),
}

/// Bytes, and where they came from.
pub(crate) type Chunk = (Bytes, Tier);
pub(crate) type ChunkResult = Result<Chunk, ReadError>;
pub(crate) type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;
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
        matches!(flight.progress(at), Progress::Bytes(..) | Progress::NotYet).then_some(flight)
    }
}

impl OwnReader {
    /// A reader of `range`; bytes up to `ahead_end` may be fetched before they are asked for.
    pub(crate) fn new(
        owner: &Arc<Owner>,
        ctx: &ReadCtx,
        content: &Arc<Content>,
        range: ByteRange,
        ahead_end: u64,
    ) -> Self {
        Self {
            owner: owner.clone(),
            ctx: ctx.clone(),
            content: content.clone(),
            rest: Some(range),
            primed: None,
            step: Step::Look,
            local_looks: 0,
            ahead: Ahead {
                flights: VecDeque::new(),
                next: BlockIndex(BlockIndex::of(range.start()).0 + 1),
                end: ahead_end,
            },
        }
    }

    /// Follows the fill that came along with the version, should it have the first bytes.
    pub(crate) fn follow_first(&mut self, brought: Option<Arc<Flight>>) {
        self.ahead.flights.extend(brought);
    }

    /// Sends the first fill on its way before the reader is polled.
    pub(crate) fn start(&mut self) {
        if let Some(rest) = self.rest {
            self.send_ahead(within_block(rest));
        }
    }

    /// Bytes still to come.
    pub fn remaining(&self) -> u64 {
        let primed = self.primed.as_ref().map_or(0, |(bytes, _)| bytes.len()) as u64;
        primed + self.rest.map_or(0, ByteRange::len)
    }

    /// Waits for the first chunk, so that what goes wrong before it can still be answered.
    pub(crate) async fn prime(&mut self) -> Result<(), ReadError> {
        if let Some(first) = std::future::poll_fn(|cx| self.poll_chunk(cx)).await {
            self.primed = Some(first?);
        }
        Ok(())
    }

    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<ChunkResult>> {
        if let Some(first) = self.primed.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        loop {
            let Some(rest) = self.rest else { return Poll::Ready(None) };
            let item = match std::mem::replace(&mut self.step, Step::Look) {
                Step::Look => self.look(rest).map(Ok),
                Step::ReadDisk(read) => ready!(self.poll_disk(read, cx)),
                Step::Follow(flight) => self.follow_on(flight, rest).transpose(),
                Step::FollowLater(flight, later) => ready!(self.poll_flight(flight, later, cx)),
                Step::AskDirect(ask) => ready!(self.poll_ask(ask, cx)),
                Step::Direct(frames) => Some(ready!(self.poll_direct(frames, rest, cx))),
            };
            // Without an item, a step has been taken that may lead to one.
            if item.is_some() {
                return Poll::Ready(item);
            }
        }
    }

    /// Looks where the next byte is, and takes the step that leads there.
    fn look(&mut self, rest: ByteRange) -> Option<Chunk> {
        let part = within_block(rest);
        self.fill_ahead(part);
        self.local_looks += 1;
        if self.local_looks > LOCAL_LOOKS {
            self.step = self.ask_direct(part);
            return None;
        }
        match self.owner.local.read_now(&self.content.id, part) {
            Found::Hit(bytes, tier) => return Some(self.hand_out(bytes, tier)),
            Found::Cold => self.step = self.read_disk(part),
            Found::Miss => self.step = self.follow(part),
        }
        None
    }

    fn read_disk(&self, part: ByteRange) -> Step {
        let (owner, content) = (self.owner.clone(), self.content.clone());
        Step::ReadDisk(Box::pin(async move { owner.local.read(&content.id, part).await }))
    }

    fn follow(&mut self, part: ByteRange) -> Step {
        if let Some(flight) = self.ahead.take(part.start()) {
            return Step::Follow(flight);
        }
        match self.owner.fills.join(&*self.owner.local, &self.content.id, part) {
            Joined::Local => Step::Look,
            Joined::Existing(flight) => {
                self.owner.metrics.joined_a_fill();
                Step::Follow(flight)
            }
            Joined::New(flight) => {
                self.owner.launch(&self.ctx, &self.content, flight.clone());
                Step::Follow(flight)
            }
        }
    }

    /// Reads from the origin past the cache, for one reader: when there is no memory for a
    /// fill, or the store does not give back what it says it has.
    fn ask_direct(&self, part: ByteRange) -> Step {
        let (owner, ctx, content) = (self.owner.clone(), self.ctx.clone(), self.content.clone());
        Step::AskDirect(Box::pin(async move {
            let stamp = content.id.stamp();
            match owner.origin.get(&ctx, &content.name, part, Some(stamp)).await {
                Ok(body) => Ok(body.frames),
                Err(failure) => {
                    if matches!(failure, OriginFailure::Moved) {
                        owner.disbelieve(&content).await;
                    }
                    Err(failure)
                }
            }
        }))
    }

    /// Sends fills ahead, once for each block, while there is memory for them.
    fn fill_ahead(&mut self, part: ByteRange) {
        let window_end =
            BlockIndex::of(part.start()).0.saturating_add(self.owner.read_ahead_blocks);
        while self.ahead.next.0 <= window_end && self.ahead.next.start() < self.ahead.end {
            let block = self.ahead.next;
            if !self.owner.fills.has_room(BLOCK_BYTES) {
                return;
            }
            self.ahead.next = BlockIndex(block.0 + 1);
            let end = block.end().min(self.ahead.end);
            let Some(part) = ByteRange::new(block.start(), end) else { return };
            self.send_ahead(part);
        }
    }

    fn send_ahead(&mut self, part: ByteRange) {
        let Some(gap) = self.owner.local.gap(&self.content.id, part) else { return };
        let joined = self.owner.fills.join(&*self.owner.local, &self.content.id, gap);
        if let Joined::New(flight) = joined {
            self.owner.launch(&self.ctx, &self.content, flight.clone());
            self.ahead.flights.push_back(flight);
        }
    }

    /// Moves past bytes that are handed out.
    fn hand_out(&mut self, bytes: Bytes, tier: Tier) -> Chunk {
        let length = bytes.len() as u64;
        self.rest = self.rest.and_then(|rest| ByteRange::new(rest.start() + length, rest.end()));
        self.local_looks = 0;
        (bytes, tier)
    }

    /// Hands out what a fill has, or takes the step that the fill's end leads to.
    fn follow_on(
        &mut self,
        flight: Arc<Flight>,
        rest: ByteRange,
    ) -> Result<Option<Chunk>, ReadError> {
        let part = within_block(rest);
        match flight.progress(rest.start()) {
            Progress::Bytes(mut bytes, tier) => {
                bytes.truncate(part.len().min(bytes.len() as u64) as usize);
                let chunk = self.hand_out(bytes, tier);
                let goes_on = self.rest.is_some_and(|rest| flight.range().holds(rest.start()));
                self.step = if goes_on { Step::Follow(flight) } else { Step::Look };
                return Ok(Some(chunk));
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
    ) -> ChunkResult {
        let cut = || OriginFailure::Unavailable("the body ended early".into());
        let frame =
            frame.unwrap_or_else(|| Err(cut())).map_err(|failure| self.fail(failure.into()))?;
        if frame.len() as u64 > within_block(rest).len() {
            return Err(self.fail(ReadError::moved()));
        }
        let at_block_end = frame.len() as u64 == within_block(rest).len();
        let chunk = self.hand_out(frame, Tier::Origin);
        if at_block_end {
            self.step = Step::Look;
        }
        Ok(chunk)
    }

    fn fail(&mut self, error: ReadError) -> ReadError {
        self.rest = None;
        error
    }
}

/// Each polls one step, and puts it back where it is not done.
impl OwnReader {
    fn poll_disk(
        &mut self,
        mut read: Later<Found>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<ChunkResult>> {
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
    ) -> Poll<Option<ChunkResult>> {
        if later.as_mut().poll(cx).is_pending() {
            self.step = Step::FollowLater(flight, later);
            return Poll::Pending;
        }
        self.step = Step::Follow(flight);
        Poll::Ready(None)
    }

    fn poll_ask(
        &mut self,
        mut ask: Later<DirectBody>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<ChunkResult>> {
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
    ) -> Poll<ChunkResult> {
        let frame = frames.poll_next_unpin(cx);
        self.step = Step::Direct(frames);
        frame.map(|frame| self.direct_on(frame, rest))
    }
}

impl Stream for OwnReader {
    type Item = Result<Bytes, ReadError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_chunk(cx).map(|item| item.map(|chunk| chunk.map(|(bytes, _)| bytes)))
    }
}

impl std::fmt::Debug for OwnReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OwnReader({}, {} bytes left)", self.content.id, self.remaining())
    }
}
