//! Where an extent is: hashes that name blocks, pages within a block, places in segments.
//!
//! Pure arithmetic. A hash is keyed with a secret of the disk, so nobody outside can choose
//! names that collide; the full name is compared on every read all the same.

use forebay_types::block::CRC_GRAIN_BYTES;
use forebay_types::{BlockIndex, ByteRange, ObjectId, PAGE_BYTES};
use xxhash_rust::xxh3::xxh3_128_with_secret;

use crate::limits::{ALIGN_BYTES, BLOCK_PAGES};

/// Number of a segment of one disk. Grows, and is never used again.
pub(crate) type SegmentId = u32;

/// 64-bit words of a disk's hash secret.
pub(crate) const SECRET_WORDS: usize = 24;

/// A block of an object version, as its disk knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BlockHash {
    pub(crate) high: u64,
    pub(crate) low: u64,
}

/// An object name, as its disk knows it.
pub(crate) type NameHash = [u8; 16];

/// A disk's secret for hashing.
#[derive(Clone)]
pub(crate) struct HashKey(Box<[u8]>);

impl HashKey {
    pub(crate) fn new(words: &[u64; SECRET_WORDS]) -> Self {
        Self(words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    pub(crate) fn block(&self, id: &ObjectId, block: BlockIndex) -> BlockHash {
        let name = xxh3_128_with_secret(id.canonical(), &self.0);
        let mut both = [0; 24];
        both[..16].copy_from_slice(&name.to_le_bytes());
        both[16..].copy_from_slice(&block.0.to_le_bytes());
        BlockHash::from_u128(xxh3_128_with_secret(&both, &self.0))
    }

    pub(crate) fn name(&self, canonical: &[u8]) -> NameHash {
        xxh3_128_with_secret(canonical, &self.0).to_be_bytes()
    }
}

impl BlockHash {
    pub(crate) fn from_u128(hash: u128) -> Self {
        Self { high: (hash >> 64) as u64, low: hash as u64 }
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        ((u128::from(self.high) << 64) | u128::from(self.low)).to_be_bytes()
    }
}

/// A run of pages of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pages {
    pub(crate) first: u8,
    pub(crate) count: u8,
}

impl Pages {
    /// The pages of `block` that `range`, which must lie in it, touches.
    pub(crate) fn touched(block: BlockIndex, range: ByteRange) -> Self {
        let first = (range.start() - block.start()) / PAGE_BYTES;
        let end = (range.end() - block.start()).div_ceil(PAGE_BYTES);
        Self { first: first as u8, count: (end - first) as u8 }
    }

    /// The bytes of these pages in an object of `size`; `None` where it has none there.
    pub(crate) fn range(self, block: BlockIndex, size: u64) -> Option<ByteRange> {
        let start = block.start() + u64::from(self.first) * PAGE_BYTES;
        let end = start + u64::from(self.count) * PAGE_BYTES;
        ByteRange::new(start, end.min(size))
    }

    pub(crate) fn holds(self, page: u8) -> bool {
        self.first <= page && page - self.first < self.count
    }

    pub(crate) fn mask(self) -> PageMask {
        let ones = u128::MAX >> (BLOCK_PAGES as u32 - u32::from(self.count));
        PageMask(ones << self.first)
    }
}

/// A set of pages of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PageMask(u128);

impl PageMask {
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The runs of pages in the set, each cut to at most `longest` pages.
    pub(crate) fn runs(self, longest: u64) -> impl Iterator<Item = Pages> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let first = rest.trailing_zeros();
            let ones = u64::from((rest >> first).trailing_ones());
            let run = Pages { first: first as u8, count: ones.min(longest) as u8 };
            rest &= !run.mask().0;
            Some(run)
        })
    }
}

/// Where an extent is stored, and which pages of its block it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) segment: SegmentId,
    /// Where its header starts, in units of [`ALIGN_BYTES`].
    pub(crate) at: u32,
    pub(crate) pages: Pages,
}

/// Tells extents of one disk apart.
pub(crate) type ExtentKey = (SegmentId, u32);

impl Place {
    pub(crate) fn key(self) -> ExtentKey {
        (self.segment, self.at)
    }

    pub(crate) fn offset_bytes(self) -> u64 {
        u64::from(self.at) * ALIGN_BYTES
    }
}

/// An extent of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) hash: BlockHash,
    pub(crate) place: Place,
}

/// Number of CRC grains that `len` bytes have.
pub(crate) const fn grains(len: u64) -> u64 {
    len.div_ceil(CRC_GRAIN_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_a_mask_tile_it() {
        let stored =
            Pages { first: 3, count: 2 }.mask().with(Pages { first: 127, count: 1 }.mask());
        let missing = Pages { first: 0, count: 128 }.mask().without(stored);
        let runs: Vec<_> = missing.runs(64).map(|run| (run.first, run.count)).collect();
        assert_eq!(runs, [(0, 3), (5, 64), (69, 58)]);
        let again = missing.runs(64).fold(PageMask::default(), |mask, run| mask.with(run.mask()));
        assert_eq!(again, missing);
    }

    #[test]
    fn touched_pages_cover_the_range_and_stop_at_the_end_of_the_object() {
        let block = BlockIndex(1);
        let range = ByteRange::new(block.start() + 65_535, block.start() + 65_537).unwrap();
        let pages = Pages::touched(block, range);
        assert_eq!(pages, Pages { first: 0, count: 2 });
        let size = block.start() + 70_000;
        assert_eq!(pages.range(block, size), ByteRange::new(block.start(), size));
        assert_eq!(pages.range(block, block.start()), None);
    }
}
