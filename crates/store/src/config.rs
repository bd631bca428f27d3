//! What the operator says about disks, resolved against the volumes that they are on.

use std::path::PathBuf;

use crate::error::{StoreError, io_at};
use crate::limits::{
    ALIGN_BYTES, FEWEST_SEGMENTS, MAX_EXTENT_BYTES, MAX_HEADER_BYTES, MAX_SEGMENT_BYTES,
    MIN_CAPACITY_BYTES, MIN_SEGMENT_BYTES, ROOMY_SEGMENT_BYTES, SEGMENTS_PER_DISK,
    SMALLEST_SEGMENT_BYTES,
};
use crate::sys;
use forebay_types::{BLOCK_BYTES, PAGE_BYTES};

/// Where blocks are kept.
#[derive(Debug, Clone, Default)]
pub struct StoreConfig {
    /// The disks, one directory each.
    pub disks: Vec<DiskConfig>,
    /// Bytes of a segment; derived from each disk's capacity where it is not set.
    pub segment_bytes: Option<u64>,
}

/// One disk.
#[derive(Debug, Clone)]
pub struct DiskConfig {
    /// A directory on the disk. Everything below it belongs to the store.
    pub path: PathBuf,
    /// Bytes that the store may use there; 90 % of the volume where it is not set.
    pub capacity_bytes: Option<u64>,
}

/// The sizes that one disk works with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskPlan {
    /// Never exceeded by segments, unlinked but open ones included, and index together.
    pub(crate) capacity_bytes: u64,
    /// Size of every new segment.
    pub(crate) segment_bytes: u64,
    /// Room that the evictor keeps free: a segment, and on small disks a whole block.
    pub(crate) spare_bytes: u64,
    /// Longest extent, in pages.
    pub(crate) extent_pages: u64,
    /// Size of one RocksDB memtable.
    pub(crate) memtable_bytes: u64,
}

impl DiskPlan {
    /// Fixes the sizes of a disk whose directory exists.
    pub(crate) fn resolve(disk: &DiskConfig, segment: Option<u64>) -> Result<Self, StoreError> {
        let capacity_bytes = match disk.capacity_bytes {
            Some(bytes) => bytes,
            None => {
                sys::volume_bytes(&disk.path).map_err(io_at(&disk.path, "ask for its size"))? / 10
                    * 9
            }
        };
        let plan = Self::of(capacity_bytes, segment);
        let least_bytes = MIN_CAPACITY_BYTES
            .max(plan.index_headroom_bytes() + FEWEST_SEGMENTS * plan.segment_bytes);
        if capacity_bytes < least_bytes {
            let path = disk.path.clone();
            return Err(StoreError::TooSmall { path, capacity_bytes, least_bytes });
        }
        Ok(plan)
    }

    fn of(capacity_bytes: u64, segment: Option<u64>) -> Self {
        let roomy_bytes = (capacity_bytes / 8).min(ROOMY_SEGMENT_BYTES);
        let derived_bytes = (capacity_bytes / SEGMENTS_PER_DISK)
            .clamp(MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES)
            .max(roomy_bytes);
        let segment_bytes = segment.unwrap_or(derived_bytes).max(SMALLEST_SEGMENT_BYTES)
            / ALIGN_BYTES
            * ALIGN_BYTES;
        Self {
            capacity_bytes,
            segment_bytes,
            spare_bytes: segment_bytes.max(BLOCK_BYTES.min(capacity_bytes / 8)),
            extent_pages: extent_pages(segment_bytes),
            memtable_bytes: (capacity_bytes / 256).clamp(256 << 10, 8 << 20),
        }
    }

    /// Room kept for what RocksDB writes before its size is measured again: memtables being
    /// flushed, log, manifest, compaction output.
    pub(crate) fn index_headroom_bytes(&self) -> u64 {
        6 * self.memtable_bytes + (2 << 20)
    }
}

/// Refuses a kernel whose pages could hold bytes of two extents.
pub(crate) fn check_page_size(page_bytes: u64) -> Result<(), StoreError> {
    if page_bytes > ALIGN_BYTES {
        return Err(StoreError::PageSize { page_bytes, most_bytes: ALIGN_BYTES });
    }
    Ok(())
}

/// Half a segment holds at least one extent of the longest kind with its header; otherwise
/// nothing could be carried over, and a large put would waste most of a segment.
fn extent_pages(segment_bytes: u64) -> u64 {
    let half_bytes = (segment_bytes - ALIGN_BYTES) / 2;
    let pages = half_bytes.saturating_sub(MAX_HEADER_BYTES) / PAGE_BYTES;
    pages.clamp(1, MAX_EXTENT_BYTES / PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_fits_into_a_few_extents_of_any_plan() {
        for capacity_bytes in [16 << 20, 64 << 20, 1 << 30, 30 << 40] {
            for segment in [None, Some(256 << 10), Some(1 << 20), Some(1 << 30)] {
                let plan = DiskPlan::of(capacity_bytes, segment);
                let longest = plan.extent_pages * PAGE_BYTES + MAX_HEADER_BYTES + ALIGN_BYTES;
                assert!(longest <= plan.segment_bytes, "{plan:?}");
                assert!(plan.extent_pages >= 1);
            }
        }
    }

    #[test]
    fn kernels_with_large_pages_are_refused() {
        assert!(check_page_size(sys::page_bytes()).is_ok());
        let refused = check_page_size(65_536).unwrap_err().to_string();
        assert!(refused.contains("65536") && refused.contains("4096"), "{refused}");
    }

    #[test]
    fn large_disks_are_cut_into_segments_of_a_gibibyte() {
        let plan = DiskPlan::of(30 << 40, None);
        assert_eq!(plan.segment_bytes, 1 << 30);
        assert_eq!(plan.extent_pages * PAGE_BYTES, MAX_EXTENT_BYTES);
        assert_eq!(DiskPlan::of(64 << 20, None).segment_bytes, 8 << 20);
    }
}
