//! One pass over objects by many readers at a time, through all workers by turns, every byte
//! checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use forebay_rt::{Clock, SystemClock, Task, spawn};
use forebay_testkit::reader::{AnyOf, UpTo, VerifyError};

use super::dataset::{BUCKET, Item, Reading};
use super::progress::Progress;
use crate::output::complain;

/// Readers of small objects: a loader with some dozen workers.
const SMALL_READERS: usize = 64;
const SHARD_READERS: usize = 4;

/// What a pass found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Checked bytes.
    pub(super) bytes: u64,
    /// Reads without an answer.
    pub(super) failed: u64,
    /// Reads with a wrong one.
    pub(super) wrong: u64,
    /// What happened to the first of those.
    example: Option<String>,
}

/// A pass that is over.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) tally: Tally,
    pub(super) gb_per_s: f64,
}

/// Reads everything once. Small objects and shards are read at the same time.
pub(super) async fn run(name: &str, reader: &AnyOf, reading: Reading) -> Pass {
    let progress = Arc::new(Progress::begin(name, reading.bytes()));
    run_with(reader, reading, progress).await
}

/// As [`run`], with progress that somebody else watches.
pub(super) async fn run_with(reader: &AnyOf, reading: Reading, progress: Arc<Progress>) -> Pass {
    let begun = SystemClock.now();
    let mut tasks = start(reader, reading.small, SMALL_READERS, &progress);
    tasks.extend(start(reader, reading.shards, SHARD_READERS, &progress));
    let mut tally = Tally::default();
    for task in tasks {
        match task.await {
            Ok(part) => tally.add(part),
            Err(error) => tally.failure(format!("a reader ended: {error}")),
        }
    }
    let gb_per_s = rate(tally.bytes, begun);
    progress.end(gb_per_s);
    if let Some(example) = &tally.example {
        complain(&format!("{} failed, {} wrong, the first: {example}", tally.failed, tally.wrong));
    }
    Pass { tally, gb_per_s }
}

fn start(
    reader: &AnyOf,
    items: Vec<Item>,
    readers: usize,
    progress: &Arc<Progress>,
) -> Vec<Task<Tally>> {
    let (items, next) = (Arc::new(items), Arc::new(AtomicUsize::new(0)));
    let task = |_| {
        let (reader, progress) = (reader.clone(), progress.clone());
        spawn(read_on(reader, items.clone(), next.clone(), progress))
    };
    (0..readers).map(task).collect()
}

/// Takes the next object until there is none.
async fn read_on(
    reader: AnyOf,
    items: Arc<Vec<Item>>,
    next: Arc<AtomicUsize>,
    progress: Arc<Progress>,
) -> Tally {
    let mut tally = Tally::default();
    loop {
        let turn = next.fetch_add(1, Ordering::Relaxed);
        let Some(item) = items.get(turn) else { return tally };
        match reader.verify_get(turn, (BUCKET, &item.key), None, &UpTo(1)).await {
            Ok(read) if read.bytes == item.size_bytes => tally.bytes += read.bytes,
            Ok(read) => {
                tally.wrong(format!("{}: {} of {} bytes", item.key, read.bytes, item.size_bytes));
            }
            Err(error) => tally.note(&item.key, &error),
        }
        progress.advance(item.size_bytes);
    }
}

impl Tally {
    fn note(&mut self, key: &str, error: &VerifyError) {
        let text = format!("{key}: {error}");
        if error.is_wrong() { self.wrong(text) } else { self.failure(text) }
    }

    fn wrong(&mut self, example: String) {
        self.wrong += 1;
        self.example.get_or_insert(example);
    }

    fn failure(&mut self, example: String) {
        self.failed += 1;
        self.example.get_or_insert(example);
    }

    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.failed += other.failed;
        self.wrong += other.wrong;
        self.example = self.example.take().or(other.example);
    }
}

fn rate(bytes: u64, since: Instant) -> f64 {
    let seconds = SystemClock.now().saturating_duration_since(since).as_secs_f64();
    bytes as f64 / 1e9 / seconds.max(1e-9)
}
