//! Rules that say which request goes wrong, and how.
//!
//! A fault is *armed* when a rule picks a request and has *fired* once its effect was on the
//! wire: a cut at byte 1,000,000 of a 10-byte body never fires. Only what fired counts, as
//! evidence and against `times`, so a test cannot pass on a fault that did not happen.

use std::sync::Arc;

use forebay_rt::{Rng, SeededRng};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::log::Entry;
use super::op::{Call, Op};

/// Most rules at a time.
pub const MAX_RULES: usize = 256;

/// What goes wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// Answers this S3 error instead.
    Status {
        /// The status, such as 503.
        status: u16,
        /// The S3 code, such as `SlowDown`.
        code: String,
    },
    /// Resets the connection instead of answering.
    ResetBeforeHead,
    /// Waits this long before the request is looked at.
    Delay {
        /// How long.
        ms: u64,
    },
    /// Says nothing until the client goes away.
    HangBeforeHead,
    /// Sends this much of the body, then nothing until the client goes away.
    Hang {
        /// How much.
        after_bytes: u64,
    },
    /// Sends this much of the body, then closes in good order.
    Truncate {
        /// How much.
        after_bytes: u64,
    },
    /// Sends this much of the body, then resets the connection.
    Reset {
        /// How much.
        after_bytes: u64,
    },
    /// Sends this many bytes after the end of the body, then closes.
    ExtraBytes {
        /// How many.
        bytes: u64,
    },
    /// Declares a Content-Length that is wrong by this much; sends the true body, then closes.
    WrongContentLength {
        /// What is added to the true length.
        delta: i64,
    },
    /// Answers a ranged read with 200 and the whole object.
    WholeInsteadOfRange,
    /// Declares a Content-Range that begins and ends this much later than what is sent.
    WrongContentRange {
        /// How much later.
        shift_bytes: u64,
    },
    /// Sends the right bytes under a strong ETag that no version has.
    WrongEtag,
    /// Sends no ETag.
    MissingEtag,
    /// Sends the ETag as a weak one.
    WeakEtag,
    /// Overwrites the object just before this request is answered.
    Overwrite,
    /// Answers as if there were no If-Match.
    IgnoreIfMatch,
    /// Sends the body at this rate.
    SlowDrip {
        /// The rate.
        bytes_per_second: u64,
    },
    /// Flips the lowest bit of one byte of the body, under the right ETag and length.
    FlipBit {
        /// Which byte of the body.
        at_byte: u64,
    },
}

/// Which requests a fault meets.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    /// What the evidence is filed under.
    pub name: String,
    /// What goes wrong.
    pub fault: Fault,
    /// The operations; empty for all.
    #[serde(default)]
    pub ops: Vec<Op>,
    /// What the key begins with.
    #[serde(default)]
    pub key_prefix: String,
    /// Matching requests that are let pass first.
    #[serde(default)]
    pub skip: u64,
    /// Every how many of the matching requests after those.
    #[serde(default = "one")]
    pub every: u64,
    /// How often it may fire; `None` for ever.
    #[serde(default)]
    pub times: Option<u64>,
    /// With which chance it is armed when its turn has come.
    #[serde(default = "certain")]
    pub chance: f64,
}

/// How often a rule was met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The rule.
    pub name: String,
    /// Requests that it matched.
    pub matched: u64,
    /// Faults whose effect was on the wire.
    pub fired: u64,
}

const fn one() -> u64 {
    1
}

const fn certain() -> f64 {
    1.0
}

impl FaultRule {
    /// Meets every GET of an object.
    pub fn new(name: &str, fault: Fault) -> Self {
        Self {
            name: name.into(),
            fault,
            ops: vec![Op::GetObject],
            key_prefix: String::new(),
            skip: 0,
            every: one(),
            times: None,
            chance: certain(),
        }
    }

    /// Meets these operations instead.
    pub fn on(mut self, ops: &[Op]) -> Self {
        self.ops = ops.to_vec();
        self
    }

    /// Meets only keys that begin like this.
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.key_prefix = prefix.into();
        self
    }

    /// Meets only the `nth` matching request, counted from 1.
    pub fn nth(self, nth: u64) -> Self {
        Self { skip: nth.saturating_sub(1), times: Some(1), ..self }
    }

    /// Fires at most this often.
    pub fn times(self, times: u64) -> Self {
        Self { times: Some(times), ..self }
    }

    /// Meets every `every`-th matching request.
    pub fn every(self, every: u64) -> Self {
        Self { every: every.max(1), skip: every.saturating_sub(1), ..self }
    }

    /// Meets a matching request with this chance.
    pub fn chance(self, chance: f64) -> Self {
        Self { chance, ..self }
    }

    fn matches(&self, call: &Call) -> bool {
        (self.ops.is_empty() || self.ops.contains(&call.op))
            && call.key.starts_with(&self.key_prefix)
    }
}

/// The rules in force.
#[derive(Debug)]
pub(super) struct Faults {
    rules: Mutex<Vec<RuleState>>,
    rng: SeededRng,
}

#[derive(Debug)]
struct RuleState {
    rule: FaultRule,
    matched: u64,
    fired: u64,
    armed: u64,
}

/// A fault that waits for its effect. Dropped without one, it gives its turn back.
#[derive(Debug)]
pub(super) struct Armed {
    faults: Arc<Faults>,
    name: String,
    fault: Fault,
    entry: Option<Arc<Entry>>,
    has_fired: bool,
}

impl Faults {
    pub(super) fn new(seed: u64) -> Self {
        Self { rules: Mutex::new(Vec::new()), rng: SeededRng::new(seed) }
    }

    /// Adds a rule, or replaces the one of that name and its counts. False when full.
    pub(super) fn add(&self, rule: FaultRule) -> bool {
        let mut rules = self.rules.lock();
        rules.retain(|state| state.rule.name != rule.name);
        let fits = rules.len() < MAX_RULES;
        if fits {
            rules.push(RuleState { rule, matched: 0, fired: 0, armed: 0 });
        }
        fits
    }

    pub(super) fn clear(&self) {
        self.rules.lock().clear();
    }

    pub(super) fn evidence(&self) -> Vec<Evidence> {
        let count = |state: &RuleState| Evidence {
            name: state.rule.name.clone(),
            matched: state.matched,
            fired: state.fired,
        };
        self.rules.lock().iter().map(count).collect()
    }

    /// The first rule whose turn this request is. Every rule that matches counts it. What
    /// fires is noted in `entry`.
    pub(super) fn arm(self: &Arc<Self>, call: &Call, entry: Option<&Arc<Entry>>) -> Option<Armed> {
        let mut armed = None;
        for state in self.rules.lock().iter_mut().filter(|state| state.rule.matches(call)) {
            state.matched += 1;
            if armed.is_none() && state.is_due(&self.rng) {
                state.armed += 1;
                armed = Some((state.rule.name.clone(), state.rule.fault.clone()));
            }
        }
        let (name, fault) = armed?;
        let entry = entry.cloned();
        Some(Armed { faults: Arc::clone(self), name, fault, entry, has_fired: false })
    }

    fn settle(&self, name: &str, has_fired: bool) {
        let mut rules = self.rules.lock();
        if let Some(state) = rules.iter_mut().find(|state| state.rule.name == name) {
            state.armed = state.armed.saturating_sub(1);
            state.fired += u64::from(has_fired);
        }
    }
}

impl RuleState {
    fn is_due(&self, rng: &dyn Rng) -> bool {
        let FaultRule { skip, every, times, chance, .. } = self.rule;
        self.matched > skip
            && (self.matched - skip - 1).is_multiple_of(every.max(1))
            && times.is_none_or(|times| self.fired + self.armed < times)
            && (chance >= 1.0 || rng.unit() < chance)
    }
}

impl Armed {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn fault(&self) -> &Fault {
        &self.fault
    }

    /// The effect is about to be on the wire: counted before the client can see it.
    pub(super) fn fired(&mut self) {
        if !self.has_fired {
            self.has_fired = true;
            self.faults.settle(&self.name, true);
            if let Some(entry) = &self.entry {
                entry.fault(&self.name);
            }
        }
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        if !self.has_fired {
            self.faults.settle(&self.name, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::op::Query;
    use super::*;

    fn get(key: &str) -> Call {
        Call { op: Op::GetObject, bucket: "b".into(), key: key.into(), query: Query::default() }
    }

    fn fire_pattern(rule: FaultRule, requests: usize) -> Vec<usize> {
        let faults = Arc::new(Faults::new(7));
        faults.add(rule);
        (1..=requests)
            .filter(|_| {
                faults.arm(&get("k"), None).is_some_and(|mut armed| {
                    armed.fired();
                    true
                })
            })
            .collect()
    }

    #[test]
    fn rules_choose_by_number_interval_and_count() {
        let rule = || FaultRule::new("r", Fault::ResetBeforeHead);
        assert_eq!(fire_pattern(rule().nth(3), 10), [3]);
        assert_eq!(fire_pattern(rule().every(4), 12), [4, 8, 12]);
        assert_eq!(fire_pattern(rule().times(2), 10), [1, 2]);
        assert_eq!(fire_pattern(rule().prefix("other"), 10), [0; 0]);
        assert_eq!(fire_pattern(rule().on(&[Op::PutObject]), 10), [0; 0]);
    }

    #[test]
    fn the_same_seed_gives_the_same_faults() {
        let rule = || FaultRule::new("r", Fault::ResetBeforeHead).chance(0.1);
        let fired = fire_pattern(rule(), 1000);
        assert_eq!(fired, fire_pattern(rule(), 1000));
        assert!((60..140).contains(&fired.len()), "{}", fired.len());
    }

    #[test]
    fn a_fault_without_effect_is_no_evidence_and_keeps_its_turn() {
        let faults = Arc::new(Faults::new(7));
        faults.add(FaultRule::new("r", Fault::Truncate { after_bytes: 9 }).times(1));
        drop(faults.arm(&get("k"), None).unwrap());
        assert_eq!(faults.evidence()[0].fired, 0);
        faults.arm(&get("k"), None).unwrap().fired();
        assert!(faults.arm(&get("k"), None).is_none());
        assert_eq!(faults.evidence(), [Evidence { name: "r".into(), matched: 3, fired: 1 }]);
    }
}
