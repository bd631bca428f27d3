//! Which piece of which object a connection asks for next.

use std::sync::atomic::{AtomicUsize, Ordering};

use forebay_rt::{Rng, SeededRng};
use forebay_types::ByteRange;

use crate::objects::Object;
use crate::workload::{Order, Read};

/// What is read of which objects, and in which order.
#[derive(Debug, Clone)]
pub struct Plan {
    objects: Vec<Object>,
    read: Read,
    order: Order,
}

/// What one request asks for. Without a range: the whole object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) object: usize,
    pub(crate) range: Option<ByteRange>,
}

impl Plan {
    /// A plan over objects that are there.
    pub fn new(objects: Vec<Object>, read: Read, order: Order) -> Self {
        Self { objects, read, order }
    }

    /// The same objects, each piece of them once.
    pub(crate) fn each_once(&self, range_bytes: u64) -> Self {
        let read = match self.read {
            Read::Whole => Read::Whole,
            Read::Range(_) => Read::Range(range_bytes),
        };
        Self { objects: self.objects.clone(), read, order: Order::Once }
    }

    pub(crate) fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// Bytes of all objects.
    pub fn set_bytes(&self) -> u64 {
        self.objects.iter().map(|object| object.size_bytes).sum()
    }

    fn pieces_of(&self, object: usize) -> u64 {
        match self.read {
            Read::Whole => 1,
            Read::Range(bytes) => (self.objects[object].size_bytes / bytes).max(1),
        }
    }

    fn piece(&self, object: usize, index: u64) -> Piece {
        let range = match self.read {
            Read::Whole => None,
            Read::Range(bytes) => {
                let end = ((index + 1) * bytes).min(self.objects[object].size_bytes);
                ByteRange::new(index * bytes, end)
            }
        };
        Piece { object, range }
    }

    fn all(&self) -> Vec<Piece> {
        let of = |object| (0..self.pieces_of(object)).map(move |index| self.piece(object, index));
        (0..self.objects.len()).flat_map(of).collect()
    }
}

/// The pieces of one round, shared by its connections.
#[derive(Debug)]
pub(crate) struct Feed {
    plan: Plan,
    once: Vec<Piece>,
    turn: AtomicUsize,
}

impl Feed {
    pub(crate) fn new(plan: &Plan, seed: u64) -> Self {
        let mut once = Vec::new();
        if plan.order == Order::Once {
            once = plan.all();
            shuffle(&mut once, &SeededRng::new(seed));
        }
        Self { plan: plan.clone(), once, turn: AtomicUsize::new(0) }
    }

    /// The next piece; `None` when each was read once and that was the order.
    pub(crate) fn next(&self, rng: &dyn Rng) -> Option<Piece> {
        let plan = &self.plan;
        let count = plan.objects.len();
        match plan.order {
            Order::Once => self.once.get(self.turn.fetch_add(1, Ordering::Relaxed)).copied(),
            Order::Turns => {
                let turn = self.turn.fetch_add(1, Ordering::Relaxed);
                let object = turn % count;
                Some(plan.piece(object, (turn / count) as u64 % plan.pieces_of(object)))
            }
            Order::Random => {
                let object = (rng.next_u64() % count as u64) as usize;
                Some(plan.piece(object, rng.next_u64() % plan.pieces_of(object)))
            }
        }
    }
}

/// Fisher-Yates.
fn shuffle(pieces: &mut [Piece], rng: &dyn Rng) {
    for last in (1..pieces.len()).rev() {
        pieces.swap(last, (rng.next_u64() % (last as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(read: Read, order: Order) -> Plan {
        Plan::new(vec![Object::new("a", 100), Object::new("b", 35)], read, order)
    }

    fn drawn(plan: &Plan, count: usize) -> Vec<Piece> {
        let (feed, rng) = (Feed::new(plan, 1), SeededRng::new(1));
        (0..count).map_while(|_| feed.next(&rng)).collect()
    }

    #[test]
    fn once_is_every_aligned_piece_once_in_another_order() {
        let plan = plan(Read::Range(10), Order::Once);
        let mut pieces = drawn(&plan, 1000);
        assert_ne!(pieces, plan.all());
        pieces.sort_by_key(|piece| (piece.object, piece.range.unwrap().start()));
        assert_eq!(pieces, plan.all());
        assert_eq!(pieces.len(), 10 + 3);
    }

    #[test]
    fn random_pieces_are_aligned_and_inside_their_object() {
        for piece in drawn(&plan(Read::Range(10), Order::Random), 1000) {
            let range = piece.range.unwrap();
            assert_eq!((range.start() % 10, range.len()), (0, 10));
            assert!(range.end() <= [100, 35][piece.object]);
        }
    }

    #[test]
    fn turns_go_round_and_an_object_smaller_than_a_range_is_one_piece() {
        let whole = drawn(&plan(Read::Whole, Order::Turns), 4);
        assert_eq!(whole.iter().map(|piece| piece.object).collect::<Vec<_>>(), [0, 1, 0, 1]);
        let ranges = drawn(&plan(Read::Range(64), Order::Turns), 2);
        assert_eq!(ranges[0].range, ByteRange::new(0, 64));
        assert_eq!(ranges[1].range, ByteRange::new(0, 35));
    }
}
