//! Bucket rules as the edge needs them: which origin, how fresh, under which metric label.
//!
//! The table is swapped as a whole, so a request sees one state of it from begin to end.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_types::{BucketName, Freshness, ObjectKey, RuleId};
use parking_lot::RwLock;

use crate::keys::BucketPattern;
use crate::metrics::BucketMetrics;

/// What the operator configured for a bucket.
#[derive(Debug)]
pub struct BucketRule {
    /// The origin behind it.
    pub rule: RuleId,
    /// The bucket in metrics: its name, or what the operator calls the default rule.
    pub label: Arc<str>,
    freshness: Freshness,
    /// Longest first.
    prefixes: Vec<(String, Freshness)>,
    /// Whether the origin has refused a checksum after a body.
    refuses_trailers: AtomicBool,
    pub(crate) metrics: BucketMetrics,
}

impl BucketRule {
    /// A rule in which `prefixes` differ from `freshness`; the longest that fits a key wins.
    pub fn new(
        rule: RuleId,
        label: Arc<str>,
        freshness: Freshness,
        mut prefixes: Vec<(String, Freshness)>,
    ) -> Self {
        prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        let metrics = BucketMetrics::new(label.clone());
        Self { rule, label, freshness, prefixes, refuses_trailers: AtomicBool::new(false), metrics }
    }

    /// Whether a checksum may follow a body to the origin.
    pub(crate) fn takes_trailers(&self) -> bool {
        !self.refuses_trailers.load(Ordering::Relaxed)
    }

    /// The origin does not know what a trailer is.
    pub(crate) fn refuses_trailers(&self) {
        self.refuses_trailers.store(true, Ordering::Relaxed);
    }

    /// How long a known version of `key` may stand.
    pub fn freshness_of(&self, key: &ObjectKey) -> Freshness {
        let fits = |(prefix, _): &&(String, Freshness)| key.as_str().starts_with(prefix.as_str());
        self.prefixes.iter().find(fits).map_or(self.freshness, |(_, freshness)| *freshness)
    }
}

/// All bucket rules of a worker.
#[derive(Debug)]
pub struct BucketRules(RwLock<Arc<Table>>);

#[derive(Debug, Default)]
struct Table {
    by_name: HashMap<BucketName, Arc<BucketRule>>,
    default: Option<Arc<BucketRule>>,
}

impl BucketRules {
    /// The rules by bucket; `*` stands for every bucket without a rule of its own.
    pub fn new(rules: impl IntoIterator<Item = (BucketPattern, BucketRule)>) -> Self {
        Self(RwLock::new(Arc::new(Table::new(rules))))
    }

    /// Puts other rules in the place of these. Requests that have begun end under the old ones.
    pub fn replace(&self, rules: impl IntoIterator<Item = (BucketPattern, BucketRule)>) {
        *self.0.write() = Arc::new(Table::new(rules));
    }

    /// The rule of a bucket; `None` where the bucket does not exist for us.
    pub fn of(&self, bucket: &BucketName) -> Option<Arc<BucketRule>> {
        let table = self.0.read();
        table.by_name.get(bucket).or(table.default.as_ref()).cloned()
    }
}

impl Table {
    fn new(rules: impl IntoIterator<Item = (BucketPattern, BucketRule)>) -> Self {
        let mut table = Self::default();
        for (pattern, rule) in rules {
            match pattern {
                BucketPattern::Any => table.default = Some(Arc::new(rule)),
                BucketPattern::Exactly(name) => {
                    table.by_name.insert(name, Arc::new(rule));
                }
            }
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn rule(label: &str, prefixes: &[(&str, Freshness)]) -> BucketRule {
        let prefixes = prefixes.iter().map(|(prefix, f)| ((*prefix).to_owned(), *f)).collect();
        BucketRule::new(RuleId(1), label.into(), Freshness::Strict, prefixes)
    }

    #[test]
    fn the_longest_prefix_decides_how_fresh_a_key_is() {
        let minute = Freshness::Bounded(Duration::from_secs(60));
        let rule = rule("b", &[("data/", Freshness::Immutable), ("data/index/", minute)]);
        for (key, expected) in [
            ("data/index/0", minute),
            ("data/shard-0", Freshness::Immutable),
            ("other", Freshness::Strict),
        ] {
            assert_eq!(rule.freshness_of(&ObjectKey::new(key).unwrap()), expected, "{key}");
        }
    }

    #[test]
    fn a_bucket_without_a_rule_falls_to_the_default_if_there_is_one() {
        let (named, other) = (BucketName::new("named").unwrap(), BucketName::new("other").unwrap());
        let rules = BucketRules::new([(BucketPattern::Exactly(named.clone()), rule("named", &[]))]);
        assert_eq!(&*rules.of(&named).unwrap().label, "named");
        assert!(rules.of(&other).is_none());
        rules.replace([(BucketPattern::Any, rule("default", &[]))]);
        assert_eq!(&*rules.of(&named).unwrap().label, "default");
        assert!(rules.of(&other).is_some());
    }
}
