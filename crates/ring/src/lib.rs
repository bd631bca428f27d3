//! Placement: which workers own a block, best first.
//!
//! Pure and deterministic: every process that builds a ring from the same [`RingSpec`] names the
//! same owners, whatever the machine, the release of Rust, or the order of the members. The rule
//! is written down, for other implementations too, in `tests/golden/README.md`.

mod hashing;
mod owners;
mod ring;

pub use owners::{MAX_OWNERS, Owners};
pub use ring::Ring;
