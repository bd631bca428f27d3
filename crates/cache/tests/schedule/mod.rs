//! One random schedule: who reads, who writes, and what goes wrong meanwhile.

mod clients;
mod misfortunes;

use std::sync::Arc;
use std::time::Duration;

use forebay_rt::{Clock, Rng, SeededRng, Task, spawn};
use forebay_types::BLOCK_BYTES;
use parking_lot::Mutex;
use tokio::sync::RwLock;

use crate::fakes::cluster::checks::Acknowledged;
use crate::fakes::cluster::clock::SimClock;
use crate::fakes::cluster::net::Pace;
use crate::fakes::cluster::voters::Broken;
use crate::fakes::cluster::{Cluster, ClusterConfig};

/// How long things go on happening.
const RUN: Duration = Duration::from_secs(40);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Nothing goes wrong, and nobody reads what is being written.
    Calm,
    /// As calm, but for one failure.
    OneFailure,
    /// Everything goes wrong.
    Wild,
}

/// What came of schedules.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub seed: u64,
    pub wrong: Vec<String>,
    pub reads: u64,
    pub reads_refused: u64,
    pub writes: u64,
    pub writes_refused: u64,
    pub origin_requests: u64,
}

impl Outcome {
    pub fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.reads_refused += other.reads_refused;
        self.writes += other.writes;
        self.writes_refused += other.writes_refused;
        self.origin_requests += other.origin_requests;
    }
}

/// Runs the schedule of a seed.
pub fn run(class: Class, seed: u64, broken: Broken) -> Outcome {
    let clock = SimClock::new();
    clock.run(async {
        let schedule = Arc::new(Schedule::new(&clock, class, seed, broken));
        schedule.play().await;
        schedule.cluster.end();
        let mut outcome = std::mem::take(&mut *schedule.outcome.lock());
        outcome.seed = seed;
        outcome
    })
}

struct Schedule {
    class: Class,
    seed: u64,
    cluster: Cluster,
    clock: SimClock,
    rng: SeededRng,
    keys: Vec<Key>,
    acknowledged: Acknowledged,
    outcome: Mutex<Outcome>,
}

struct Key {
    name: String,
    size: u64,
    /// Held while it is written in a calm schedule.
    quiet: RwLock<()>,
}

impl Schedule {
    fn new(clock: &SimClock, class: Class, seed: u64, broken: Broken) -> Self {
        let rng = SeededRng::new(seed.wrapping_mul(0x9e37_79b9) ^ class as u64);
        let workers = 2 + (rng.next_u64() % 4) as usize;
        let pace = match class {
            Class::Wild => Pace {
                delay: Duration::from_millis(60),
                late_one_in: 20,
                late: Duration::from_secs(4),
                twice_one_in: 10,
                gossip_one_in: [1, 2, u64::MAX][(rng.next_u64() % 3) as usize],
            },
            Class::Calm | Class::OneFailure => {
                Pace { delay: Duration::from_millis(20), ..Pace::STEADY }
            }
        };
        let key = |(name, size): (&str, u64)| Key {
            name: format!("{name}-{seed}"),
            size,
            quiet: RwLock::new(()),
        };
        let keys = [("small", 5_000), ("large", BLOCK_BYTES + 90_000), ("absent", 70_000)];
        Self {
            class,
            seed,
            cluster: Cluster::start(clock, &ClusterConfig { workers, seed, pace, broken }),
            clock: clock.clone(),
            rng,
            keys: keys.into_iter().map(key).collect(),
            acknowledged: Acknowledged::default(),
            outcome: Mutex::default(),
        }
    }

    async fn play(self: &Arc<Self>) {
        for key in &self.keys[..2] {
            self.cluster.shared.origin.change(&key.name, Some(key.size), Duration::ZERO);
        }
        if self.class == Class::Wild && self.seed % 2 == 1 {
            self.drama().await;
        } else {
            self.bustle().await;
        }
        let origin = &self.cluster.shared.origin;
        self.outcome.lock().origin_requests = origin.requests() as u64;
        let allowed = match self.class {
            Class::Calm => 1,
            Class::OneFailure => 2,
            Class::Wild => return,
        };
        let most = origin.most_fetches();
        if most > allowed {
            self.wrong(&format!("a page was fetched {most} times"));
        }
    }

    /// Reads, writes and misfortunes, each at any time.
    async fn bustle(self: &Arc<Self>) {
        let misfortunes = match self.class {
            Class::Calm => 0,
            Class::OneFailure => 1,
            Class::Wild => self.below(10),
        };
        let mut tasks: Vec<_> = (0..misfortunes).map(|_| self.later(RUN, Self::suffer)).collect();
        tasks.extend((0..10).map(|_| self.later(RUN, Self::read_any)));
        tasks.extend((0..6).map(|_| self.later(RUN, Self::write_and_read)));
        self.all(tasks).await;
    }

    /// One key that everybody knows, and a write between two misfortunes, several times over.
    async fn drama(self: &Arc<Self>) {
        let at = self.any_key();
        let mut tasks = Vec::new();
        for _ in 0..3 {
            for _ in 0..3 {
                self.read_trusting(at).await;
            }
            tasks.extend((0..self.below(3)).map(|_| self.later(Duration::ZERO, Self::suffer)));
            self.clock.sleep(self.a_while()).await;
            let write =
                self.later(Duration::ZERO, move |me| async move { me.write_unseen(at).await });
            let soon = Duration::from_secs(3);
            tasks.extend((0..self.below(2)).map(|_| self.later(soon, Self::suffer)));
            for _ in 0..4 {
                self.clock.sleep(self.a_while() / 2).await;
                tasks.push(self.read_later(at, Duration::ZERO));
            }
            self.all(vec![write]).await;
            tasks.extend((0..3).map(|_| self.read_later(at, Duration::from_secs(8))));
        }
        self.all(tasks).await;
    }

    /// Nearly no time, or about as long as the rules of the protocol count with.
    fn a_while(&self) -> Duration {
        match self.below(3) {
            0 => self.up_to(Duration::from_millis(200)),
            1 => Duration::from_secs(4) + self.up_to(Duration::from_secs(3)),
            _ => Duration::from_secs(6) + self.up_to(Duration::from_secs(7)),
        }
    }

    /// Does something at a random time.
    fn later<F>(self: &Arc<Self>, within: Duration, what: impl FnOnce(Arc<Self>) -> F) -> Task<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (wait, what) = (self.clock.sleep(self.up_to(within)), what(self.clone()));
        spawn(async move {
            wait.await;
            what.await;
        })
    }

    async fn all(&self, tasks: Vec<Task<()>>) {
        for task in tasks {
            if task.await.is_err() {
                self.wrong("a task of the schedule panicked");
            }
        }
    }

    fn wrong(&self, what: &str) {
        let at = self.clock.passed();
        self.outcome.lock().wrong.push(format!("{at:?} {what}"));
    }

    fn below(&self, n: u64) -> u64 {
        self.rng.next_u64() % n
    }

    fn up_to(&self, longest: Duration) -> Duration {
        longest.mul_f64(self.rng.unit())
    }

    fn any_worker(&self) -> usize {
        self.below(self.cluster.shared.workers.lock().len() as u64) as usize
    }

    /// Most often the same one: what goes wrong has to meet what is read and written.
    fn any_key(&self) -> usize {
        let key = if self.below(3) > 0 { self.seed } else { self.below(self.keys.len() as u64) };
        key as usize % self.keys.len()
    }
}
