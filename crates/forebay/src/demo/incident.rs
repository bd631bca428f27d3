//! An epoch in which a worker is killed without warning, and comes back.

use std::sync::Arc;
use std::time::Duration;

use forebay_rt::{Clock, SystemClock};

use super::dataset::Reading;
use super::pass::{self, Pass};
use super::progress::Progress;
use super::world::World;
use crate::output::complain;

const VICTIM: usize = 1;
/// Shares of the epoch at which it dies, and is started again.
const DIES_AT: f64 = 0.2;
const RETURNS_AT: f64 = 0.6;
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Reads everything once; meanwhile a worker dies and returns. Also returns what it held.
pub(super) async fn run(
    name: &str,
    world: &mut World,
    reading: Reading,
) -> anyhow::Result<(Pass, u64)> {
    let held_bytes = world.held_bytes(VICTIM).await?;
    let progress = Arc::new(Progress::begin(name, reading.bytes()));
    let readers = world.forebay()?;
    let reading = pass::run_with(&readers, reading, progress.clone());
    let incident = async {
        until(&progress, DIES_AT).await;
        complain("kill -9 of a worker");
        world.kill(VICTIM)?;
        until(&progress, RETURNS_AT).await;
        complain("the worker is started again on the same cache directory");
        world.start_again(VICTIM).await
    };
    let (pass, incident) = tokio::join!(reading, incident);
    incident?;
    Ok((pass, held_bytes))
}

async fn until(progress: &Progress, share: f64) {
    while progress.share() < share {
        SystemClock.sleep(LOOK_EVERY).await;
    }
}
