//! What a connection may send: pieces that are in memory and that their keeper vouches for.
//!
//! Asked before every piece, not once for a token: a slow client takes a token over minutes, in
//! which the kernel may drop its pages. Then the keeper checks them anew while the connection
//! waits; no thread and no lock does.

use std::fmt;
use std::io;
use std::ops::Range;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use forebay_rt::SharedClock;

use crate::keeper::{Proof, Recheck};
use crate::registry::FileSlice;

/// Bytes that are asked about, and checked, at a time. Small enough that little time passes
/// between the question and the send, and that a slow client has little asked and read for it
/// again and again; large enough to cost a disk one seek.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

/// For how long an answer is good. What is handed out and sent at once is not asked about again,
/// and the kernel, which drops pages that were not used for long, hardly gets to them by then.
const FRESH: Duration = Duration::from_millis(5);

/// Times that a piece is checked and gone again before it could be sent, until the connection
/// is cut: the machine has no memory left to send from.
const MAX_RECHECKS: u32 = 8;

/// What one connection knows of the piece that it sends next.
pub(crate) struct Trust {
    clock: SharedClock,
    state: State,
    rechecks_in_a_row: u32,
}

#[derive(Default)]
enum State {
    #[default]
    Unasked,
    Asking {
        addresses: Range<usize>,
        recheck: Recheck,
    },
    /// Of bytes that the connection has still to send, so that the token is alive and the
    /// addresses mean what they meant.
    Proved {
        addresses: Range<usize>,
        proof: Proof,
    },
}

/// What comes next of a slice.
#[derive(Debug)]
pub(crate) enum Next<'a> {
    /// Send this.
    Send(FileSlice<'a>),
    /// Have this checked first.
    Recheck(FileSlice<'a>),
}

impl Trust {
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self { clock, state: State::Unasked, rechecks_in_a_row: 0 }
    }

    /// How much of a slice may be sent at once, or else has to be checked.
    pub(crate) fn next<'a>(&self, slice: FileSlice<'a>, limit_bytes: usize) -> Next<'a> {
        let now = self.clock.now();
        let fresh = now.checked_sub(FRESH).and_then(|since| slice.seen_bytes(since));
        if let Some(bytes) = fresh {
            return Next::Send(slice.first(bytes.min(limit_bytes)));
        }
        let proved = self.proved(&slice);
        let bytes = proved.map_or(PIECE_BYTES, |(bytes, _)| bytes);
        let piece = slice.first(bytes.min(limit_bytes));
        // In this order: the keeper speaks of what was resident before it was asked.
        let is_resident = piece.window.is_resident(piece.range()).unwrap_or(false);
        let proof = proved.map(|(_, proof)| proof);
        if is_resident && piece.window.keeper().vouches(&piece.range(), proof) {
            piece.window.saw(piece.range(), now);
            return Next::Send(piece);
        }
        Next::Recheck(piece)
    }

    /// Has a piece checked that may not be sent as it is.
    pub(crate) fn recheck(&mut self, piece: &FileSlice<'_>) -> io::Result<()> {
        self.rechecks_in_a_row += 1;
        if self.rechecks_in_a_row > MAX_RECHECKS {
            return Err(io::Error::other(format!(
                "{} bytes left memory {MAX_RECHECKS} times before they could be sent: \
                 connection cut",
                piece.len
            )));
        }
        let addresses = piece.address()..piece.address() + piece.len;
        let recheck = piece.window.keeper().recheck(piece.range());
        self.state = State::Asking { addresses, recheck };
        Ok(())
    }

    /// Ready when no check is under way.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let State::Asking { addresses, recheck } = &mut self.state else {
            return Poll::Ready(Ok(()));
        };
        let result = ready!(recheck.as_mut().poll(cx));
        let addresses = addresses.clone();
        self.state = State::Unasked;
        let proof = result?;
        self.state = State::Proved { addresses, proof };
        Poll::Ready(Ok(()))
    }

    /// The next `bytes` that were to be sent are sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.rechecks_in_a_row = 0;
        if let State::Proved { addresses, .. } = &mut self.state {
            addresses.start += bytes;
            if addresses.start >= addresses.end {
                self.state = State::Unasked;
            }
        }
    }

    /// How much of a slice has been checked, and the proof.
    fn proved(&self, slice: &FileSlice<'_>) -> Option<(usize, Proof)> {
        match &self.state {
            State::Proved { addresses, proof } if addresses.contains(&slice.address()) => {
                Some((addresses.end - slice.address(), *proof))
            }
            _ => None,
        }
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asking = matches!(self.state, State::Asking { .. });
        f.debug_struct("Trust").field("asking", &asking).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_rt::{Clock, ManualClock};

    use super::*;
    use crate::registry::resolve;
    use crate::tests::Segment;

    const LEN: usize = 3 * PIECE_BYTES;

    #[test]
    fn what_was_seen_a_moment_ago_is_sent_unasked_and_later_it_is_asked_about() {
        let segment = Segment::random(70, LEN);
        segment.keeper.doubt();
        let clock = ManualClock::new();
        let trust = Trust::new(Arc::new(clock.clone()));
        let token = segment.window.token(0..LEN as u64, ());
        let next = |at: usize| match trust.next(resolve(&token[at..]).unwrap(), LEN) {
            Next::Send(piece) => Ok(piece.range()),
            Next::Recheck(piece) => Err(piece.range()),
        };
        let (piece, end) = (PIECE_BYTES as u64, LEN as u64);
        assert_eq!(next(0), Err(0..piece));
        segment.window.saw(0..end - 1, clock.now());
        clock.advance(FRESH);
        assert_eq!((next(0), next(10)), (Ok(0..end - 1), Ok(10..end - 1)));
        assert_eq!(next(LEN - 1), Err(end - 1..end));
        clock.advance(Duration::from_nanos(1));
        assert_eq!(next(10), Err(10..10 + piece));
    }

    #[test]
    fn an_answer_of_the_keeper_is_good_for_a_moment() {
        let segment = Segment::random(71, LEN);
        let clock = ManualClock::new();
        let trust = Trust::new(Arc::new(clock.clone()));
        let token = segment.window.token(0..LEN as u64, ());
        let sends = || matches!(trust.next(resolve(&token).unwrap(), LEN), Next::Send(_));
        assert!(sends());
        segment.keeper.doubt();
        assert!(sends());
        clock.advance(2 * FRESH);
        assert!(!sends());
    }
}
