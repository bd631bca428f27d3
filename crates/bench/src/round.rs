//! One round: so many connections ask one target for so long, from threads of their own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use forebay_rt::{Clock, SeededRng, SystemClock, spawn, timeout};
use parking_lot::Mutex;

use crate::connection::{AnswerError, Answered, Asked, Check, Connection, Source};
use crate::error::BenchError;
use crate::feed::{Feed, Piece, Plan};
use crate::histogram::Histogram;
use crate::limits::{LAST_ANSWERS_LIMIT, MAX_FAILURES};
use crate::machine::{Spending, Spent};
use crate::request::Requests;
use crate::target::Target;

/// How a round is run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drive {
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    pub(crate) duration: Duration,
    pub(crate) check: Check,
    /// The same seed asks for the same pieces.
    pub(crate) seed: u64,
}

/// What one round of one target brought.
#[derive(Debug, Clone)]
pub struct Round {
    pub(crate) tally: Tally,
    pub(crate) seconds: f64,
    pub(crate) spending: Spending,
}

/// What connections counted.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) failed: u64,
    pub(crate) hits: u64,
    pub(crate) peers: u64,
    pub(crate) misses: u64,
    pub(crate) first_byte: Histogram,
}

/// What the threads of a round share.
#[derive(Debug)]
struct Shared {
    target: Target,
    plan: Plan,
    feed: Feed,
    drive: Drive,
    /// Passed when all are connected, and when all may begin.
    gate: Barrier,
    is_given_up: AtomicBool,
}

/// Runs a round. Every connection reads at least once.
pub(crate) fn run(target: &Target, plan: &Plan, drive: Drive) -> Result<Round, BenchError> {
    let threads = drive.threads.clamp(1, drive.connections);
    let shared = Arc::new(Shared {
        target: target.clone(),
        plan: plan.clone(),
        feed: Feed::new(plan, drive.seed),
        drive,
        gate: Barrier::new(threads + 1),
        is_given_up: AtomicBool::new(false),
    });
    let handles: Vec<_> = (0..threads)
        .map(|thread| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || run_thread(&shared, thread, threads))
        })
        .collect();
    shared.gate.wait();
    let before = Spent::so_far(target);
    let begun = SystemClock.now();
    shared.gate.wait();
    let tallies: Vec<_> =
        handles.into_iter().map(|handle| handle.join().map_err(|_| BenchError::Thread)).collect();
    let seconds = SystemClock.now().duration_since(begun).as_secs_f64();
    let spending = Spent::so_far(target)?.since(before?);
    let mut tally = Tally::new();
    for of_thread in tallies {
        tally.merge(&of_thread??);
    }
    Ok(Round { tally, seconds, spending })
}

/// The share of one thread. It passes the gate twice whatever happens: others wait there.
fn run_thread(shared: &Arc<Shared>, thread: usize, threads: usize) -> Result<Tally, BenchError> {
    let unreached = |source| shared.unreached(source);
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let mine = (thread..shared.drive.connections).step_by(threads);
    let ready = built.map_err(unreached).and_then(|runtime| {
        let open = runtime.block_on(open(&shared.target, mine.len())).map_err(unreached)?;
        Ok((runtime, open))
    });
    if ready.is_err() {
        shared.is_given_up.store(true, Ordering::Relaxed);
    }
    shared.gate.wait();
    shared.gate.wait();
    let (runtime, connections) = ready?;
    let all = drive_all(shared, connections.into_iter().zip(mine));
    let limit = shared.drive.duration + LAST_ANSWERS_LIMIT;
    runtime.block_on(timeout(&SystemClock, limit, all)).unwrap_or_else(|_| {
        let target = shared.target.name().to_owned();
        Err(BenchError::Silent { target, limit_s: LAST_ANSWERS_LIMIT.as_secs() })
    })
}

async fn open(target: &Target, count: usize) -> std::io::Result<Vec<Connection>> {
    let mut connections = Vec::with_capacity(count);
    for _ in 0..count {
        connections.push(Connection::open(target).await?);
    }
    Ok(connections)
}

async fn drive_all(
    shared: &Arc<Shared>,
    connections: impl Iterator<Item = (Connection, usize)>,
) -> Result<Tally, BenchError> {
    let requests = Arc::new(Mutex::new(Requests::new(&shared.target, &shared.plan)));
    let until = SystemClock.now() + shared.drive.duration;
    let driven: Vec<_> = connections
        .map(|(connection, number)| {
            let (shared, requests) = (Arc::clone(shared), Arc::clone(&requests));
            spawn(async move { drive(&shared, &requests, connection, number, until).await })
        })
        .collect();
    let mut tally = Tally::new();
    for task in driven {
        tally.merge(&task.await.map_err(|_| BenchError::Thread)??);
    }
    Ok(tally)
}

async fn drive(
    shared: &Shared,
    requests: &Mutex<Requests>,
    mut connection: Connection,
    number: usize,
    until: Instant,
) -> Result<Tally, BenchError> {
    let rng = SeededRng::new(shared.drive.seed << 20 | number as u64);
    let (mut tally, mut request) = (Tally::new(), Vec::new());
    while let Some(piece) = shared.feed.next(&rng) {
        requests.lock().write(piece, SystemClock.wall(), &mut request);
        match connection.ask(&request, shared.asked(piece)).await {
            Ok(answered) => tally.add(answered),
            Err(error) if error.is_failure() && tally.failed < MAX_FAILURES => {
                tally.failed += 1;
                let opened = Connection::open(&shared.target).await;
                connection = opened.map_err(|source| shared.give_up_unreached(source))?;
            }
            Err(error) => return Err(shared.give_up(piece, error)),
        }
        if shared.is_given_up.load(Ordering::Relaxed) || SystemClock.now() >= until {
            break;
        }
    }
    Ok(tally)
}

impl Shared {
    fn asked(&self, piece: Piece) -> Asked<'_> {
        let object = &self.plan.objects()[piece.object];
        let (bucket, check) = (self.target.bucket(), self.drive.check);
        Asked { bucket, object, range: piece.range, check }
    }

    fn give_up(&self, piece: Piece, source: AnswerError) -> BenchError {
        self.is_given_up.store(true, Ordering::Relaxed);
        let key = self.plan.objects()[piece.object].key.clone();
        BenchError::Answer { target: self.target.name().to_owned(), key, source }
    }

    fn give_up_unreached(&self, source: std::io::Error) -> BenchError {
        self.is_given_up.store(true, Ordering::Relaxed);
        self.unreached(source)
    }

    fn unreached(&self, source: std::io::Error) -> BenchError {
        let target = format!("{} ({})", self.target.name(), self.target.address());
        BenchError::Unreached { target, source }
    }
}

impl Tally {
    pub(crate) fn new() -> Self {
        let first_byte = Histogram::new();
        Self { requests: 0, bytes: 0, failed: 0, hits: 0, peers: 0, misses: 0, first_byte }
    }

    fn add(&mut self, answered: Answered) {
        self.requests += 1;
        self.bytes += answered.bytes;
        self.first_byte.add(answered.first_byte);
        match answered.source {
            Source::Hit => self.hits += 1,
            Source::Peer => self.peers += 1,
            Source::Miss => self.misses += 1,
            Source::Unsaid => {}
        }
    }

    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.failed += other.failed;
        self.hits += other.hits;
        self.peers += other.peers;
        self.misses += other.misses;
        self.first_byte.merge(&other.first_byte);
    }
}
