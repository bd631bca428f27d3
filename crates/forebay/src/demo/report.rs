//! What the demo found, whether it is what was promised, and how it is printed.

use std::fmt::Write;

use serde::Serialize;

use super::pass::Pass;
use crate::output::human_bytes;

/// Origin bytes of the first epoch may differ from the set by this share: a page more here
/// and there.
const FIRST_EPOCH_TOLERANCE: f64 = 0.01;
const FIRST_HIT_LIMIT_S: f64 = 10.0;

/// The whole run.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Report {
    /// From the start of the demo to the first verified object that the origin was not asked for.
    pub(super) first_hit_s: f64,
    pub(super) total_s: f64,
    pub(super) set_bytes: u64,
    pub(super) objects: u64,
    pub(super) shards: u64,
    pub(super) direct: Direct,
    pub(super) epochs: Vec<Epoch>,
    /// Whether every promise was kept.
    pub(super) ok: bool,
    /// The promises that were not.
    pub(super) broken: Vec<String>,
}

/// A sample read straight from the origin.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Direct {
    pub(super) bytes: u64,
    pub(super) gb_per_s: f64,
    pub(super) failed: u64,
    pub(super) wrong: u64,
}

/// One pass over the set through Forebay.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Epoch {
    pub(super) epoch: u64,
    pub(super) bytes: u64,
    pub(super) origin_requests: u64,
    pub(super) origin_bytes: u64,
    pub(super) hit_bytes_ratio: f64,
    pub(super) gb_per_s: f64,
    pub(super) failed: u64,
    pub(super) wrong: u64,
    /// Small objects for which the origin was asked more than once.
    pub(super) small_asked_again: u64,
    /// What the worker held that was killed in this epoch; `None` where none was.
    pub(super) held_by_dead_bytes: Option<u64>,
}

impl Report {
    /// Holds what was found against what is promised.
    pub(super) fn judged(mut self) -> Self {
        let mut broken = Vec::new();
        let mut promise = |kept: bool, text: String| {
            if !kept {
                broken.push(text);
            }
        };
        promise(
            self.first_hit_s <= FIRST_HIT_LIMIT_S,
            format!("first hit within {FIRST_HIT_LIMIT_S} s: took {:.1} s", self.first_hit_s),
        );
        promise(
            self.direct.is_clean(),
            format!("direct: {}", damage(self.direct.failed, self.direct.wrong)),
        );
        for epoch in &self.epochs {
            let of = format!("epoch {}", epoch.epoch);
            promise(epoch.is_clean(), format!("{of}: {}", damage(epoch.failed, epoch.wrong)));
            promise(
                epoch.bytes == self.set_bytes,
                format!("{of}: {} of {} bytes read", epoch.bytes, self.set_bytes),
            );
            if epoch.epoch == 1 {
                promise(
                    self.is_the_set(epoch.origin_bytes),
                    format!(
                        "{of}: origin bytes within 1 % of the set: {} of {}",
                        epoch.origin_bytes, self.set_bytes
                    ),
                );
                promise(
                    epoch.small_asked_again == 0,
                    format!(
                        "{of}: one origin request per small object: {} asked again",
                        epoch.small_asked_again
                    ),
                );
            } else if let Some(held_bytes) = epoch.held_by_dead_bytes {
                promise(
                    epoch.origin_bytes <= held_bytes,
                    format!(
                        "{of}: no more than the dead worker held: {} of {held_bytes} bytes",
                        epoch.origin_bytes
                    ),
                );
            } else {
                promise(
                    epoch.origin_requests == 0,
                    format!("{of}: no origin request: {} made", epoch.origin_requests),
                );
            }
        }
        self.ok = broken.is_empty();
        self.broken = broken;
        self
    }

    fn is_the_set(&self, origin_bytes: u64) -> bool {
        origin_bytes.abs_diff(self.set_bytes) as f64
            <= self.set_bytes as f64 * FIRST_EPOCH_TOLERANCE
    }

    /// The report for people.
    pub(super) fn table(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.render(&mut text);
        text
    }

    fn render(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "{:<9} {:>10} {:>12} {:>12} {:>10} {:>7} {:>7} {:>6}",
            "", "bytes", "origin reqs", "origin bytes", "hit bytes", "GB/s", "failed", "wrong"
        )?;
        let Direct { bytes, gb_per_s, failed, wrong } = self.direct;
        writeln!(
            out,
            "{:<9} {:>10} {:>12} {:>12} {:>10} {gb_per_s:>7.2} {failed:>7} {wrong:>6}",
            "direct",
            human_bytes(bytes),
            "-",
            "-",
            "-"
        )?;
        for epoch in &self.epochs {
            writeln!(
                out,
                "{:<9} {:>10} {:>12} {:>12} {:>9.1}% {:>7.2} {:>7} {:>6}",
                format!("epoch {}", epoch.epoch),
                human_bytes(epoch.bytes),
                epoch.origin_requests,
                human_bytes(epoch.origin_bytes),
                epoch.hit_bytes_ratio * 100.0,
                epoch.gb_per_s,
                epoch.failed,
                epoch.wrong
            )?;
        }
        writeln!(
            out,
            "\nfirst hit after {:.1} s, all done after {:.1} s; 3 voters, 3 workers",
            self.first_hit_s, self.total_s
        )?;
        for (epoch, held) in
            self.epochs.iter().filter_map(|e| Some((e.epoch, e.held_by_dead_bytes?)))
        {
            writeln!(
                out,
                "in epoch {epoch} a worker that held {} was killed with -9 and came back",
                human_bytes(held)
            )?;
        }
        match self.broken.as_slice() {
            [] => writeln!(out, "OK: every byte checked, every promise kept"),
            broken => broken.iter().try_for_each(|promise| writeln!(out, "BROKEN: {promise}")),
        }
    }
}

impl Direct {
    pub(super) fn of(pass: &Pass) -> Self {
        let Pass { tally, gb_per_s } = pass;
        Self { bytes: tally.bytes, gb_per_s: *gb_per_s, failed: tally.failed, wrong: tally.wrong }
    }

    fn is_clean(&self) -> bool {
        self.failed == 0 && self.wrong == 0
    }
}

impl Epoch {
    fn is_clean(&self) -> bool {
        self.failed == 0 && self.wrong == 0
    }
}

fn damage(failed: u64, wrong: u64) -> String {
    format!("every read succeeds with the right bytes: {failed} failed, {wrong} wrong")
}

/// The share of `bytes` that the origin did not send.
pub(super) fn hit_ratio(bytes: u64, origin_bytes: u64) -> f64 {
    1.0 - origin_bytes.min(bytes) as f64 / bytes.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(epoch: u64, origin_requests: u64, origin_bytes: u64) -> Epoch {
        Epoch {
            epoch,
            bytes: 1000,
            origin_requests,
            origin_bytes,
            hit_bytes_ratio: hit_ratio(1000, origin_bytes),
            gb_per_s: 1.0,
            failed: 0,
            wrong: 0,
            small_asked_again: 0,
            held_by_dead_bytes: None,
        }
    }

    fn good() -> Report {
        Report {
            first_hit_s: 1.0,
            total_s: 30.0,
            set_bytes: 1000,
            objects: 1,
            shards: 0,
            direct: Direct { bytes: 100, gb_per_s: 0.1, failed: 0, wrong: 0 },
            epochs: vec![
                epoch(1, 10, 1009),
                epoch(2, 0, 0),
                Epoch { held_by_dead_bytes: Some(300), ..epoch(3, 4, 299) },
            ],
            ok: false,
            broken: Vec::new(),
        }
    }

    #[test]
    fn a_run_that_keeps_every_promise_is_ok() {
        let report = good().judged();
        assert!(report.ok, "{:?}", report.broken);
        assert!(report.table().contains("OK: every byte checked"));
    }

    #[test]
    fn each_broken_promise_is_named() {
        type Damage = fn(&mut Report);
        let cases: [(Damage, &str); 9] = [
            (|r| r.first_hit_s = 11.0, "first hit"),
            (|r| r.direct.wrong = 1, "direct"),
            (|r| r.epochs[0].failed = 1, "epoch 1: every read"),
            (|r| r.epochs[0].origin_bytes = 1011, "within 1 %"),
            (|r| r.epochs[0].origin_bytes = 989, "within 1 %"),
            (|r| r.epochs[0].small_asked_again = 1, "one origin request"),
            (|r| r.epochs[1].origin_requests = 1, "epoch 2: no origin request"),
            (|r| r.epochs[2].origin_bytes = 301, "epoch 3: no more than the dead worker held"),
            (|r| r.epochs[1].bytes = 999, "epoch 2: 999 of 1000"),
        ];
        for (damage, text) in cases {
            let mut report = good();
            damage(&mut report);
            let report = report.judged();
            assert!(!report.ok && report.broken.len() == 1, "{text}: {:?}", report.broken);
            assert!(report.broken[0].contains(text), "{:?}", report.broken);
            assert!(report.table().contains("BROKEN: "));
        }
    }

    #[test]
    fn the_json_has_the_promised_fields() {
        let json = serde_json::to_value(good().judged()).unwrap();
        assert!(json["first_hit_s"].is_number() && json["direct"]["gb_per_s"].is_number());
        for field in [
            "bytes",
            "origin_requests",
            "origin_bytes",
            "hit_bytes_ratio",
            "gb_per_s",
            "failed",
            "wrong",
        ] {
            assert!(json["epochs"][2][field].is_number(), "{field}");
        }
    }
}
