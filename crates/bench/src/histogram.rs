//! How long answers took, in constant memory: buckets that are 1.6 % wide.

use std::time::Duration;

/// Buckets from one power of two to the next.
const STEPS_LOG2: u32 = 6;
const STEPS: u64 = 1 << STEPS_LOG2;
const BUCKETS: usize = (STEPS as usize) * (64 - STEPS_LOG2 as usize + 1);

/// Counts of durations in microseconds.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }

    pub(crate) fn add(&mut self, duration: Duration) {
        self.counts[bucket(duration.as_micros() as u64)] += 1;
        self.total += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
    }

    /// The duration that this share of all durations does not exceed, in microseconds.
    pub(crate) fn quantile_us(&self, share: f64) -> Option<f64> {
        let rank = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let reached = |count: &u64| {
            seen += count;
            seen >= rank
        };
        self.counts.iter().position(reached).map(|bucket| lowest_us(bucket) as f64)
    }
}

fn bucket(us: u64) -> usize {
    if us < STEPS {
        return us as usize;
    }
    let shift = us.ilog2() - STEPS_LOG2;
    (u64::from(shift) * STEPS + (us >> shift)) as usize
}

/// The smallest duration of a bucket.
fn lowest_us(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let shift = bucket / STEPS - 1;
    (STEPS + bucket % STEPS) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_a_bucket_that_is_at_most_a_64th_off() {
        for us in (0..5000).chain([1 << 20, (1 << 30) + 12_345, u64::MAX]) {
            let low = lowest_us(bucket(us));
            assert!(low <= us && us - low <= us / STEPS, "{us} is in the bucket of {low}");
            assert_eq!(bucket(low), bucket(us));
        }
    }

    #[test]
    fn quantiles_are_those_of_what_was_added() {
        let (mut one, mut two) = (Histogram::new(), Histogram::new());
        assert_eq!(one.quantile_us(0.5), None);
        (1..=50).for_each(|us| one.add(Duration::from_micros(us)));
        (51..=60).for_each(|us| two.add(Duration::from_micros(us)));
        one.merge(&two);
        assert_eq!(one.quantile_us(0.5), Some(30.0));
        assert_eq!(one.quantile_us(1.0), Some(60.0));
        assert_eq!(one.quantile_us(0.0), Some(1.0));
    }
}
