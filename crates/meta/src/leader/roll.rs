//! Who was heard when, and what that means for the cluster: the leader's soft state.
//!
//! Pure: time comes in as arguments, what is to be replicated goes out as a [`Report`]. Lost with
//! the leader; the next one hears everybody within a second, and until then grants all the grace.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use forebay_types::WorkerState;

use crate::limits::{REPORT_WORKERS_MAX, WORKERS_MAX};
use crate::state::{Heard, Report, State};

/// When silence means something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Silence after which a worker is down.
    pub(crate) down_after: Duration,
    /// After it began to lead, a leader takes nobody for down.
    pub(crate) grace: Duration,
    /// A worker that is down for so long is forgotten.
    pub(crate) forget_after: Duration,
}

/// The workers, as one leader hears them.
#[derive(Debug)]
pub(crate) struct Roll {
    patience: Patience,
    leads_since: Instant,
    last_look: Instant,
    entries: HashMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    last_heard: Instant,
    said: Option<Said>,
}

#[derive(Debug)]
struct Said {
    heard: Heard,
    incarnation: u64,
    /// The process before this one, which may still run.
    replaced: Option<u64>,
}

/// Why a heartbeat does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unheard {
    /// Its worker must stop: two would answer for the same names.
    #[error("another process was started under this worker's id: is its directory copied?")]
    Replaced,
    /// Forget workers that are gone.
    #[error("the cluster has {WORKERS_MAX} workers already")]
    TooMany,
}

impl Roll {
    /// Begins to listen. Everybody counts as heard just now.
    pub(crate) fn new(patience: Patience, now: Instant, state: &State) -> Self {
        let known = state.workers().map(|(id, _)| (id, Entry { last_heard: now, said: None }));
        Self { patience, leads_since: now, last_look: now, entries: known.collect() }
    }

    /// A worker is alive.
    pub(crate) fn hear(
        &mut self,
        now: Instant,
        incarnation: u64,
        heard: Heard,
    ) -> Result<(), Unheard> {
        let is_full = self.entries.len() >= WORKERS_MAX;
        let id = heard.id;
        let said = match self.entries.get(&id) {
            None if is_full => return Err(Unheard::TooMany),
            None | Some(Entry { said: None, .. }) => Said { heard, incarnation, replaced: None },
            Some(Entry { said: Some(before), .. }) => before.then(heard, incarnation)?,
        };
        self.entries.insert(id, Entry { last_heard: now, said: Some(said) });
        Ok(())
    }

    /// What has changed since `state`.
    pub(crate) fn look(&mut self, now: Instant, state: &State) -> Report {
        self.forgive_pause(now);
        let down_after = self.patience.down_after;
        let is_silent =
            |entry: &Entry| now.saturating_duration_since(entry.last_heard) >= down_after;
        self.entries.retain(|id, entry| state.worker(*id).is_some() || !is_silent(entry));
        let said = self.entries.values().filter(|entry| !is_silent(entry));
        let heard = said.filter_map(|entry| Some(&entry.said.as_ref()?.heard));
        let news = heard.filter(|heard| state.is_news(heard)).take(REPORT_WORKERS_MAX);
        let mut report = Report { heard: news.cloned().collect(), ..Report::default() };
        report.heard.sort_by_key(|heard| heard.id);
        if now.saturating_duration_since(self.leads_since) >= self.patience.grace {
            report.lost = self.lost(now, state);
            report.forgotten = self.forgotten(now, state);
        }
        report
    }

    /// How long ago each worker was heard, of those that this leader did hear.
    pub(crate) fn ages(&self, now: Instant) -> Vec<(u64, Duration)> {
        let said = self.entries.iter().filter(|(_, entry)| entry.said.is_some());
        let age = |entry: &Entry| now.saturating_duration_since(entry.last_heard);
        let mut ages: Vec<_> = said.map(|(id, entry)| (*id, age(entry))).collect();
        ages.sort_unstable();
        ages
    }

    /// Time in which this process did not run is nobody's silence.
    fn forgive_pause(&mut self, now: Instant) {
        let pause = now.saturating_duration_since(self.last_look);
        self.last_look = now;
        if pause < self.patience.down_after / 2 {
            return;
        }
        for entry in self.entries.values_mut() {
            entry.last_heard = now.min(entry.last_heard + pause);
        }
    }

    /// Who fell silent, the longest first. Of those in the ring only so many that no more than a
    /// third (but one at least) are missing: if it hears less of them, the fault is the leader's.
    fn lost(&self, now: Instant, state: &State) -> Vec<u64> {
        let silent = self.silent_for(self.patience.down_after, now);
        let ring_size = state.members() + state.missing();
        let mut room = (ring_size / 3).max(1).saturating_sub(state.missing());
        let mut may_be_lost = |id: &u64| match state.worker(*id) {
            None | Some(WorkerState::Down) => false,
            Some(WorkerState::Joining | WorkerState::Draining) => true,
            Some(WorkerState::Active) => {
                let has_room = room > 0;
                room = room.saturating_sub(1);
                has_room
            }
        };
        silent.into_iter().filter(|id| may_be_lost(id)).take(REPORT_WORKERS_MAX).collect()
    }

    fn forgotten(&self, now: Instant, state: &State) -> Vec<u64> {
        let mut silent = self.silent_for(self.patience.forget_after, now);
        silent.retain(|id| state.is_abandoned(*id));
        silent.truncate(REPORT_WORKERS_MAX);
        silent
    }

    /// Who has not been heard for so long, the longest first.
    fn silent_for(&self, silence: Duration, now: Instant) -> Vec<u64> {
        let is_silent = |last_heard| now.saturating_duration_since(last_heard) >= silence;
        let last = self.entries.iter().map(|(id, entry)| (entry.last_heard, *id));
        let mut silent: Vec<_> = last.filter(|(heard, _)| is_silent(*heard)).collect();
        silent.sort_unstable();
        silent.into_iter().map(|(_, id)| id).collect()
    }
}

impl Said {
    fn then(&self, heard: Heard, incarnation: u64) -> Result<Self, Unheard> {
        if self.replaced == Some(incarnation) {
            return Err(Unheard::Replaced);
        }
        let is_same = self.incarnation == incarnation;
        let replaced = if is_same { self.replaced } else { Some(self.incarnation) };
        Ok(Self { heard, incarnation, replaced })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Command, Wish};
    use forebay_rt::{Clock, ManualClock};

    const NOBODY: [u64; 0] = [];
    const SECOND: Duration = Duration::from_secs(1);
    const PATIENCE: Patience = Patience {
        down_after: Duration::from_secs(5),
        grace: Duration::from_secs(10),
        forget_after: Duration::from_secs(3600),
    };

    fn heard(id: u64) -> Heard {
        Heard {
            id,
            data_addr: format!("w{id}:1"),
            s3_addr: format!("w{id}:2"),
            zone: String::new(),
            capacity_bytes: 1,
            wish: Wish::Active,
        }
    }

    /// A leader that has heard of `workers` for its time of grace, and now looks every half
    /// second.
    struct World {
        clock: ManualClock,
        roll: Roll,
        state: State,
    }

    impl World {
        fn of(workers: u64) -> Self {
            let (clock, mut state) = (ManualClock::new(), State::default());
            let report = Report { heard: (1..=workers).map(heard).collect(), ..Report::default() };
            state.apply(Command::Report(report)).unwrap();
            let roll = Roll::new(PATIENCE, clock.now(), &state);
            let mut world = Self { clock, roll, state };
            world.pass(10, 1..=workers);
            world
        }

        /// Lets `seconds` pass, in which `speakers` are heard; whatever changes is applied.
        fn pass(&mut self, seconds: u32, speakers: impl IntoIterator<Item = u64>) {
            let speakers: Vec<u64> = speakers.into_iter().collect();
            for _ in 0..2 * seconds {
                self.clock.advance(SECOND / 2);
                for id in &speakers {
                    self.roll.hear(self.clock.now(), *id, heard(*id)).unwrap();
                }
                let report = self.roll.look(self.clock.now(), &self.state);
                self.state.apply(Command::Report(report)).unwrap();
            }
        }

        fn down(&self) -> Vec<u64> {
            let workers = self.state.workers();
            workers.filter(|(_, is)| *is == WorkerState::Down).map(|(id, _)| id).collect()
        }
    }

    #[test]
    fn a_worker_that_falls_silent_is_down_after_five_seconds_and_no_sooner() {
        let mut world = World::of(4);
        world.pass(4, 2..=4);
        assert_eq!(world.down(), NOBODY);
        world.pass(1, 2..=4);
        assert_eq!(world.down(), [1]);
        world.pass(1, 1..=4);
        assert_eq!(world.down(), NOBODY, "and is back when it is heard");
    }

    #[test]
    fn a_new_leader_takes_nobody_for_down_at_first() {
        let mut world = World::of(3);
        world.roll = Roll::new(PATIENCE, world.clock.now(), &world.state);
        world.pass(9, 2..=3);
        assert_eq!(world.down(), NOBODY);
        world.pass(1, 2..=3);
        assert_eq!(world.down(), [1]);
    }

    #[test]
    fn never_more_than_a_third_are_down_at_once() {
        for (workers, limit) in [(1, 1), (2, 1), (3, 1), (5, 1), (6, 2), (9, 3), (100, 33)] {
            let mut world = World::of(workers);
            world.pass(60, []);
            assert_eq!(world.down().len(), limit, "of {workers}");
            world.pass(1, 1..=workers);
            assert_eq!(world.down(), NOBODY);
        }
    }

    #[test]
    fn who_leaves_the_ring_in_order_leaves_room_for_others_to_fail() {
        let mut world = World::of(4);
        world.state.apply(Command::Drain { worker: 1, drain: true }).unwrap();
        world.pass(20, 3..=4);
        assert_eq!(world.down(), [1, 2]);
    }

    #[test]
    fn a_pause_of_the_leader_is_nobodys_silence() {
        let mut world = World::of(3);
        world.clock.advance(20 * SECOND);
        world.pass(5, 2..=3);
        assert_eq!(world.down(), NOBODY);
        world.pass(1, 2..=3);
        assert_eq!(world.down(), [1]);
    }

    #[test]
    fn a_worker_that_never_comes_back_is_forgotten_in_the_end() {
        let mut world = World::of(3);
        world.pass(3600, 2..=3);
        assert_eq!(world.state.worker(1), None);
        world.pass(1, 2..=3);
        assert_eq!(world.roll.ages(world.clock.now()).len(), 2);
    }

    #[test]
    fn the_older_of_two_processes_with_one_identity_is_refused() {
        let mut world = World::of(1);
        let now = world.clock.now();
        assert_eq!(world.roll.hear(now, 77, heard(1)), Ok(()));
        assert_eq!(world.roll.hear(now, 1, heard(1)), Err(Unheard::Replaced));
        assert_eq!(world.roll.hear(now, 77, heard(1)), Ok(()));
    }

    #[test]
    fn there_is_an_end_to_the_workers_that_are_taken_in() {
        let mut world = World::of(1);
        let now = world.clock.now();
        for id in 2..=WORKERS_MAX as u64 {
            world.roll.hear(now, id, heard(id)).unwrap();
        }
        assert_eq!(world.roll.hear(now, 1 << 40, heard(1 << 40)), Err(Unheard::TooMany));
        assert_eq!(world.roll.hear(now, 1, heard(1)), Ok(()), "who is known stays welcome");
    }
}
