//! What has been asked for ahead of a reader whose blocks belong to several workers.

use std::collections::VecDeque;

use forebay_types::{BlockIndex, ByteRange};

use crate::own_reader::OwnReader;
use crate::reach::Reaching;
use crate::sequential::AheadOf;

/// A span that has been asked for and is not read yet.
pub(crate) enum Sent {
    /// Of this worker; its fill is on its way.
    Here(OwnReader),
    /// Of another one.
    There(Reaching),
}

/// The spans that have been asked for, and how far that may go.
pub(crate) struct Ahead {
    /// In the order of their bytes, at most one in a block.
    sent: VecDeque<(ByteRange, Sent)>,
    /// First block that has not been considered yet.
    next: BlockIndex,
    /// One past the last byte of the body.
    body_end: u64,
    /// From where on the reader's next bodies have not been seen to yet.
    later_from: u64,
    /// One past the last byte that may be fetched ahead, of this body or of the next ones.
    end: u64,
}

impl Ahead {
    pub(crate) fn new(body: ByteRange, walk: AheadOf) -> Self {
        Self {
            sent: VecDeque::new(),
            next: BlockIndex(BlockIndex::of(body.start()).0 + 1),
            body_end: body.end(),
            later_from: walk.from.max(body.end()),
            end: walk.end.max(body.end()),
        }
    }

    /// The block to be considered next, while it is within `window_blocks` of `part`.
    pub(crate) fn next_block(&self, part: ByteRange, window_blocks: u64) -> Option<BlockIndex> {
        let window_end = BlockIndex::of(part.start()).0.saturating_add(window_blocks);
        (self.next.0 <= window_end && self.next.start() < self.end).then_some(self.next)
    }

    /// Moves past `block`; returns what the body wants of it, and what will be wanted later.
    pub(crate) fn pass(&mut self, block: BlockIndex) -> (Option<ByteRange>, Option<ByteRange>) {
        self.next = BlockIndex(block.0 + 1);
        let end = block.end().min(self.end);
        let wanted = ByteRange::new(block.start(), end.min(self.body_end));
        let later = ByteRange::new(block.start().max(self.later_from), end);
        (wanted, later)
    }

    pub(crate) fn sent(&mut self, range: ByteRange, sent: Sent) {
        self.sent.push_back((range, sent));
    }

    /// What has been asked for from the beginning of `part` on.
    pub(crate) fn take(&mut self, part: ByteRange) -> Option<Sent> {
        while self.sent.front().is_some_and(|(range, _)| range.start() < part.start()) {
            self.sent.pop_front();
        }
        let (_, sent) = self.sent.pop_front_if(|(range, _)| range.start() == part.start())?;
        Some(sent)
    }

    /// `part` up to what has been asked for.
    pub(crate) fn before_next(&self, part: ByteRange) -> ByteRange {
        let end = self.sent.front().map_or(part.end(), |(range, _)| range.start().min(part.end()));
        ByteRange::new(part.start(), end).unwrap_or(part)
    }

    /// Gives up what has been asked for in the block of `part`, which will be asked for anew.
    pub(crate) fn drop_block(&mut self, part: ByteRange) {
        while self.sent.front().is_some_and(|(range, _)| range.start() < part.end()) {
            self.sent.pop_front();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.sent.clear();
    }
}
