//! What a bucket rule says about time, and the identity that keeps origins apart.

use std::fmt;
use std::time::Duration;

/// Names the origin behind a bucket rule, stable over restarts.
///
/// Two rules with the same origin endpoint share it; cached bytes never cross it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub u64);

impl RuleId {
    /// The identity of an origin endpoint.
    pub fn of_origin(endpoint: &str) -> Self {
        Self(xxhash_rust::xxh3::xxh3_64(endpoint.trim_end_matches('/').as_bytes()))
    }
}

impl fmt::Debug for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule-{:016x}", self.0)
    }
}

/// How long a known version of a key may be served without asking the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// A key never gets other bytes: ask once, never again.
    Immutable,
    /// Ask again when this long has passed since the origin was last asked.
    Bounded(Duration),
    /// Ask on every request.
    Strict,
}

impl Freshness {
    /// The default bound.
    pub const DEFAULT_BOUND: Duration = Duration::from_secs(60);

    /// Whether what the origin said `age` ago still stands.
    pub fn allows(self, age: Duration) -> bool {
        match self {
            Self::Immutable => true,
            Self::Bounded(bound) => age < bound,
            Self::Strict => false,
        }
    }
}

impl Default for Freshness {
    fn default() -> Self {
        Self::Bounded(Self::DEFAULT_BOUND)
    }
}
