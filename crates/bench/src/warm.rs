//! Reading a set before it is measured, until all of it is cached.

use std::time::Duration;

use crate::connection::Check;
use crate::error::BenchError;
use crate::feed::Plan;
use crate::limits::{WARM_CONNECTIONS, WARM_LIMIT, WARM_PAUSES_MS, WARM_READ_BYTES};
use crate::round::{Drive, run};
use crate::target::Target;

/// Reads every byte of the plan's objects; again while a Forebay says that something of it was no
/// hit. Others are read once. Returns whether the last pass was free of misses.
///
/// The last pass of several finds what the first one left on the way to the disk.
pub fn warm(target: &Target, plan: &Plan, check: Check) -> Result<bool, BenchError> {
    let plan = plan.each_once(WARM_READ_BYTES);
    let mut drive =
        Drive { connections: WARM_CONNECTIONS, threads: 1, duration: WARM_LIMIT, check, seed: 1 };
    for pause_ms in WARM_PAUSES_MS {
        if run(target, &plan, drive)?.tally.misses == 0 {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(pause_ms));
        drive.seed += 1;
    }
    Ok(run(target, &plan, drive)?.tally.misses == 0)
}
