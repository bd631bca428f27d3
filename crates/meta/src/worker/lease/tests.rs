use std::cell::Cell;
use std::time::{Duration, Instant};

use forebay_rt::{Clock, Rng, SeededRng, SystemClock};
use forebay_types::Epoch;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;

const ONE: Epoch = Epoch(1);
const TWO: Epoch = Epoch(2);
const TICK: Duration = Duration::from_millis(1);

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Answers a heartbeat at once, by a leader that a majority confirmed just now.
fn renew(lease: &mut Lease, epoch: Epoch, at: Instant) {
    lease.heard(epoch, epoch, at, at, Duration::ZERO);
}

#[test]
fn a_worker_vouches_after_its_quarantine_and_by_nothing_older() {
    let (start, mut lease) = (SystemClock.now(), Lease::default());
    assert_eq!(lease.standing(start, ONE), Standing::Lapsed);
    for second in 0..=QUARANTINE.as_secs() {
        renew(&mut lease, ONE, start + seconds(second));
    }
    let before = QUARANTINE.saturating_sub(seconds(2));
    assert_eq!(lease.standing(start + before, ONE), Standing::NotYet(seconds(2)));
    let since = start + QUARANTINE;
    assert_eq!(lease.standing(since, ONE), Standing::Vouches { since });
}

#[test]
fn a_lease_counts_from_the_question_and_loses_what_the_leader_is_unsure_of() {
    let (start, mut lease) = (SystemClock.now(), Lease::default());
    let (answered, unsure) = (seconds(1), seconds(1));
    lease.heard(ONE, ONE, start, start + answered, unsure);
    let ends = LEASE.saturating_sub(unsure);
    let last = ends.saturating_sub(TICK);
    let left = (answered + QUARANTINE).saturating_sub(last);
    assert_eq!(lease.standing(start + last, ONE), Standing::NotYet(left));
    assert_eq!(lease.standing(start + ends, ONE), Standing::Lapsed);
}

#[test]
fn a_late_answer_does_not_shorten_the_lease() {
    let (start, mut lease) = (SystemClock.now(), Lease::default());
    renew(&mut lease, ONE, start + seconds(2));
    lease.heard(ONE, ONE, start, start + seconds(3), seconds(9));
    let ends = seconds(2) + LEASE;
    assert_ne!(lease.standing(start + ends.saturating_sub(TICK), ONE), Standing::Lapsed);
    assert_eq!(lease.standing(start + ends, ONE), Standing::Lapsed);
}

#[test]
fn an_answer_for_another_epoch_than_the_views_does_not_count() {
    let (start, mut lease) = (SystemClock.now(), Lease::default());
    lease.heard(TWO, ONE, start, start, Duration::ZERO);
    lease.heard(ONE, TWO, start, start, Duration::ZERO);
    assert_eq!(lease.standing(start, ONE), Standing::Lapsed);
    assert_eq!(lease.standing(start, TWO), Standing::Lapsed);
}

#[test]
fn a_new_epoch_begins_the_quarantine_again() {
    let (start, mut lease) = (SystemClock.now(), Lease::default());
    renew(&mut lease, ONE, start);
    let moved = start + seconds(7);
    renew(&mut lease, ONE, moved);
    assert_eq!(lease.standing(moved, TWO), Standing::NotYet(QUARANTINE), "in touch, not yet heard");
    renew(&mut lease, TWO, moved);
    assert_eq!(lease.standing(moved, TWO), Standing::NotYet(QUARANTINE));
    assert_eq!(lease.standing(moved, ONE), Standing::NotYet(QUARANTINE), "a ring of the past");
}

#[test]
fn a_lease_that_lapsed_within_its_epoch_comes_back_as_it_was() {
    let (start, mut lease) = (SystemClock.now(), Lease::default());
    renew(&mut lease, ONE, start);
    let back = start + seconds(60);
    assert_eq!(lease.standing(back, ONE), Standing::Lapsed);
    renew(&mut lease, ONE, back);
    assert_eq!(lease.standing(back, ONE), Standing::Vouches { since: start + QUARANTINE });
}

#[test]
fn never_two_vouch_under_different_epochs_nor_anyone_after_a_fence() {
    let (vouched, outlived) = (Cell::new(0u64), Cell::new(0u64));
    let config = Config { failure_persistence: None, ..Config::with_cases(1_000) };
    let outcome = TestRunner::new(config).run(&any::<u64>(), |seed| {
        let world = World::drawn(&SeededRng::new(seed));
        let mut workers = [0, 1].map(|n| world.worker(&SeededRng::new(seed ^ (n + 1) << 32)));
        for tick in 0..RUN_MS / TICK_MS {
            let at = tick * TICK_MS;
            let vouching: Vec<Epoch> =
                workers.iter_mut().filter_map(|w| w.vouches_at(at)).collect();
            prop_assert!(
                vouching.windows(2).all(|two| two[0] == two[1]),
                "{vouching:?} at {at} ms"
            );
            for epoch in vouching {
                vouched.set(vouched.get() + 1);
                let Some(&next_began) = world.epochs.get(epoch.0 as usize + 1) else { continue };
                prop_assert!(at < next_began + FENCE_WAIT.as_millis() as u64, "fenced, {at} ms");
                outlived.set(outlived.get() + u64::from(at > next_began));
            }
        }
        Ok(())
    });
    outcome.unwrap();
    assert!(vouched.get() > 100_000, "the worlds drawn are too bleak: {}", vouched.get());
    assert!(outlived.get() > 10_000, "no old lease met a new epoch: {}", outlived.get());
}

const RUN_MS: u64 = 90_000;
const TICK_MS: u64 = 5;

/// What happened at the voters, in true time: when each epoch began, and who led.
struct World {
    /// The beginning of epoch 0, 1, ...
    epochs: Vec<u64>,
    leaders: Vec<Leader>,
}

struct Leader {
    elected: u64,
    /// When the next one was elected. It may answer for long after.
    deposed: u64,
    /// When a majority confirmed it.
    confirmed: Vec<u64>,
    clock_rate: f64,
}

/// A worker, and all that it will be told, the last first.
struct Worker {
    born: Instant,
    clock_rate: f64,
    epoch: Epoch,
    lease: Lease,
    coming: Vec<(u64, Told)>,
}

enum Told {
    View(Epoch),
    Answer { epoch: Epoch, sent_at: u64, quorum_age: Duration },
}

impl World {
    fn drawn(rng: &SeededRng) -> Self {
        let epochs = moments(rng, 3_000, 40_000);
        let elections = moments(rng, 5_000, 40_000);
        let deposed = elections.iter().skip(1).copied().chain([u64::MAX]);
        let terms = elections.iter().zip(deposed);
        let leaders = terms.map(|(&elected, deposed)| Leader::drawn(elected, deposed, rng));
        Self { leaders: leaders.collect(), epochs }
    }

    /// It asks now and then, and as soon as it sees a new view.
    fn worker(&self, rng: &SeededRng) -> Worker {
        let mut coming: Vec<(u64, Told)> = Vec::new();
        let mut asks = moments(rng, 100, 1_500);
        for (epoch, began) in self.epochs.iter().enumerate() {
            let seen_at = began + delay(rng);
            coming.push((seen_at, Told::View(Epoch(epoch as u64))));
            asks.push(seen_at);
        }
        for sent_at in asks {
            let at_leader = sent_at + delay(rng);
            if let Some((epoch, quorum_age)) =
                self.leader_asked(at_leader, rng).answer(self, at_leader)
            {
                coming.push((at_leader + delay(rng), Told::Answer { epoch, sent_at, quorum_age }));
            }
        }
        coming.sort_by_key(|(at, _)| u64::MAX - at);
        let (born, clock_rate) = (SystemClock.now(), rate(rng));
        Worker { born, clock_rate, epoch: Epoch(0), lease: Lease::default(), coming }
    }

    /// Mostly the one that leads, else one that does no longer or not yet.
    fn leader_asked(&self, at: u64, rng: &SeededRng) -> &Leader {
        let any = &self.leaders[between(rng, 0, self.leaders.len() as u64) as usize];
        let leads = self.leaders.iter().rfind(|leader| leader.elected <= at).unwrap();
        if between(rng, 0, 5) == 0 { any } else { leads }
    }
}

impl Leader {
    fn drawn(elected: u64, deposed: u64, rng: &SeededRng) -> Self {
        let mut confirmed = vec![elected];
        let mut at = elected;
        while at < deposed.min(RUN_MS) {
            confirmed.push(at);
            at += between(rng, 100, 800);
        }
        Self { elected, deposed, confirmed, clock_rate: rate(rng) }
    }

    /// It knows each epoch that began before it led or under it, none that began after.
    fn answer(&self, world: &World, at: u64) -> Option<(Epoch, Duration)> {
        let known_until = at.min(self.deposed);
        let epoch = world.epochs.iter().rposition(|began| *began <= known_until)?;
        let confirmed = self.confirmed.iter().rfind(|confirmed| **confirmed <= at)?;
        let quorum_age = Duration::from_millis(at - confirmed).mul_f64(self.clock_rate);
        (at >= self.elected).then_some((Epoch(epoch as u64), quorum_age))
    }
}

impl Worker {
    fn vouches_at(&mut self, at: u64) -> Option<Epoch> {
        while let Some((_, told)) = self.coming.pop_if(|(due, _)| *due <= at) {
            match told {
                Told::View(epoch) => self.epoch = self.epoch.max(epoch),
                Told::Answer { epoch, sent_at, quorum_age } => {
                    let (sent_at, now) = (self.clock(sent_at), self.clock(at));
                    self.lease.heard(epoch, self.epoch, sent_at, now, quorum_age);
                }
            }
        }
        let standing = self.lease.standing(self.clock(at), self.epoch);
        matches!(standing, Standing::Vouches { .. }).then_some(self.epoch)
    }

    fn clock(&self, at: u64) -> Instant {
        self.born + Duration::from_millis(at).mul_f64(self.clock_rate)
    }
}

/// Zero, then moments with gaps between `least` and `most`.
fn moments(rng: &SeededRng, least: u64, most: u64) -> Vec<u64> {
    let mut moments = vec![0];
    while let Some(next) = moments.last().map(|last| last + between(rng, least, most))
        && next < RUN_MS
    {
        moments.push(next);
    }
    moments
}

/// Of a message: mostly milliseconds, sometimes most of a lease, seldom far more.
fn delay(rng: &SeededRng) -> u64 {
    match between(rng, 0, 10) {
        0 => between(rng, 0, 20_000),
        1 | 2 => between(rng, 0, 4_000),
        _ => between(rng, 0, 30),
    }
}

/// Of a clock: four in a hundred slow to four in a hundred fast.
fn rate(rng: &SeededRng) -> f64 {
    0.96 + 0.08 * rng.unit()
}

fn between(rng: &SeededRng, least: u64, most: u64) -> u64 {
    least + rng.next_u64() % (most - least)
}
