//! What the origin was asked, and what it sent.

use std::collections::BTreeMap;

use super::dataset::BUCKET;

/// Counted at the origin.
#[derive(Debug, Clone, Default)]
pub(super) struct OriginCounts {
    pub(super) requests: u64,
    pub(super) bytes: u64,
    /// Requests by key, as `bucket/key`.
    pub(super) by_key: BTreeMap<String, u64>,
}

impl OriginCounts {
    /// What was counted between `earlier` and now.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let before = |key: &String| earlier.by_key.get(key).copied().unwrap_or(0);
        let by_key = self.by_key.iter().map(|(key, now)| (key.clone(), now - before(key)));
        Self {
            requests: self.requests - earlier.requests,
            bytes: self.bytes - earlier.bytes,
            by_key: by_key.collect(),
        }
    }

    /// Both together.
    pub(super) fn plus(mut self, other: &Self) -> Self {
        self.requests += other.requests;
        self.bytes += other.bytes;
        for (key, more) in &other.by_key {
            *self.by_key.entry(key.clone()).or_default() += more;
        }
        self
    }

    /// Keys that begin with `prefix` and were asked for more than once.
    pub(super) fn asked_again(&self, prefix: &str) -> u64 {
        let prefix = format!("{BUCKET}/{prefix}");
        let again = |(key, requests): &(&String, &u64)| key.starts_with(&prefix) && **requests > 1;
        self.by_key.iter().filter(again).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(requests: u64, bytes: u64, keys: &[(&str, u64)]) -> OriginCounts {
        let by_key = keys.iter().map(|(key, count)| ((*key).to_owned(), *count)).collect();
        OriginCounts { requests, bytes, by_key }
    }

    #[test]
    fn only_what_was_counted_between_is_counted() {
        let before = counts(3, 30, &[("demo/images/1", 1), ("demo/shards/1", 2)]);
        let after =
            counts(7, 90, &[("demo/images/1", 2), ("demo/images/2", 1), ("demo/shards/1", 9)]);
        let between = after.since(&before);
        assert_eq!((between.requests, between.bytes), (4, 60));
        assert_eq!(between.asked_again("images/"), 0);
        assert_eq!(between.plus(&before).asked_again("images/"), 1);
    }
}
