//! Block and page arithmetic.
//!
//! A block only *places*; what is stored, and what parts say to each other, are absolute byte
//! ranges, so two views of the block size can never mean different bytes.

use crate::range::ByteRange;

/// Bytes of a block, the grain of placement.
pub const BLOCK_BYTES: u64 = 8 << 20;
/// Bytes of a page, the grain of filling.
pub const PAGE_BYTES: u64 = 64 << 10;
/// Bytes under one CRC32C, the grain of verification.
pub const CRC_GRAIN_BYTES: u64 = 4 << 10;

const _: () = assert!(BLOCK_BYTES.is_multiple_of(PAGE_BYTES));
const _: () = assert!(PAGE_BYTES.is_multiple_of(CRC_GRAIN_BYTES));

/// Number of a block within its object version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockIndex(pub u64);

impl BlockIndex {
    /// The block that byte `at` lies in.
    pub const fn of(at: u64) -> Self {
        Self(at / BLOCK_BYTES)
    }

    /// First byte of the block.
    pub const fn start(self) -> u64 {
        self.0 * BLOCK_BYTES
    }

    /// One past the block's last possible byte.
    pub const fn end(self) -> u64 {
        self.start().saturating_add(BLOCK_BYTES)
    }
}

/// What a reader asked of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The block.
    pub block: BlockIndex,
    /// Absolute bytes, all of them inside the block.
    pub range: ByteRange,
}

/// Cuts a range at block boundaries, in order.
pub fn spans(range: ByteRange) -> impl Iterator<Item = Span> {
    let mut next = Some(range);
    std::iter::from_fn(move || {
        let rest = next?;
        let block = BlockIndex::of(rest.start());
        let cut = rest.end().min(block.end());
        next = ByteRange::new(cut, rest.end());
        Some(Span { block, range: ByteRange::new(rest.start(), cut)? })
    })
}

/// Widens a range to whole pages, but not past the object's end.
///
/// The result covers `range` wherever `range` ends at or before `size`.
pub fn round_to_pages(range: ByteRange, size: u64) -> ByteRange {
    let start = range.start() / PAGE_BYTES * PAGE_BYTES;
    let end = range.end().div_ceil(PAGE_BYTES).saturating_mul(PAGE_BYTES).min(size);
    ByteRange::new(start, end.max(range.end())).unwrap_or(range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn spans_tile_the_range_and_never_cross_a_block(start in 0u64..1 << 34, len in 1u64..1 << 28) {
            let range = ByteRange::new(start, start + len).unwrap();
            let mut at = start;
            for span in spans(range) {
                prop_assert_eq!(span.range.start(), at);
                prop_assert!(span.block.start() <= at && span.range.end() <= span.block.end());
                at = span.range.end();
            }
            prop_assert_eq!(at, range.end());
        }

        #[test]
        fn rounding_covers_and_adds_less_than_two_pages(start in 0u64..1 << 34, len in 1u64..1 << 28, tail in 0u64..1 << 20) {
            let range = ByteRange::new(start, start + len).unwrap();
            let wide = round_to_pages(range, range.end() + tail);
            prop_assert!(wide.contains(range));
            prop_assert!(wide.len() - range.len() < 2 * PAGE_BYTES);
            prop_assert!(wide.end() <= range.end() + tail);
        }
    }

    #[test]
    fn a_100_kib_range_never_rounds_past_192_kib() {
        for start in 0..PAGE_BYTES {
            let asked = ByteRange::new(start, start + (100 << 10)).unwrap();
            assert!(round_to_pages(asked, 1 << 30).len() <= 192 << 10);
        }
    }
}
