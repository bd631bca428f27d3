//! A fill on its way: bytes as they arrive, and the followers who read along.
//!
//! Frames stay in the order and form in which they were sent, uncopied. They are let go
//! when the store has them; followers then read on from there, so a slow one costs nothing.

use bytes::Bytes;
use forebay_telemetry::Tier;
use forebay_types::ByteRange;
use forebay_types::limits::MAX_CHUNK_BYTES;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit};

use crate::error::ReadError;
use crate::limits::MIN_FRAME_BYTES;

/// A fill of one run of pages of one block.
pub(crate) struct Flight {
    range: ByteRange,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    frames: Vec<Bytes>,
    /// Where each frame ends, as bytes of the object.
    ends: Vec<u64>,
    /// Bytes before this one came from another worker's disks.
    peeked_end: u64,
    outcome: Option<Outcome>,
    /// The share of the fill budget, held for as long as the frames are.
    budget: Option<OwnedSemaphorePermit>,
}

/// How a fill ended.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// The bytes are in the store.
    Stored,
    /// The store did not take them: they stay here for those who follow.
    Kept,
    /// The bytes could not be had.
    Failed(ReadError),
    /// There was no memory for the fill: readers go to the origin directly.
    NoBudget,
}

/// What a follower finds at its position.
pub(crate) enum Progress {
    Bytes(Bytes, Tier),
    LookLocal,
    GoDirect,
    Failed(ReadError),
    NotYet,
}

impl Flight {
    pub(crate) fn new(range: ByteRange) -> Self {
        Self { range, state: Mutex::default(), changed: Notify::new() }
    }

    pub(crate) fn range(&self) -> ByteRange {
        self.range
    }

    /// One past the last byte that has arrived.
    pub(crate) fn arrived(&self) -> u64 {
        self.state.lock().arrived(self.range)
    }

    pub(crate) fn hold(&self, budget: OwnedSemaphorePermit) {
        self.state.lock().budget = Some(budget);
    }

    /// Adds the next bytes and wakes who waits for them. Bytes past the range are an error of
    /// the sender that the caller has already excluded.
    pub(crate) fn push(&self, frame: Bytes) {
        self.state.lock().push(self.range, frame);
        self.changed.notify_waiters();
    }

    /// As [`Flight::push`], of bytes that another worker had.
    pub(crate) fn push_peeked(&self, frame: Bytes) {
        {
            let mut state = self.state.lock();
            state.push(self.range, frame);
            state.peeked_end = state.arrived(self.range);
        }
        self.changed.notify_waiters();
    }

    /// All frames, once the range is complete.
    pub(crate) fn frames(&self) -> Option<Vec<Bytes>> {
        let state = self.state.lock();
        (state.arrived(self.range) == self.range.end()).then(|| state.frames.clone())
    }

    pub(crate) fn land(&self, outcome: Outcome) {
        {
            let mut state = self.state.lock();
            if matches!(outcome, Outcome::Stored) {
                *state = State::default();
            }
            state.outcome = Some(outcome);
        }
        self.changed.notify_waiters();
    }

    /// What there is for a follower who wants the byte `at` of the flight's range.
    pub(crate) fn progress(&self, at: u64) -> Progress {
        let state = self.state.lock();
        if at < state.arrived(self.range) {
            let tier = if at < state.peeked_end { Tier::Peer } else { Tier::Origin };
            return Progress::Bytes(state.from(self.range, at), tier);
        }
        match &state.outcome {
            None => Progress::NotYet,
            Some(Outcome::Stored | Outcome::Kept) => Progress::LookLocal,
            Some(Outcome::NoBudget) => Progress::GoDirect,
            Some(Outcome::Failed(error)) => Progress::Failed(error.clone()),
        }
    }

    /// Waits for the end of the fill, and tells whether its bytes are in the store.
    pub(crate) async fn landed(&self) -> Outcome {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if let Some(outcome) = self.state.lock().outcome.clone() {
                return outcome;
            }
            changed.await;
        }
    }

    /// Waits until there is something else than [`Progress::NotYet`] at `at`.
    pub(crate) async fn moved_past(&self, at: u64) {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if !matches!(self.progress(at), Progress::NotYet) {
                return;
            }
            changed.await;
        }
    }
}

impl State {
    fn arrived(&self, range: ByteRange) -> u64 {
        self.ends.last().copied().unwrap_or(range.start())
    }

    fn push(&mut self, range: ByteRange, frame: Bytes) {
        let end = self.arrived(range) + frame.len() as u64;
        debug_assert!(end <= range.end(), "the body was not held to its length");
        match (self.frames.last_mut(), self.ends.last_mut()) {
            (Some(last), Some(last_end)) if last.len() + frame.len() <= MIN_FRAME_BYTES => {
                *last = [last.as_ref(), frame.as_ref()].concat().into();
                *last_end = end;
            }
            _ => {
                self.frames.push(frame);
                self.ends.push(end);
            }
        }
    }

    /// The rest of the frame that holds byte `at`, up to one chunk.
    fn from(&self, range: ByteRange, at: u64) -> Bytes {
        let index = self.ends.partition_point(|end| *end <= at);
        let frame = &self.frames[index];
        let frame_start = if index == 0 { range.start() } else { self.ends[index - 1] };
        let skip = (at - frame_start) as usize;
        let end = frame.len().min(skip + MAX_CHUNK_BYTES as usize);
        frame.slice(skip..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight() -> Flight {
        Flight::new(ByteRange::new(100, 200).unwrap())
    }

    fn bytes_at(flight: &Flight, at: u64) -> Bytes {
        match flight.progress(at) {
            Progress::Bytes(bytes, _) => bytes,
            _ => panic!("no bytes at {at}"),
        }
    }

    #[test]
    fn a_follower_reads_from_any_position_as_frames_arrive() {
        let flight = Flight::new(ByteRange::new(100, 100 + 40_000).unwrap());
        flight.push(Bytes::from(vec![1; 20_000]));
        assert!(matches!(flight.progress(20_100), Progress::NotYet));
        flight.push(Bytes::from(vec![2; 20_000]));
        assert_eq!(bytes_at(&flight, 100).len(), 20_000);
        assert_eq!(bytes_at(&flight, 20_099).as_ref(), [1]);
        assert_eq!(bytes_at(&flight, 20_100).len(), 20_000);
        assert_eq!(flight.frames().unwrap().len(), 2);
    }

    #[test]
    fn drops_of_bytes_do_not_become_a_list_of_bytes() {
        let flight = flight();
        for byte in 0..100u8 {
            flight.push(Bytes::from(vec![byte]));
        }
        assert_eq!(flight.frames().unwrap().len(), 1);
        assert_eq!(bytes_at(&flight, 150)[0], 50);
    }

    #[test]
    fn followers_are_told_which_bytes_another_worker_had() {
        let flight = flight();
        flight.push_peeked(Bytes::from(vec![1; 60]));
        flight.push(Bytes::from(vec![2; 40]));
        let tier_at = |at| match flight.progress(at) {
            Progress::Bytes(_, tier) => tier,
            _ => panic!("no bytes at {at}"),
        };
        assert_eq!((tier_at(159), tier_at(160)), (Tier::Peer, Tier::Origin));
    }

    #[test]
    fn bytes_that_arrived_before_a_failure_are_still_handed_out() {
        let flight = flight();
        flight.push(Bytes::from(vec![7; 10]));
        flight.land(Outcome::Failed(ReadError::moved()));
        assert_eq!(bytes_at(&flight, 105).len(), 5);
        assert!(matches!(flight.progress(110), Progress::Failed(_)));
    }

    #[test]
    fn what_is_stored_is_let_go_and_what_is_not_is_kept() {
        let stored = flight();
        stored.push(Bytes::from(vec![7; 100]));
        stored.land(Outcome::Stored);
        assert!(matches!(stored.progress(100), Progress::LookLocal));
        let kept = flight();
        kept.push(Bytes::from(vec![7; 100]));
        kept.land(Outcome::Kept);
        assert_eq!(bytes_at(&kept, 100).len(), 100);
    }
}
