//! A body whose blocks belong to several workers: each span from this worker's disks where it
//! is stored, whatever the ring says, else from the owner of its block.
//!
//! While one span is handed out, the next ones have been asked for already. What has been asked
//! of another worker and is not read yet waits in the buffers of its connection. A worker that
//! breaks off is left for the next owner at the byte where it broke off.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use forebay_telemetry::Tier;
use forebay_types::{BLOCK_BYTES, BlockIndex, ByteRange, WorkerId};
use forebay_zerocopy::PipePass;
use futures_util::StreamExt;

use crate::ahead::{Ahead, Sent};
use crate::cache::Cache;
use crate::error::ReadError;
use crate::open::First;
use crate::own_reader::{Chunk, ChunkResult, Later, OwnReader};
use crate::peers::{PeerBody, PeerFrames, Place};
use crate::plan::within_block;
use crate::reach::{Reached, Reaching};
use crate::reader::Read;
use crate::sequential::AheadOf;
use crate::traits::Found;

/// Reads a range span by span.
pub(crate) struct Spread {
    cache: Arc<Cache>,
    read: Read,
    /// What is still to be handed out; `None` at the end.
    rest: Option<ByteRange>,
    step: Step,
    ahead: Ahead,
    /// Workers that broke off in the present span.
    tried: Vec<WorkerId>,
}

enum Step {
    Look,
    ReadDisk(Later<Found>),
    Reach(Reaching),
    Own(OwnReader),
    Peer(PeerSpan),
}

/// Bytes that another worker is sending.
struct PeerSpan {
    worker: WorkerId,
    range: ByteRange,
    tier: Tier,
    frames: Box<dyn PeerFrames>,
}

impl Spread {
    pub(crate) fn new(cache: &Arc<Cache>, read: Read, walk: AheadOf, first: First) -> Self {
        let mut spread = Self {
            cache: cache.clone(),
            rest: Some(read.range),
            step: Step::Look,
            ahead: Ahead::new(read.range, walk),
            tried: Vec::new(),
            read,
        };
        spread.begin_with(first);
        spread
    }

    /// Takes up what came along with the version, if it is what the body begins with.
    fn begin_with(&mut self, first: First) {
        let part = within_block(self.read.range);
        match first {
            First::Nothing => {}
            First::Brought(flight) => {
                let brought = flight.range().intersect(part);
                if let Some(brought) = brought.filter(|range| range.start() == part.start()) {
                    let mut reader = self.own_reader(brought);
                    reader.follow_first(Some(flight));
                    self.step = Step::Own(reader);
                }
            }
            First::Sent(worker, body) => {
                if body.range.start() == part.start() && part.contains(body.range) {
                    self.step = Step::Peer(PeerSpan::new(worker, body, self.read.pass));
                }
            }
        }
        // What the body begins with is asked for first.
        if !matches!(self.step, Step::Look) {
            self.send_ahead(part);
        }
    }

    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<ChunkResult>> {
        loop {
            let Some(rest) = self.rest else { return Poll::Ready(None) };
            let item = match std::mem::replace(&mut self.step, Step::Look) {
                Step::Look => self.look(within_block(rest)).map(Ok),
                Step::ReadDisk(read) => ready!(self.poll_disk(read, within_block(rest), cx)),
                Step::Reach(reaching) => ready!(self.poll_reach(reaching, within_block(rest), cx)),
                Step::Own(reader) => ready!(self.poll_own(reader, cx)),
                Step::Peer(span) => ready!(self.poll_peer(span, within_block(rest), cx)),
            };
            // Without an item, a step has been taken that may lead to one.
            if item.is_some() {
                return Poll::Ready(item);
            }
        }
    }

    /// Looks where the next byte is, and takes the step that leads there.
    fn look(&mut self, part: ByteRange) -> Option<Chunk> {
        let mut local = part;
        match self.ahead.take(part) {
            Some(Sent::Here(reader)) => self.step = Step::Own(reader),
            Some(Sent::There(reaching)) => self.step = Step::Reach(reaching),
            None => {
                local = self.ahead.before_next(part);
                match self.cache.owner.local.read_now(&self.read.content.id, local) {
                    Found::Hit(bytes, tier) => {
                        self.send_ahead(part);
                        return Some(self.hand_out(bytes, tier));
                    }
                    Found::Cold => self.step = self.read_disk(local),
                    Found::Miss => self.step = self.seek(part),
                }
            }
        }
        self.send_ahead(local);
        None
    }

    fn read_disk(&self, part: ByteRange) -> Step {
        let (local, id) = (self.cache.owner.local.clone(), self.read.content.id.clone());
        Step::ReadDisk(Box::pin(async move { local.read(&id, part).await }))
    }

    /// Asks for bytes that are not stored here.
    fn seek(&mut self, part: ByteRange) -> Step {
        self.ahead.drop_block(part);
        match self.cache.first_owner(&self.read.content, BlockIndex::of(part.start())) {
            Place::Here => Step::Own(self.own_reader(part)),
            Place::There(_) => Step::Reach(self.reach(part, &self.tried)),
        }
    }

    fn own_reader(&self, part: ByteRange) -> OwnReader {
        let Read { ctx, content, .. } = &self.read;
        OwnReader::new(&self.cache.owner, ctx, content, part, part.end())
    }

    fn reach(&self, part: ByteRange, tried: &[WorkerId]) -> Reaching {
        let read = Read { range: part, ..self.read.clone() };
        Reaching::begin(&self.cache, read, tried.to_vec())
    }

    /// Moves past bytes that are handed out.
    fn hand_out(&mut self, bytes: Bytes, tier: Tier) -> Chunk {
        let length = bytes.len() as u64;
        self.rest = self.rest.and_then(|rest| ByteRange::new(rest.start() + length, rest.end()));
        if self.rest.is_some_and(|rest| BlockIndex::of(rest.start()).start() == rest.start()) {
            self.tried.clear();
        }
        (bytes, tier)
    }

    /// Asks for the spans behind `part`, as many as the window has room for.
    fn send_ahead(&mut self, part: ByteRange) {
        while let Some(block) = self.ahead.next_block(part, self.cache.read_ahead_blocks) {
            let owner = self.cache.first_owner(&self.read.content, block);
            if owner == Place::Here && !self.cache.owner.fills.has_room(BLOCK_BYTES) {
                return;
            }
            let (wanted, later) = self.ahead.pass(block);
            if let Some(gap) = wanted.and_then(|wanted| self.gap(wanted)) {
                let sent = match owner {
                    Place::Here => {
                        let mut reader = self.own_reader(gap);
                        reader.start();
                        Sent::Here(reader)
                    }
                    Place::There(_) => Sent::There(self.reach(gap, &[])),
                };
                self.ahead.sent(gap, sent);
            }
            if let Some(gap) = later.and_then(|later| self.gap(later)) {
                self.warm(owner, gap);
            }
        }
    }

    /// What is missing here, from the first missing byte to the end.
    fn gap(&self, part: ByteRange) -> Option<ByteRange> {
        let gap = self.cache.owner.local.gap(&self.read.content.id, part)?;
        ByteRange::new(gap.start(), part.end())
    }

    /// A reader that walks through the object will come back for these bytes.
    fn warm(&self, owner: Place, part: ByteRange) {
        let Read { ctx, content, .. } = &self.read;
        match owner {
            Place::Here => self.cache.owner.warm_content(ctx, content, part),
            Place::There(worker) => {
                self.cache.peers.warm(worker, &content.name, content.id.stamp(), part);
            }
        }
    }

    fn fail(&mut self, error: ReadError) -> ReadError {
        self.rest = None;
        self.ahead.clear();
        error
    }
}

/// Each polls one step, and puts it back where it is not done.
impl Spread {
    fn poll_disk(
        &mut self,
        mut read: Later<Found>,
        part: ByteRange,
        cx: &mut Context<'_>,
    ) -> Poll<Option<ChunkResult>> {
        match read.as_mut().poll(cx) {
            Poll::Ready(Found::Hit(bytes, tier)) => {
                Poll::Ready(Some(Ok(self.hand_out(bytes, tier))))
            }
            // Dropped as corrupt or evicted since.
            Poll::Ready(Found::Cold | Found::Miss) => {
                self.step = self.seek(part);
                Poll::Ready(None)
            }
            Poll::Pending => {
                self.step = Step::ReadDisk(read);
                Poll::Pending
            }
        }
    }

    fn poll_reach(
        &mut self,
        mut reaching: Reaching,
        part: ByteRange,
        cx: &mut Context<'_>,
    ) -> Poll<Option<ChunkResult>> {
        self.step = match Pin::new(&mut reaching).poll(cx) {
            Poll::Pending => {
                self.step = Step::Reach(reaching);
                return Poll::Pending;
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(self.fail(error)))),
            Poll::Ready(Ok(Reached::Here)) => Step::Own(self.own_reader(part)),
            Poll::Ready(Ok(Reached::There(worker, body))) => {
                Step::Peer(PeerSpan::new(worker, body, self.read.pass))
            }
        };
        Poll::Ready(None)
    }

    fn poll_own(
        &mut self,
        mut reader: OwnReader,
        cx: &mut Context<'_>,
    ) -> Poll<Option<ChunkResult>> {
        let item = reader.poll_chunk(cx);
        if !matches!(item, Poll::Ready(None)) {
            self.step = Step::Own(reader);
        }
        item.map(|item| {
            item.map(|chunk| match chunk {
                Ok((bytes, tier)) => Ok(self.hand_out(bytes, tier)),
                Err(error) => Err(self.fail(error)),
            })
        })
    }

    fn poll_peer(
        &mut self,
        mut span: PeerSpan,
        part: ByteRange,
        cx: &mut Context<'_>,
    ) -> Poll<Option<ChunkResult>> {
        let Poll::Ready(frame) = span.frames.poll_next_unpin(cx) else {
            self.step = Step::Peer(span);
            return Poll::Pending;
        };
        let left = span.range.len();
        match frame {
            Some(Ok(bytes)) if bytes.len() as u64 <= left => {
                let (length, tier) = (bytes.len() as u64, span.tier);
                if let Some(range) = ByteRange::new(span.range.start() + length, span.range.end()) {
                    span.range = range;
                    self.step = Step::Peer(span);
                }
                Poll::Ready((length > 0).then(|| Ok(self.hand_out(bytes, tier))))
            }
            // Broken off, or not what was promised: the rest comes from somebody else, of the
            // same version. Whether the object moved, that one will say before its first byte.
            _ => {
                self.cache.metrics().broke_off();
                self.tried.push(span.worker);
                self.step = Step::Reach(self.reach(part, &self.tried));
                Poll::Ready(None)
            }
        }
    }
}

impl PeerSpan {
    fn new(worker: WorkerId, mut body: PeerBody, pass: Option<PipePass>) -> Self {
        let tier = if body.hit { Tier::Peer } else { Tier::Origin };
        if let Some(pass) = pass {
            body.frames.pass_on(pass);
        }
        Self { worker, range: body.range, tier, frames: body.frames }
    }
}
