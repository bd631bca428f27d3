//! What the rest of Forebay may know of the runtime: time, chance, tasks, shutdown, backoff.
//!
//! A closed list, not a place for helpers. Clippy bans the originals everywhere else, so that
//! a test can replace the clock and replay a seed.

mod backoff;
mod clock;
mod rng;
mod shutdown;
mod task;

pub use backoff::Backoff;
pub use clock::{Clock, Elapsed, ManualClock, SharedClock, SystemClock, timeout};
pub use rng::{Rng, SeededRng, SharedRng, SystemRng};
pub use shutdown::{Busy, Shutdown};
pub use task::{Task, spawn, spawn_blocking};
