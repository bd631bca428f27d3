//! Which disk a block belongs on: weighted rendezvous hashing.
//!
//! Pure. A disk that leaves or comes back moves only its own share of the blocks, and a disk of
//! twice the capacity gets twice as many.

use forebay_types::{BlockIndex, ObjectId};
use xxhash_rust::xxh3::xxh3_64;

/// What routing knows of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weight {
    /// Random, and the disk's for life.
    pub(crate) seed: u64,
    pub(crate) capacity_bytes: u64,
}

/// Where a block stands among disks.
pub(crate) fn key(id: &ObjectId, block: BlockIndex) -> u64 {
    mix(xxh3_64(id.canonical()) ^ mix(block.0))
}

/// Positions in `weights`, best first. Allocates nothing: there are few disks, and mostly only
/// the first one is wanted.
pub(crate) fn ranked(weights: &[Weight], key: u64) -> impl Iterator<Item = usize> {
    let mut below = f64::INFINITY;
    std::iter::from_fn(move || {
        let scores = weights.iter().map(|weight| score(*weight, key)).enumerate();
        let best = scores.filter(|(_, s)| *s < below).max_by(|(_, a), (_, b)| a.total_cmp(b));
        let (at, score) = best?;
        below = score;
        Some(at)
    })
}

/// Capacity over an exponential of rate one: the largest is a disk's with a probability in
/// proportion to its capacity.
fn score(weight: Weight, key: u64) -> f64 {
    let unit = ((mix(key ^ weight.seed) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    weight.capacity_bytes as f64 / -unit.ln()
}

/// The finaliser of SplitMix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEIGHTS: [Weight; 3] = [
        Weight { seed: 11, capacity_bytes: 100 },
        Weight { seed: 22, capacity_bytes: 200 },
        Weight { seed: 33, capacity_bytes: 100 },
    ];

    #[test]
    fn blocks_spread_by_capacity() {
        let mut counts = [0; 3];
        for key in 0..40_000 {
            counts[ranked(&WEIGHTS, mix(key)).next().unwrap()] += 1;
        }
        for (count, share) in counts.into_iter().zip([10_000, 20_000, 10_000]) {
            assert!((share - 500..share + 500).contains(&count), "{counts:?}");
        }
    }

    #[test]
    fn every_disk_is_ranked_once_and_losing_one_moves_only_its_blocks() {
        for key in (0..1000).map(mix) {
            let order: Vec<_> = ranked(&WEIGHTS, key).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2]);
            let without_last: Vec<_> = ranked(&WEIGHTS[..2], key).collect();
            assert!(order.iter().filter(|at| **at != 2).eq(&without_last));
        }
    }
}
