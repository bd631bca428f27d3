//! The bounds of the store, and the sizes that the format fixes.

use std::time::Duration;

use forebay_types::limits::MAX_CHUNK_BYTES;
use forebay_types::{BLOCK_BYTES, CRC_GRAIN_BYTES, PAGE_BYTES};

/// Version of everything written below a disk's directory.
pub(crate) const FORMAT_VERSION: u32 = 1;
/// Headers and data start on multiples of this, so that no page of the page cache holds bytes
/// of two extents.
pub(crate) const ALIGN_BYTES: u64 = CRC_GRAIN_BYTES;
/// Pages of a whole block.
pub(crate) const BLOCK_PAGES: u64 = BLOCK_BYTES / PAGE_BYTES;
/// Longest extent. A body chunk cannot be longer, so a longer extent would gain nothing, and
/// two of these still let a small disk carry a hot extent over.
pub(crate) const MAX_EXTENT_BYTES: u64 = MAX_CHUNK_BYTES;
/// Longest canonical name that an extent's header holds.
pub(crate) const MAX_NAME_BYTES: usize = 16 << 10;
/// Longest extent header.
pub(crate) const MAX_HEADER_BYTES: u64 = 32 << 10;

/// Segments that a full disk is cut into, as long as that gives sizes between the next two.
pub(crate) const SEGMENTS_PER_DISK: u64 = 64;
/// Smallest segment that a disk's capacity is cut into.
pub(crate) const MIN_SEGMENT_BYTES: u64 = 1 << 20;
/// Largest segment that a disk's capacity is cut into.
pub(crate) const MAX_SEGMENT_BYTES: u64 = 1 << 30;
/// A segment that holds two extents of the longest kind. Small disks get segments up to this
/// size before they get more of them.
pub(crate) const ROOMY_SEGMENT_BYTES: u64 = 2 * (MAX_EXTENT_BYTES + MAX_HEADER_BYTES) + ALIGN_BYTES;
/// Smallest segment that may be configured.
pub(crate) const SMALLEST_SEGMENT_BYTES: u64 = 256 << 10;
/// Fewest segments that a disk must have room for: one open, one to carry over from, one free.
pub(crate) const FEWEST_SEGMENTS: u64 = 4;
/// Smallest capacity of a disk.
pub(crate) const MIN_CAPACITY_BYTES: u64 = 16 << 20;

/// Segment files held open per disk.
pub(crate) const MAX_OPEN_SEGMENTS: usize = 256;
/// Memory for parsed extent headers, per disk.
pub(crate) const HEADER_CACHE_BYTES: u64 = 64 << 20;
/// Reads off a disk at the same time.
pub(crate) const MAX_READS: usize = 64;
/// Writes to a disk at the same time.
pub(crate) const MAX_WRITES: usize = 8;
/// Puts that wait for a disk; a put beyond them is not stored. The memory that they hold is
/// bounded by whoever puts (the cache's fill budget), so a short queue would only lose what a
/// slow disk could still have taken.
pub(crate) const MAX_QUEUED_PUTS: usize = 16_384;
/// Heads recalled, remembered or forgotten on a disk at the same time.
pub(crate) const MAX_HEAD_CALLS: usize = 16;
/// How long recalling or remembering a head waits for its turn on a disk. A thousand readers
/// after a restart get theirs in a fraction of that; a disk that hangs does not hold them.
pub(crate) const HEAD_WAIT: Duration = Duration::from_secs(1);
/// Turns that a reader waits for others that check the pages it wants.
pub(crate) const MAX_CHECK_TURNS: usize = 16;
/// Bytes that a cold read takes at a time; small enough to be checked while in the CPU's cache.
pub(crate) const COLD_STEP_BYTES: u64 = 256 << 10;
/// Buffers of one vectored write (IOV_MAX).
pub(crate) const MAX_WRITE_PARTS: usize = 1024;
/// Blocks of a version that `cool` looks at: it is a hint, and it runs on a reactor thread.
pub(crate) const MAX_COOLED_BLOCKS: u64 = 4096;
/// Blocks of a version that eviction looks for before it takes a head for orphaned.
pub(crate) const MAX_HEAD_BLOCKS: u64 = 1024;
/// Blocks that lookups need not ask RocksDB for again while the index is being loaded.
pub(crate) const MAX_KNOWN_BLOCKS: usize = 16_384;
/// Entries of one RocksDB batch, and of one step of loading the index.
pub(crate) const BATCH_ENTRIES: usize = 2048;

/// Turns that a put waits for room; others may take what was made for it.
pub(crate) const MAX_ROOM_TURNS: usize = 32;
/// How long a put waits for the evictor to free a segment before it gives up.
pub(crate) const ROOM_WAIT: Duration = Duration::from_millis(250);
/// How long the evictor waits for readers to let go of retired segments, whose space would be
/// enough, before it retires another one.
pub(crate) const PIN_PATIENCE: Duration = Duration::from_secs(1);
/// How often it looks whether they have, however often it is woken.
pub(crate) const PIN_GRACE: Duration = Duration::from_millis(100);
/// How often a disk looks after itself: probes, gauges, room.
pub(crate) const UPKEEP_INTERVAL: Duration = Duration::from_secs(1);
/// How often an offline disk is probed at most, however often upkeep is woken.
pub(crate) const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// How long writes stay off after the volume was full, read-only or its index failed.
pub(crate) const WRITE_PAUSE: Duration = Duration::from_secs(2);
/// How long the store keeps to the room it had when the volume turned out to be full.
pub(crate) const CEILING_TIME: Duration = Duration::from_secs(4);
/// This many I/O errors within [`ERROR_WINDOW`] take a disk offline.
pub(crate) const MAX_ERRORS: usize = 3;
/// See [`MAX_ERRORS`].
pub(crate) const ERROR_WINDOW: Duration = Duration::from_secs(10);
/// Probes in a row that must succeed before an offline disk is used again.
pub(crate) const CLEAN_PROBES: u32 = 3;

const _: () = assert!(MAX_EXTENT_BYTES.is_multiple_of(PAGE_BYTES));
const _: () = assert!(BLOCK_PAGES == 128, "a block's pages are the bits of a u128");
const _: () = assert!(COLD_STEP_BYTES.is_multiple_of(CRC_GRAIN_BYTES));
const _: () = assert!(
    MAX_NAME_BYTES as u64 + MAX_EXTENT_BYTES / CRC_GRAIN_BYTES * 4 + 2 * ALIGN_BYTES
        <= MAX_HEADER_BYTES
);

/// Rounds up to [`ALIGN_BYTES`].
pub(crate) const fn align(bytes: u64) -> u64 {
    bytes.div_ceil(ALIGN_BYTES) * ALIGN_BYTES
}
