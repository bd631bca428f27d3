//! Chance as something that is handed in.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where randomness comes from. Not for secrets.
pub trait Rng: Send + Sync + fmt::Debug {
    /// The next 64 random bits.
    fn next_u64(&self) -> u64;

    /// A number in `0.0..1.0`.
    fn unit(&self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A source of randomness as it is passed around.
pub type SharedRng = Arc<dyn Rng>;

/// The machine's randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRng;

#[allow(clippy::disallowed_methods, reason = "the one place that draws from the machine")]
impl Rng for SystemRng {
    fn next_u64(&self) -> u64 {
        rand::random()
    }
}

/// SplitMix64: the same seed gives the same numbers, in the order in which they are drawn.
#[derive(Debug)]
pub struct SeededRng(AtomicU64);

impl SeededRng {
    /// A generator for one run of a test.
    pub const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl Rng for SeededRng {
    fn next_u64(&self) -> u64 {
        const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.fetch_add(GOLDEN_GAMMA, Ordering::Relaxed).wrapping_add(GOLDEN_GAMMA);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
