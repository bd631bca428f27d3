//! The voters as one, and what each worker makes of them: its view of the ring, its lease, and
//! whether it vouches. The rules are DESIGN.md's; a test can break one to see that it matters.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use forebay_cache::Vouching;
use forebay_types::{BlockIndex, ObjectName};
use parking_lot::Mutex;

/// How long an acknowledged heartbeat is good for, from when it was sent.
pub const LEASE: Duration = Duration::from_secs(3);

/// How long a worker waits in a new epoch before it vouches.
pub const QUARANTINE: Duration = Duration::from_millis(3500);

/// Owners named for a block.
const OWNERS: usize = 3;

/// A rule that does not hold in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    Nothing,
    /// A worker vouches as soon as it hears of an epoch.
    NoQuarantine,
    /// A worker vouches by what it asked before it vouched.
    OldAnswers,
    /// A worker vouches whether or not the voters have heard of it.
    NoLease,
    /// A fence does not wait for leases to end.
    HastyFence,
    /// A worker says that it has forgotten, and has not.
    Forgetful,
    /// Every worker thinks that it is everybody's authority.
    Usurper,
}

/// A ring and those before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    pub epoch: u64,
    /// The members of the present ring, then those of earlier rings with other members.
    pub rings: Vec<Vec<usize>>,
}

impl View {
    pub fn new(members: Vec<usize>) -> Self {
        Self { epoch: 1, rings: vec![members] }
    }

    /// The owners of a block, clockwise.
    pub fn owners(&self, name: &ObjectName, block: BlockIndex) -> Vec<usize> {
        clockwise(&self.rings[0], name, block)
    }

    /// The owners of a block under earlier rings.
    pub fn previous_owners(&self, name: &ObjectName, block: BlockIndex) -> Vec<usize> {
        let rings = self.rings[1..].iter();
        let mut owners = Vec::new();
        for owner in rings.filter_map(|ring| clockwise(ring, name, block).first().copied()) {
            if !owners.contains(&owner) {
                owners.push(owner);
            }
        }
        owners
    }

    fn next(&self, members: Option<Vec<usize>>) -> Self {
        let mut rings = self.rings.clone();
        if let Some(members) = members.filter(|members| *members != rings[0]) {
            rings.insert(0, members);
            rings.truncate(5);
        }
        Self { epoch: self.epoch + 1, rings }
    }
}

fn clockwise(members: &[usize], name: &ObjectName, block: BlockIndex) -> Vec<usize> {
    let mut placed: Vec<(u64, usize)> = members
        .iter()
        .map(|member| {
            let mut hasher = DefaultHasher::new();
            (name.key.as_str(), block.0, member).hash(&mut hasher);
            (hasher.finish(), *member)
        })
        .collect();
    placed.sort_unstable();
    placed.into_iter().take(OWNERS).map(|(_, member)| member).collect()
}

/// The voters' views, each with the time when it was agreed upon.
pub struct Voters(Mutex<Vec<(Instant, View)>>);

impl Voters {
    pub fn new(start: Instant, members: Vec<usize>) -> Self {
        Self(Mutex::new(vec![(start, View::new(members))]))
    }

    pub fn view(&self) -> View {
        self.0.lock().last().unwrap().1.clone()
    }

    /// The view of a leader that was last sure of its majority at `then`.
    pub fn view_at(&self, then: Instant) -> View {
        let views = self.0.lock();
        let agreed = views.iter().rev().find(|(at, _)| *at <= then);
        agreed.unwrap_or(&views[0]).1.clone()
    }

    /// Begins an epoch, if the present one is still `after`.
    pub fn begin(&self, now: Instant, after: u64, members: Option<Vec<usize>>) -> bool {
        let mut views = self.0.lock();
        let present = views.last().unwrap().1.clone();
        if present.epoch == after {
            views.push((now, present.next(members)));
        }
        present.epoch == after
    }
}

/// What a worker knows of the voters.
#[derive(Debug)]
pub struct Lease {
    pub view: View,
    first_reply: Option<Instant>,
    until: Option<Instant>,
}

impl Lease {
    pub fn new(view: View) -> Self {
        Self { view, first_reply: None, until: None }
    }

    /// A worker that has been in its epoch for as long as anyone can remember.
    pub fn seasoned(view: View, now: Instant) -> Self {
        Self { view, first_reply: now.checked_sub(2 * QUARANTINE), until: Some(now + LEASE) }
    }

    /// Hears of a view.
    pub fn hear(&mut self, view: &View) {
        if view.epoch > self.view.epoch {
            *self = Self::new(view.clone());
        }
    }

    /// A heartbeat was answered.
    pub fn replied(&mut self, view: &View, sent_at: Instant, quorum_age: Duration, now: Instant) {
        self.hear(view);
        if view.epoch == self.view.epoch {
            self.first_reply.get_or_insert(now);
            let until = (sent_at + LEASE).checked_sub(quorum_age);
            self.until = self.until.max(until);
        }
    }

    /// Whether the worker vouches for the names that it owns.
    pub fn vouching(&self, now: Instant, broken: Broken) -> Vouching {
        let is_live = self.until.is_some_and(|until| now < until);
        let Some(first_reply) = self.first_reply.filter(|_| is_live || broken == Broken::NoLease)
        else {
            return Vouching::Lapsed;
        };
        let quarantine = if broken == Broken::NoQuarantine { Duration::ZERO } else { QUARANTINE };
        let since = first_reply + quarantine;
        match since.checked_duration_since(now).filter(|wait| !wait.is_zero()) {
            Some(wait) => Vouching::NotYet(wait),
            None if broken == Broken::OldAnswers => {
                Vouching::Since(now.checked_sub(Duration::from_secs(600)).unwrap_or(now))
            }
            None => Vouching::Since(since),
        }
    }
}
