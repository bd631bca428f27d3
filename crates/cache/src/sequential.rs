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
    /// Where what was fetched ahead ends.
    ahead_end: u64,
}

/// How far to run ahead of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AheadOf {
    /// What lies before was fetched ahead of an earlier read already.
    pub(crate) from: u64,
    /// One past the last byte worth fetching; the end of the read itself where nothing is.
    pub(crate) end: u64,
}

impl Sequential {
    pub(crate) fn new() -> Self {
        Self(Cache::new(SEQUENTIAL_OBJECTS))
    }

    /// Notes a read, and returns what behind it is worth fetching now: nothing until the walk is
    /// established, then twice as much with each step, up to `window_blocks`.
    pub(crate) fn note(&self, id: &ObjectId, read: ByteRange, window_blocks: u64) -> AheadOf {
        let before = self.0.get(id).filter(|walk| walk.next == read.start());
        let streak = before.map_or(0, |walk| walk.streak.saturating_add(1));
        let bytes = match streak.checked_sub(STREAK_BEFORE_AHEAD) {
            None => 0,
            Some(doublings) => read.len().saturating_mul(1 << doublings.min(20)),
        };
        let bytes = bytes.min(window_blocks.saturating_mul(BLOCK_BYTES));
        let end = read.end().saturating_add(bytes).min(id.size());
        let from = before.map_or(0, |walk| walk.ahead_end);
        self.0.insert(id.clone(), Walk { next: read.end(), streak, ahead_end: end.max(from) });
        AheadOf { from, end }
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
        let ahead_mib = |n| (walks.note(&id, step(n), 1).end >> 20) - (n + 1);
        assert_eq!([0, 1, 2, 3, 4, 5].map(ahead_mib), [0, 0, 1, 2, 4, 8]);
        assert_eq!(ahead_mib(6), BLOCK_BYTES >> 20, "never past the window");
        assert_eq!(ahead_mib(50), 0);
    }

    #[test]
    fn each_byte_is_fetched_ahead_of_one_step_alone() {
        let (walks, id) = (Sequential::new(), object());
        let step = |n: u64| ByteRange::new(n << 20, (n + 1) << 20).unwrap();
        let mut fetched = 0;
        for n in 0..20 {
            let AheadOf { from, end } = walks.note(&id, step(n), 1);
            assert!(from >= fetched, "{from} was fetched already");
            fetched = end;
        }
        assert_eq!(walks.note(&id, step(50), 1).from, 0, "a new walk");
    }
}
