//! The bounds of the core.

use std::time::Duration;

use forebay_rt::Backoff;
use forebay_types::{BLOCK_BYTES, PAGE_BYTES};

/// How often a read is opened anew because the object moved under it, before it fails.
pub(crate) const OPEN_ATTEMPTS: u32 = 3;

/// How long "no such key" is believed, at most; a write through Forebay ends it at once.
pub(crate) const ABSENT_TTL: Duration = Duration::from_secs(5);

/// What opening an object of unknown size reserves of the fill budget until its size is known.
pub(crate) const OPEN_RESERVE_BYTES: u64 = 1 << 20;

/// How long a fill waits for a share of the budget before its readers go to the origin directly.
pub(crate) const BUDGET_WAIT: Duration = Duration::from_secs(5);

/// Attempts to carry a broken fill on from where it broke off.
pub(crate) const FILL_RESUME: Backoff =
    Backoff { base: Duration::from_millis(20), cap: Duration::from_secs(2), tries: 5 };

/// Frames smaller than this are merged, so that a dripping origin cannot make a fill a list
/// of single bytes.
pub(crate) const MIN_FRAME_BYTES: usize = 16 << 10;

/// Blocks looked at to tell `x-forebay-cache: hit` from `miss`; what lies behind them is not.
pub(crate) const HIT_LOOK_BLOCKS: usize = 16;

/// Times a reader looks for bytes that are said to be stored and are not found, before it
/// stops believing the store.
pub(crate) const LOCAL_LOOKS: u32 = 4;

/// Objects whose last read is remembered to see that the next one follows it.
pub(crate) const SEQUENTIAL_OBJECTS: usize = 16_384;

/// Frames of a forwarded answer between the origin and the client.
pub(crate) const FORWARD_QUEUE_FRAMES: usize = 4;

const _: () = assert!(OPEN_RESERVE_BYTES.is_multiple_of(PAGE_BYTES));
const _: () = assert!(OPEN_RESERVE_BYTES <= BLOCK_BYTES);
