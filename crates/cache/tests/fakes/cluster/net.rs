//! Messages between workers, voters and the origin: they take time, get lost and come twice.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use forebay_rt::{Clock, Rng, SeededRng};
use parking_lot::Mutex;

use super::clock::SimClock;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Node {
    Worker(usize),
    Voters,
    Origin,
}

/// How messages travel.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// A message takes at most this long,
    pub delay: Duration,
    /// but one in so many takes up to ...
    pub late_one_in: u64,
    /// ... this long;
    pub late: Duration,
    /// and one ask in so many comes twice.
    pub twice_one_in: u64,
    /// One answer in so many tells of a newer ring.
    pub gossip_one_in: u64,
}

impl Pace {
    /// One that a test can count on.
    pub const STEADY: Self = Self {
        delay: Duration::from_millis(2),
        late_one_in: u64::MAX,
        late: Duration::ZERO,
        twice_one_in: u64::MAX,
        gossip_one_in: 1,
    };
}

pub struct Net {
    pub clock: SimClock,
    pub rng: SeededRng,
    pace: Pace,
    cut: Mutex<HashSet<(Node, Node)>>,
    /// When a way was last mended.
    mended: Mutex<HashMap<(Node, Node), Duration>>,
    slow: Mutex<HashMap<(Node, Node), Duration>>,
}

impl Net {
    pub fn new(clock: SimClock, seed: u64, pace: Pace) -> Self {
        Self {
            clock,
            rng: SeededRng::new(seed),
            pace,
            cut: Mutex::default(),
            mended: Mutex::default(),
            slow: Mutex::default(),
        }
    }

    pub fn cut(&self, from: Node, to: Node) {
        self.cut.lock().insert((from, to));
    }

    pub fn mend(&self, from: Node, to: Node) {
        self.cut.lock().remove(&(from, to));
        self.mended.lock().insert((from, to), self.clock.passed());
    }

    pub fn cut_both(&self, one: Node, two: Node) {
        self.cut(one, two);
        self.cut(two, one);
    }

    pub fn mend_both(&self, one: Node, two: Node) {
        self.mend(one, two);
        self.mend(two, one);
    }

    /// Makes every message on a way take so long.
    pub fn slow(&self, from: Node, to: Node, delay: Duration) {
        self.slow.lock().insert((from, to), delay);
    }

    /// Whether messages get through in both directions.
    pub fn is_up(&self, one: Node, two: Node) -> bool {
        let cut = self.cut.lock();
        !cut.contains(&(one, two)) && !cut.contains(&(two, one))
    }

    /// Whether they have for all the time since `since`.
    pub fn was_up_since(&self, one: Node, two: Node, since: Duration) -> bool {
        let mended = self.mended.lock();
        let before = |way| mended.get(&way).is_none_or(|at: &Duration| *at <= since);
        self.is_up(one, two) && before((one, two)) && before((two, one))
    }

    /// Sends a message; returns whether it arrives, when it would.
    pub async fn cross(&self, from: Node, to: Node) -> bool {
        if self.cut.lock().contains(&(from, to)) {
            return false;
        }
        let slow = self.slow.lock().get(&(from, to)).copied();
        let delay = slow.unwrap_or_else(|| self.delay());
        self.clock.sleep(delay).await;
        !self.cut.lock().contains(&(from, to))
    }

    /// Whether the next ask comes twice.
    pub fn twice(&self) -> bool {
        self.one_in(self.pace.twice_one_in)
    }

    /// Whether the next message tells of the sender's ring.
    pub fn gossips(&self) -> bool {
        self.one_in(self.pace.gossip_one_in)
    }

    pub fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn below(&self, n: u64) -> u64 {
        self.rng.next_u64() % n
    }

    fn delay(&self) -> Duration {
        let longest =
            if self.one_in(self.pace.late_one_in) { self.pace.late } else { self.pace.delay };
        longest.mul_f64(self.rng.unit())
    }
}
