//! Connections that have not proved themselves yet.
//!
//! They have places of their own, so they take none from those who have. Where these are taken,
//! the connection that has had its place longest makes room: a holder of the secret has long left
//! it, so it is a stranger who goes, and no number of strangers can keep a holder at the door.

use std::collections::VecDeque;

use tokio::sync::oneshot;

/// The places.
#[derive(Debug)]
pub struct Gate {
    places: usize,
    /// In order of arrival; some of them may have left.
    inside: VecDeque<oneshot::Sender<()>>,
}

/// A place, for as long as it lives.
#[derive(Debug)]
pub struct Turn(oneshot::Receiver<()>);

impl Gate {
    /// A gate with so many places, at least one.
    pub fn new(places: usize) -> Self {
        Self { places: places.max(1), inside: VecDeque::new() }
    }

    /// Lets one more in.
    pub fn enter(&mut self) -> Turn {
        if self.inside.len() >= self.places {
            self.inside.retain(|place| !place.is_closed());
        }
        if self.inside.len() >= self.places {
            self.inside.pop_front();
        }
        let (place, turn) = oneshot::channel();
        self.inside.push_back(place);
        Turn(turn)
    }
}

impl Turn {
    /// Completes when somebody else needs the place.
    pub async fn over(self) {
        // Nothing is ever sent: the sender is dropped.
        let _ = self.0.await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn the_longest_inside_makes_room_and_who_has_left_costs_nobody_a_place() {
        let mut gate = Gate::new(2);
        let (first, second) = (gate.enter(), gate.enter());
        drop(second);
        let third = gate.enter();
        let fourth = gate.enter();
        assert!(first.over().now_or_never().is_some());
        assert!(third.over().now_or_never().is_none());
        assert!(fourth.over().now_or_never().is_none());
    }
}
