//! What a reader may get, given what was written, acknowledged and when.

use std::time::Duration;

use forebay_types::Freshness;
use parking_lot::Mutex;

use super::Got;
use super::origin::SharedOrigin;

/// Acknowledged writes: key, version, when.
#[derive(Default)]
pub struct Acknowledged(Mutex<Vec<(String, u64, Duration)>>);

impl Acknowledged {
    pub fn note(&self, key: &str, version: u64, at: Duration) {
        self.0.lock().push((key.into(), version, at));
    }

    /// The newest version of a key whose write was acknowledged before `start`.
    fn newest_before(&self, key: &str, start: Duration) -> u64 {
        let writes = self.0.lock();
        let before = writes.iter().filter(|(of, _, at)| of == key && *at < start);
        before.map(|(_, version, _)| *version).max().unwrap_or(0)
    }
}

/// A read, and what came of it.
pub struct Observed<'a> {
    pub key: &'a str,
    pub freshness: Freshness,
    pub start: Duration,
    /// Whether the worker lived, and reached the origin for a good while before and all along.
    pub had_origin: bool,
}

impl Observed<'_> {
    /// What is wrong with it, if anything.
    pub fn judge(&self, got: &Got, origin: &SharedOrigin, acked: &Acknowledged) -> Option<String> {
        match got {
            Got::Version(version, _) => self.judge_version(*version, origin, acked),
            Got::Absent => self.judge_absence(origin, acked),
            Got::Wrong(what) => Some(format!("WRONG BYTES: {what}")),
            Got::Moved => {
                let changed = self.changed_lately(origin);
                (!changed).then(|| "moved, and nothing changed".to_owned())
            }
            Got::Failed(why) => self.had_origin.then(|| format!("failed: {why}")),
            Got::Died => None,
        }
    }

    fn judge_version(
        &self,
        version: u64,
        origin: &SharedOrigin,
        acked: &Acknowledged,
    ) -> Option<String> {
        if self.freshness == Freshness::Immutable {
            return None;
        }
        let newest = acked.newest_before(self.key, self.start);
        if version < newest {
            return Some(format!(
                "STALE: v{version} after the write of v{newest} was acknowledged"
            ));
        }
        self.is_outdated(version, origin).then(|| format!("v{version} is older than promised"))
    }

    /// A 404 is a version as others are: it may have been replaced, but not too long ago. Under
    /// immutable it is none that stands for ever: it is given for some seconds at most.
    fn judge_absence(&self, origin: &SharedOrigin, acked: &Acknowledged) -> Option<String> {
        let newest = acked.newest_before(self.key, self.start);
        let mut absences = origin.absences(self.key);
        absences.retain(|absence| *absence >= newest && !self.is_outdated(*absence, origin));
        absences.is_empty().then(|| format!("STALE: 404, and v{newest} was acknowledged"))
    }

    fn is_outdated(&self, version: u64, origin: &SharedOrigin) -> bool {
        let oldest = match self.freshness {
            Freshness::Strict => self.start,
            Freshness::Bounded(bound) => self.start.saturating_sub(bound),
            Freshness::Immutable => self.start.saturating_sub(Duration::from_secs(5)),
        };
        origin.replaced(self.key, version).is_some_and(|change| change.at < oldest)
    }

    fn changed_lately(&self, origin: &SharedOrigin) -> bool {
        let bound = match self.freshness {
            Freshness::Strict => Duration::ZERO,
            Freshness::Bounded(bound) => bound,
            Freshness::Immutable => return origin.present(self.key) > 1,
        };
        let present = origin.present(self.key);
        let last = present.checked_sub(1).and_then(|before| origin.replaced(self.key, before));
        last.is_some_and(|change| change.at + bound >= self.start)
    }
}
