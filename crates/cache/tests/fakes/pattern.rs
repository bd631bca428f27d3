//! Bytes that tell which version they are of and at which offset they belong, given out without
//! being made anew each time.

use std::sync::OnceLock;

use bytes::Bytes;
use forebay_rt::{Rng, SeededRng};
use forebay_types::ByteRange;

/// Bytes of a frame of a body.
pub const FRAME_BYTES: usize = 24 << 10;

/// A prime, so that no two offsets that a test compares fall together.
const PERIOD: u64 = 1_048_573;

fn table() -> &'static Bytes {
    static TABLE: OnceLock<Bytes> = OnceLock::new();
    TABLE.get_or_init(|| {
        let rng = SeededRng::new(7);
        let words = (PERIOD as usize + FRAME_BYTES) / 8 + 1;
        let mut bytes: Vec<u8> = (0..words).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
        bytes.copy_within(..FRAME_BYTES, PERIOD as usize);
        bytes.into()
    })
}

/// At most a frame of version `version`, from byte `at` on.
fn frame(version: u64, at: u64, len: usize) -> Bytes {
    let from = (at.wrapping_add(version.wrapping_mul(104_729)) % PERIOD) as usize;
    table().slice(from..from + len)
}

/// The bytes of a range of a version, as frames.
pub fn frames(version: u64, range: ByteRange) -> impl Iterator<Item = Bytes> {
    let mut at = range.start();
    std::iter::from_fn(move || {
        let len = (range.end() - at).min(FRAME_BYTES as u64);
        let next = (len > 0).then(|| frame(version, at, len as usize));
        at += len;
        next
    })
}

/// Whether these are the bytes of `version` from byte `at` on.
pub fn is_of(version: u64, at: u64, bytes: &[u8]) -> bool {
    let starts = (at..).step_by(FRAME_BYTES);
    bytes
        .chunks(FRAME_BYTES)
        .zip(starts)
        .all(|(piece, at)| frame(version, at, piece.len()) == piece)
}
