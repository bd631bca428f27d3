//! How long to wait before trying again.

use std::time::Duration;

use crate::rng::Rng;

/// Exponential backoff with full jitter, and a bound on the number of tries.
///
/// The shape is the one AWS recommends (Architecture Blog, "Exponential Backoff And Jitter").
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// Upper limit of the first wait.
    pub base: Duration,
    /// Upper limit of any wait.
    pub cap: Duration,
    /// Tries in all, the first included.
    pub tries: u32,
}

impl Backoff {
    /// The wait after `failed` failures, or `None` when there are no tries left.
    pub fn wait_after(&self, failed: u32, rng: &dyn Rng) -> Option<Duration> {
        if failed >= self.tries {
            return None;
        }
        let doublings = failed.saturating_sub(1).min(31);
        let ceiling = self.base.saturating_mul(1 << doublings).min(self.cap);
        Some(ceiling.mul_f64(rng.unit()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SeededRng;

    #[test]
    fn waits_grow_to_the_cap_and_then_end() {
        let backoff =
            Backoff { base: Duration::from_millis(10), cap: Duration::from_millis(50), tries: 8 };
        let rng = SeededRng::new(1);
        for failed in 1..8 {
            let ceiling = Duration::from_millis((10 << (failed - 1)).min(50));
            assert!(backoff.wait_after(failed, &rng).unwrap() <= ceiling);
        }
        assert_eq!(backoff.wait_after(8, &rng), None);
    }
}
