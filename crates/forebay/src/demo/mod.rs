//! `forebay demo`: an origin that is far away, a cluster in front of it, three epochs.
//!
//! Counts come from the origin, bytes are checked against the pattern that made them: the
//! workers are never asked how well they did.

mod counts;
mod dataset;
mod incident;
mod pass;
mod place;
mod progress;
mod report;
mod world;

use std::pin::pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use forebay_rt::{Clock, SystemClock};
use forebay_testkit::reader::{AnyOf, UpTo};

use crate::cli::DemoArgs;
use crate::output::{complain, human_bytes, say};
use crate::signals;
use counts::OriginCounts;
use dataset::{BUCKET, Dataset};
use pass::Pass;
use report::{Direct, Epoch, Report, hit_ratio};
use world::World;

const EPOCHS: u64 = 3;
/// In this one a worker is killed, and comes back.
const KILL_IN_EPOCH: u64 = 3;
const SMALL_PREFIX: &str = "images/";

const FIRST_HIT_LIMIT: Duration = Duration::from_secs(10);
const FIRST_HIT_PAUSE: Duration = Duration::from_millis(5);

/// Runs the demo; Ctrl-C ends it at any time, and everything that it started.
pub(crate) async fn run(args: DemoArgs) -> anyhow::Result<ExitCode> {
    let mut stopped = pin!(signals::stop()?);
    let (world, report) = tokio::select! {
        shown = show(&args) => shown?,
        () = &mut stopped => bail!("stopped: run `forebay demo` again to see it to the end"),
    };
    invite(&world, &args);
    if args.keep {
        stopped.await;
    }
    Ok(if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn show(args: &DemoArgs) -> anyhow::Result<(World, Report)> {
    let begun = SystemClock.now();
    let dataset = Dataset::new(args);
    let mut world = World::start(args.dir.as_deref(), &dataset).await?;
    introduce(&dataset);
    let report = measure(&mut world, &dataset, begun).await?;
    if args.json {
        say(&serde_json::to_string(&report).context("print the report")?);
    } else {
        say(&format!("\n{}", report.table()));
    }
    Ok((world, report))
}

async fn measure(world: &mut World, dataset: &Dataset, begun: Instant) -> anyhow::Result<Report> {
    let first_hit_s = first_hit(world, dataset, begun).await?;
    let opening = world.counts().await?;
    let direct = AnyOf::new(vec![world.origin()?]);
    let direct = pass::run("direct", &direct, dataset.sample()).await;
    let mut epochs = Vec::new();
    for epoch in 1..=EPOCHS {
        // The first object was fetched before; its request belongs to the first epoch.
        let before = if epoch == 1 { opening.clone() } else { OriginCounts::default() };
        epochs.push(read_epoch(world, dataset, epoch, &before).await?);
    }
    let set = dataset.epoch(1);
    let report = Report {
        first_hit_s,
        total_s: seconds_since(begun),
        set_bytes: set.bytes(),
        objects: set.small.len() as u64,
        shards: set.shards.len() as u64,
        direct: Direct::of(&direct),
        epochs,
        ok: false,
        broken: Vec::new(),
    };
    Ok(report.judged())
}

/// Reads one object until the answer says that it came from the cache.
async fn first_hit(world: &World, dataset: &Dataset, begun: Instant) -> anyhow::Result<f64> {
    let (reader, item) = (world.forebay()?, dataset.first());
    let asked = SystemClock.now();
    loop {
        let read = reader.verify_get(0, (BUCKET, &item.key), None, &UpTo(1)).await;
        let read = read.with_context(|| format!("read {} through Forebay", item.key))?;
        if matches!(read.cache.as_deref(), Some("hit" | "peer")) {
            return Ok(seconds_since(begun));
        }
        if SystemClock.now().saturating_duration_since(asked) > FIRST_HIT_LIMIT {
            bail!(
                "{} is still no hit after {} s: see the workers' logs",
                item.key,
                FIRST_HIT_LIMIT.as_secs()
            );
        }
        SystemClock.sleep(FIRST_HIT_PAUSE).await;
    }
}

async fn read_epoch(
    world: &mut World,
    dataset: &Dataset,
    epoch: u64,
    before: &OriginCounts,
) -> anyhow::Result<Epoch> {
    let start = world.counts().await?;
    let (name, reading) = (format!("epoch {epoch}"), dataset.epoch(epoch));
    let (pass, held_by_dead_bytes) = if epoch == KILL_IN_EPOCH {
        let (pass, held_bytes) = incident::run(&name, world, reading).await?;
        (pass, Some(held_bytes))
    } else {
        (pass::run(&name, &world.forebay()?, reading).await, None)
    };
    let Pass { tally, gb_per_s } = pass;
    let origin = world.counts().await?.since(&start).plus(before);
    Ok(Epoch {
        epoch,
        bytes: tally.bytes,
        origin_requests: origin.requests,
        origin_bytes: origin.bytes,
        hit_bytes_ratio: hit_ratio(tally.bytes, origin.bytes),
        gb_per_s,
        failed: tally.failed,
        wrong: tally.wrong,
        small_asked_again: origin.asked_again(SMALL_PREFIX),
        held_by_dead_bytes,
    })
}

fn introduce(dataset: &Dataset) {
    let set = dataset.epoch(1);
    complain(&format!(
        "origin: {} objects of about 100 KiB and {} shards, {} in all; {} ms to the first byte, {} MB/s a stream",
        set.small.len(),
        set.shards.len(),
        human_bytes(set.bytes()),
        world::FIRST_BYTE.as_millis(),
        world::STREAM_BYTES_PER_SECOND / 1_000_000,
    ));
}

/// With --json standard output holds the object and nothing else.
fn invite(world: &World, args: &DemoArgs) {
    let print = if args.json { complain } else { say };
    if args.keep {
        print(&format!("{}\nstop: Ctrl-C", world.invitation()));
    } else {
        print(&format!("with --keep it stays up to be tried by hand:\n{}", world.invitation()));
    }
}

fn seconds_since(begun: Instant) -> f64 {
    SystemClock.now().saturating_duration_since(begun).as_secs_f64()
}
