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

/// Rounds of fills in which bytes that are to be stored have to become so.
pub(crate) const BRING_ATTEMPTS: u32 = 8;

/// Workers whose origin does not answer, before this one asks it itself.
pub(crate) const ORIGIN_UNAVAILABLE_WORKERS: u32 = 2;

/// How long a writer tries to make sure that nobody answers with what was there before.
pub(crate) const ANNOUNCE_LIMIT: Duration = Duration::from_secs(20);

/// How long a writer waits between two rounds at the authorities.
pub(crate) const ANNOUNCE_PAUSE: Duration = Duration::from_millis(200);

/// Rounds in which an authority does not vouch, before the writer fences it off.
pub(crate) const ANNOUNCE_ROUNDS: u32 = 3;

/// Names told to another worker at a time.
pub(crate) const FORGET_NAMES_AT_ONCE: usize = 1_000;

/// Workers told of a write at a time.
pub(crate) const FORGET_WORKERS_AT_ONCE: usize = 32;

/// Frames of a forwarded answer between the origin and the client.
pub(crate) const FORWARD_QUEUE_FRAMES: usize = 4;

const _: () = assert!(OPEN_RESERVE_BYTES.is_multiple_of(PAGE_BYTES));
const _: () = assert!(OPEN_RESERVE_BYTES <= BLOCK_BYTES);
