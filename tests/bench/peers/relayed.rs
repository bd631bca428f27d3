//! What a hit costs that the worker beside the client has to fetch from another one, beside a hit
//! that it has itself: three workers, the CPU time of all of them, signed.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use forebay_bench::{
    Case, NamedEndpoint, Object, Order, Pace, Plan, Read, Row, Target, Workload, machine,
};
use forebay_rt::{Clock, SystemClock};
use forebay_testkit::{AccessKey, PatternSet, Reader};
use forebay_tests::{BUCKET, CLIENT, ClusterSetup, ClusterWorld};

use crate::compare_aloud;

/// Through this worker everything is read.
const GATEWAY: usize = 0;
/// Enough for each worker to own some.
const OBJECTS: u64 = 24;
const CACHED_LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// Both kinds of each load; the local ones are what the relayed ones are compared with.
pub(crate) async fn measure(pace: Pace) -> Result<Vec<Row>> {
    let large = PatternSet::new(BUCKET, "large-", OBJECTS, 8 << 20);
    let small = PatternSet::new(BUCKET, "small-", OBJECTS, 100 << 10);
    let mut world = ClusterWorld::start(ClusterSetup::default(), &[&large, &small]).await?;
    let target = gateway(&mut world)?;
    let mut rows = Vec::new();
    for (set, connections, read_bytes) in
        [(&large, 16, 8 << 20), (&small, 64, 100 << 10), (&small, 64, 4 << 10)]
    {
        let workload = Workload::ranges("relay", connections, read_bytes);
        let [local, relayed] = owned_here_and_elsewhere(&world, set).await?;
        let case = |objects, label| {
            let plan = Plan::new(objects, Read::Range(read_bytes), Order::Random);
            Case::new(target.clone(), plan, workload.clone()).labelled(label)
        };
        let cases = [case(local, "local hit"), case(relayed, "relayed hit")];
        let work = move || compare_aloud(&cases, pace);
        rows.extend(forebay_rt::spawn_blocking(work).await??);
    }
    Ok(rows)
}

/// The first worker, with the CPU time of all of them.
fn gateway(world: &mut ClusterWorld) -> Result<Target> {
    let url = world.cluster.workers[GATEWAY].endpoint();
    let endpoint: NamedEndpoint = format!("forebay={url}").parse()?;
    let mut pids = Vec::new();
    for worker in &mut world.cluster.workers {
        let pid = worker.process()?.pid();
        pids.extend(machine::process_tree(pid).context("find a worker's processes")?);
    }
    let key = AccessKey::new(CLIENT.0, CLIENT.1);
    Ok(Target::new(&endpoint, BUCKET).signed_by(key, "us-east-1").with_pids(pids))
}

async fn owned_here_and_elsewhere(
    world: &ClusterWorld,
    set: &PatternSet,
) -> Result<[Vec<Object>; 2]> {
    let reader = world.reader(GATEWAY)?;
    let mut owned = [Vec::new(), Vec::new()];
    for index in 0..set.count {
        let object = Object::new(&set.key(index), set.size_bytes(index));
        let is_relayed = source(&reader, &object.key).await? == "peer";
        owned[usize::from(is_relayed)].push(object);
    }
    if owned.iter().any(Vec::is_empty) {
        bail!("one worker owns all objects, or none");
    }
    Ok(owned)
}

/// Where an object comes from once it is cached: the first read may still be on its way to a disk.
async fn source(reader: &Reader, key: &str) -> Result<String> {
    for _ in 0..CACHED_LIMIT.as_millis() / POLL.as_millis() {
        let answer = reader.get(BUCKET, key, None).await?;
        let source = answer.header("x-forebay-cache").context("no x-forebay-cache")?.to_owned();
        answer.success().await?;
        if source != "miss" {
            return Ok(source);
        }
        SystemClock.sleep(POLL).await;
    }
    bail!("{key} is still not cached after {CACHED_LIMIT:?}")
}
