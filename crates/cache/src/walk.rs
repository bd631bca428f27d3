//! Whom to ask for a block, and whom next: the owners clockwise, then this worker itself.

use forebay_types::WorkerId;

use crate::error::ReadError;
use crate::limits::ORIGIN_UNAVAILABLE_WORKERS;
use crate::metrics::{Fallback, Metrics};
use crate::peers::{PeerFailure, Place};
use crate::traits::OriginFailure;

/// One walk around the ring. It ends at this worker: either the ring names it, or nobody else
/// is left, and it stands in.
pub(crate) struct Walk {
    places: std::vec::IntoIter<Place>,
    without_origin: u32,
}

impl Walk {
    pub(crate) fn new(owners: Vec<Place>) -> Self {
        Self { places: owners.into_iter(), without_origin: 0 }
    }

    /// The next worker to ask; `None` where this one is to do it.
    ///
    /// A worker may be cut off from the origin. Two are not: it is down, and the walk is over.
    pub(crate) fn next(&mut self, tried: &[WorkerId]) -> Option<WorkerId> {
        if self.without_origin >= ORIGIN_UNAVAILABLE_WORKERS {
            return None;
        }
        loop {
            match self.places.next()? {
                Place::Here => return None,
                Place::There(worker) if tried.contains(&worker) => {}
                Place::There(worker) => return Some(worker),
            }
        }
    }

    /// Says whether to walk on after a failure; what the origin answered to another worker is as
    /// good as an answer to this one.
    pub(crate) fn passes(
        &mut self,
        failure: PeerFailure,
        metrics: &Metrics,
    ) -> Result<(), ReadError> {
        let reason = match failure {
            PeerFailure::Gone => Fallback::Gone,
            PeerFailure::Unreachable(_) => Fallback::Unreachable,
            PeerFailure::NotOwner => Fallback::NotOwner,
            PeerFailure::OriginUnavailable(_)
            | PeerFailure::Origin(OriginFailure::Unavailable(_)) => {
                self.without_origin += 1;
                Fallback::OriginUnavailable
            }
            PeerFailure::Origin(answer) => return Err(answer.into()),
        };
        metrics.fell_back(reason);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: WorkerId = WorkerId(1);
    const B: WorkerId = WorkerId(2);
    const C: WorkerId = WorkerId(3);

    fn walk(places: &[Place]) -> Walk {
        Walk::new(places.to_vec())
    }

    #[test]
    fn a_walk_goes_clockwise_and_ends_here() {
        let mut walk = walk(&[Place::There(A), Place::There(B), Place::Here, Place::There(C)]);
        assert_eq!(walk.next(&[]), Some(A));
        assert_eq!(walk.next(&[]), Some(B));
        assert_eq!(walk.next(&[]), None);
    }

    #[test]
    fn a_worker_that_broke_off_is_not_asked_for_the_rest() {
        let mut walk = walk(&[Place::There(A), Place::There(B)]);
        assert_eq!(walk.next(&[A]), Some(B));
        assert_eq!(walk.next(&[A]), None);
    }

    #[test]
    fn two_workers_without_an_origin_are_enough_and_an_answer_of_the_origin_is_final() {
        let metrics = Metrics::new();
        let mut walk = walk(&[Place::There(A), Place::There(B), Place::There(C)]);
        for worker in [A, B] {
            assert_eq!(walk.next(&[]), Some(worker));
            walk.passes(PeerFailure::OriginUnavailable("down".into()), &metrics).unwrap();
        }
        assert_eq!(walk.next(&[]), None);
        let moved = PeerFailure::Origin(OriginFailure::Moved);
        assert!(walk.passes(moved, &metrics).unwrap_err().is_moved());
    }
}
