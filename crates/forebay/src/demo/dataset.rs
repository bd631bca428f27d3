//! What the demo trains on: many small objects and a few shards, in a new order each epoch.

use forebay_rt::{Rng, SeededRng};
use forebay_testkit::PatternSet;

use crate::cli::DemoArgs;

/// The demo's bucket.
pub(super) const BUCKET: &str = "demo";

const SMALL_MIN_BYTES: u64 = 80 << 10;
const SMALL_MAX_BYTES: u64 = 120 << 10;
const SHARD_BYTES: u64 = 64 << 20;
/// The sizes are the same on every machine, so that runs can be compared.
const SIZES_SEED: u64 = 2;

/// One object to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) key: String,
    pub(super) size_bytes: u64,
}

/// All objects of a pass, or a part of them.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    pub(super) small: Vec<Item>,
    pub(super) shards: Vec<Item>,
}

/// The objects of the demo.
#[derive(Debug, Clone)]
pub(super) struct Dataset {
    small: PatternSet,
    shards: PatternSet,
}

impl Dataset {
    pub(super) fn new(args: &DemoArgs) -> Self {
        let small = PatternSet {
            bucket: BUCKET.into(),
            prefix: "images/".into(),
            count: args.objects,
            size_min_bytes: SMALL_MIN_BYTES,
            size_max_bytes: SMALL_MAX_BYTES,
            seed: SIZES_SEED,
        };
        let shards = PatternSet::new(BUCKET, "shards/", args.shards, SHARD_BYTES);
        Self { small, shards }
    }

    /// The sets as an origin is told of them.
    pub(super) fn patterns(&self) -> Vec<PatternSet> {
        vec![self.small.clone(), self.shards.clone()]
    }

    /// Everything, in the order of epoch `epoch`.
    pub(super) fn epoch(&self, epoch: u64) -> Reading {
        let rng = SeededRng::new(epoch);
        let mut reading = Reading { small: items(&self.small), shards: items(&self.shards) };
        shuffle(&mut reading.small, &rng);
        shuffle(&mut reading.shards, &rng);
        reading
    }

    /// Small enough not to be waited for, large enough to measure.
    pub(super) fn sample(&self) -> Reading {
        let mut sample = self.epoch(0);
        sample.small.truncate(sample.small.len().div_ceil(10));
        sample.shards.truncate(sample.shards.len().div_ceil(4));
        sample
    }

    /// The object that tells when the first hit was served.
    pub(super) fn first(&self) -> Item {
        item(&self.small, 0)
    }
}

impl Reading {
    pub(super) fn bytes(&self) -> u64 {
        self.small.iter().chain(&self.shards).map(|item| item.size_bytes).sum()
    }
}

fn items(set: &PatternSet) -> Vec<Item> {
    (0..set.count).map(|index| item(set, index)).collect()
}

fn item(set: &PatternSet, index: u64) -> Item {
    Item { key: set.key(index), size_bytes: set.size_bytes(index) }
}

/// Fisher-Yates.
fn shuffle<T>(items: &mut [T], rng: &dyn Rng) {
    for last in (1..items.len()).rev() {
        items.swap(last, (rng.next_u64() % (last as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn dataset() -> Dataset {
        Dataset::new(&DemoArgs { keep: false, json: false, objects: 1000, shards: 8, dir: None })
    }

    fn keys(reading: &Reading) -> Vec<String> {
        reading.small.iter().chain(&reading.shards).map(|item| item.key.clone()).collect()
    }

    #[test]
    fn epochs_read_the_same_objects_in_another_order() {
        let (one, two) = (dataset().epoch(1), dataset().epoch(2));
        assert_ne!(keys(&one), keys(&two));
        let set = |reading: &Reading| keys(reading).into_iter().collect::<BTreeSet<_>>();
        assert_eq!(set(&one), set(&two));
        assert_eq!(set(&one).len(), 1008);
        assert_eq!(one.bytes(), two.bytes());
    }

    #[test]
    fn small_objects_are_about_100_kib() {
        let small = dataset().epoch(1).small;
        assert!(small.iter().all(|item| (80 << 10..=120 << 10).contains(&item.size_bytes)));
        let mean = small.iter().map(|item| item.size_bytes).sum::<u64>() / small.len() as u64;
        assert!((97 << 10..103 << 10).contains(&mean), "{mean}");
    }
}
