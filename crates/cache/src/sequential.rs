//! Sees that a reader walks through an object range by range, and says how far to run ahead.

use forebay_types::{BLOCK_BYTES, ByteRange, ObjectId};
use quick_cache::sync::Cache;

use crate::limits::SEQUENTIAL_OBJECTS;

/// Reads in a row before anything is fetched that nobody asked for.
const STREAK_BEFORE_AHEAD: u32 = 2;

/// Remembers where the last read of each object ended.
pub(crate) struct Sequential(Cache<ObjectId, Walk>);

#[derive(Clone, Copy)]
struct Walk {
    next: u64,
    streak: u32,
}

impl Sequential {
    pub(crate) fn new() -> Self {
        Self(Cache::new(SEQUENTIAL_OBJECTS))
    }

    /// Notes a read, and returns how many bytes behind it are worth fetching now: none until
    /// the walk is established, then twice as many with each step, up to `window_blocks`.
    pub(crate) fn note(&self, id: &ObjectId, read: ByteRange, window_blocks: u64) -> u64 {
        let streak = match self.0.get(id) {
            Some(walk) if walk.next == read.start() => walk.streak.saturating_add(1),
            _ => 0,
        };
        self.0.insert(id.clone(), Walk { next: read.end(), streak });
        let Some(doublings) = streak.checked_sub(STREAK_BEFORE_AHEAD) else { return 0 };
        let ahead = read.len().saturating_mul(1 << doublings.min(20));
        ahead.min(window_blocks.saturating_mul(BLOCK_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::{BucketName, ETag, ObjectKey, RuleId, Stamp};

    fn object() -> ObjectId {
        let stamp = Stamp {
            etag: ETag::new("\"e\""),
            size: 1 << 40,
            last_modified: "x".into(),
            version_id: None,
        };
        let bucket = BucketName::new("b").unwrap();
        ObjectId::new(RuleId(1), bucket, ObjectKey::new("k").unwrap(), stamp)
    }

    #[test]
    fn a_walk_is_followed_with_growing_steps_and_a_jump_ends_it() {
        let (walks, id) = (Sequential::new(), object());
        let step = |n: u64| ByteRange::new(n << 20, (n + 1) << 20).unwrap();
        let ahead: Vec<u64> = (0..6).map(|n| walks.note(&id, step(n), 1) >> 20).collect();
        assert_eq!(ahead, [0, 0, 1, 2, 4, 8]);
        assert_eq!(walks.note(&id, step(6), 1), BLOCK_BYTES, "never past the window");
        assert_eq!(walks.note(&id, step(50), 1), 0);
    }
}
