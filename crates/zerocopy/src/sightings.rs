//! What was seen a moment ago to be in memory and right.
//!
//! A token is mostly sent by the poll that received it, microseconds after the store looked at
//! its pages. Looking again would cost a walk over all of them: up to a tenth of the send.

use std::ops::Range;
use std::time::Instant;

/// Ranges remembered for a window. More than its connections see in the microseconds that
/// mostly matter, and few to look through.
const REMEMBERED: usize = 8;

/// The last ranges of a window that somebody looked at.
#[derive(Debug, Default)]
pub(crate) struct Sightings {
    /// In no order, the oldest at `next` once there are enough.
    last: Vec<(Range<u64>, Instant)>,
    next: usize,
}

impl Sightings {
    pub(crate) fn add(&mut self, range: Range<u64>, at: Instant) {
        if self.last.len() < REMEMBERED {
            self.last.push((range, at));
        } else {
            self.last[self.next] = (range, at);
            self.next = (self.next + 1) % REMEMBERED;
        }
    }

    /// The end of a range that holds `offset` and was seen at `since` or later.
    pub(crate) fn until(&self, offset: u64, since: Instant) -> Option<u64> {
        let seen = self.last.iter().filter(|(range, at)| range.contains(&offset) && *at >= since);
        seen.map(|(range, _)| range.end).max()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forebay_rt::{Clock, SystemClock};

    use super::*;

    #[test]
    fn the_farthest_recent_sighting_counts_and_old_ones_are_forgotten() {
        let start = SystemClock.now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut sightings = Sightings::default();
        sightings.add(0..100, at(5));
        sightings.add(50..200, at(7));
        sightings.add(0..900, at(3));
        assert_eq!(sightings.until(60, at(4)), Some(200));
        assert_eq!(sightings.until(49, at(4)), Some(100));
        assert_eq!(sightings.until(49, at(6)), None);
        assert_eq!(sightings.until(200, at(4)), None);
        assert_eq!(sightings.until(200, at(3)), Some(900));
        for _ in 0..REMEMBERED {
            sightings.add(0..10, at(9));
        }
        assert_eq!(sightings.until(60, at(0)), None);
    }
}
