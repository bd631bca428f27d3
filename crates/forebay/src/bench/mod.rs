//! `forebay bench`: what is measured and beside what. The measuring is `forebay-bench`'s.

mod keys;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use forebay_bench::{
    BenchError, Case, Check, NamedEndpoint, Object, Pace, Plan, Row, Step, Target, Workload,
    compare, disk, list, warm,
};

use crate::cli::{
    BenchCommand, BenchDiskArgs, BenchNetArgs, BenchOriginArgs, BenchReadArgs, LoadArgs, SetArgs,
};
use crate::output::complain;
use keys::Keys;
use report::Report;

/// What a worker and the origin are called that were given no name.
const WORKER: &str = "forebay";
const ORIGIN: &str = "origin";
/// Connections that share the way to a worker, and what each asks for.
const WAY_CONNECTIONS: [usize; 3] = [1, 4, 16];
const WAY_READ_BYTES: u64 = 8 << 20;

/// Measures, and prints the figures.
pub(crate) async fn run(command: BenchCommand) -> anyhow::Result<ExitCode> {
    let report = match command {
        BenchCommand::Read(args) => read(args).await?,
        BenchCommand::Origin(args) => origin(args).await?,
        BenchCommand::Disk(args) => disk(args).await?,
        BenchCommand::Net(args) => net(args).await?,
    };
    report.print()?;
    Ok(ExitCode::SUCCESS)
}

async fn read(args: BenchReadArgs) -> anyhow::Result<Report> {
    let targets = workers(args.endpoint, &args.set.bucket, &args.load)?;
    let targets = with_pids(targets, &args.load)?;
    let warmed = if args.no_warm { Vec::new() } else { targets.clone() };
    let rows = all_workloads(targets, warmed, &args.set, &args.load).await?;
    Ok(Report::new("read", rows, &args.load))
}

async fn origin(args: BenchOriginArgs) -> anyhow::Result<Report> {
    let workers = workers(args.endpoint, &args.set.bucket, &args.load)?;
    let keys = Keys::of_the_origin(&args.load)?;
    let origin = keys.sign(Target::new(&args.origin.or_named(ORIGIN), &args.set.bucket));
    let targets: Vec<_> = std::iter::once(origin).chain(workers.clone()).collect();
    let targets = with_pids(targets, &args.load)?;
    let warmed = if args.no_warm { Vec::new() } else { workers };
    let rows = all_workloads(targets, warmed, &args.set, &args.load).await?;
    Ok(Report::new("origin", rows, &args.load))
}

async fn disk(args: BenchDiskArgs) -> anyhow::Result<Report> {
    let pace = pace(&args.load);
    let dir = args.dir.clone();
    let speed = move || disk::read_speed(&dir, pace.rounds, pace.round);
    let disks = forebay_rt::spawn_blocking(speed).await.context("measure the disk")??;
    let mut report = Report::new("disk", Vec::new(), &args.load);
    report.disk = disks;
    let Some((endpoint, bucket)) = args.endpoint.zip(args.bucket) else {
        return Ok(report);
    };
    let targets = with_pids(workers(vec![endpoint], &bucket, &args.load)?, &args.load)?;
    let objects = list(&targets[0], &args.prefix).await?;
    for workload in chosen(&args.load, &objects)? {
        let workload = workload.once();
        let plan = Plan::new(workload.choose(&objects)?, workload.read, workload.order);
        let dropped = Some(args.dir.clone());
        let measured = measure(targets.clone(), targets.clone(), (workload, plan), pace, dropped);
        report.rows.extend(measured.await?);
    }
    Ok(report)
}

async fn net(args: BenchNetArgs) -> anyhow::Result<Report> {
    let pace = pace(&args.load);
    let targets = with_pids(workers(args.endpoint, &args.set.bucket, &args.load)?, &args.load)?;
    let mut objects = list(&targets[0], &args.set.prefix).await?;
    objects.sort_by_key(|object| std::cmp::Reverse(object.size_bytes));
    let Some(largest) = objects.first() else { bail!("there is no object") };
    let read_bytes = largest.size_bytes.min(WAY_READ_BYTES);
    if read_bytes == 0 {
        bail!("every object there is empty: name another --bucket or --prefix");
    }
    // As long as its first range: that is then all that is read of it.
    let objects = vec![Object::new(&largest.key, read_bytes)];
    let mut rows = Vec::new();
    for connections in WAY_CONNECTIONS {
        let workload = Workload::ranges("net", connections, read_bytes);
        let plan = Plan::new(objects.clone(), workload.read, workload.order);
        let warmed = targets.clone();
        rows.extend(measure(targets.clone(), warmed, (workload, plan), pace, None).await?);
    }
    Ok(Report::new("net", rows, &args.load))
}

async fn all_workloads(
    targets: Vec<Target>,
    warmed: Vec<Target>,
    set: &SetArgs,
    load: &LoadArgs,
) -> anyhow::Result<Vec<Row>> {
    let objects = list(&targets[0], &set.prefix).await?;
    let mut rows = Vec::new();
    for workload in chosen(load, &objects)? {
        let plan = Plan::new(workload.choose(&objects)?, workload.read, workload.order);
        let (targets, warmed) = (targets.clone(), warmed.clone());
        rows.extend(measure(targets, warmed, (workload, plan), pace(load), None).await?);
    }
    Ok(rows)
}

/// The workloads that were asked for; all that have objects, if none was.
fn chosen(load: &LoadArgs, objects: &[Object]) -> Result<Vec<Workload>, BenchError> {
    if !load.workload.is_empty() {
        return Ok(load.workload.clone());
    }
    let mut chosen = Vec::new();
    let mut lacks = Vec::new();
    for workload in Workload::all() {
        match workload.choose(objects) {
            Ok(_) => chosen.push(workload),
            Err(lack) => lacks.push(lack),
        }
    }
    for lack in &lacks {
        complain(&format!("skipped: {lack}"));
    }
    match lacks.pop() {
        Some(lack) if chosen.is_empty() => Err(lack),
        _ => Ok(chosen),
    }
}

/// Warms, then compares, on a thread that may block. What lies below `dropped` leaves the page
/// cache ahead of each round.
async fn measure(
    targets: Vec<Target>,
    warmed: Vec<Target>,
    (workload, plan): (Workload, Plan),
    pace: Pace,
    dropped: Option<PathBuf>,
) -> anyhow::Result<Vec<Row>> {
    let work = move || {
        for target in &warmed {
            if !warm(target, &plan, pace.check)? {
                let name = target.name();
                complain(&format!("{name}: part of the set is not cached after several reads"));
            }
        }
        let case = |target| Case::new(target, plan.clone(), workload.clone());
        let cases: Vec<_> = targets.into_iter().map(case).collect();
        compare(&cases, pace, &mut |step| {
            progress(step);
            dropped.as_deref().map_or(Ok(()), disk::drop_page_cache)
        })
    };
    let rows = forebay_rt::spawn_blocking(work).await.context("run the load")?;
    Ok(rows?)
}

fn workers(
    endpoints: Vec<NamedEndpoint>,
    bucket: &str,
    load: &LoadArgs,
) -> anyhow::Result<Vec<Target>> {
    let keys = Keys::of_clients(load)?;
    let is_one = endpoints.len() == 1;
    let named = |endpoint: NamedEndpoint| if is_one { endpoint.or_named(WORKER) } else { endpoint };
    let target = |endpoint| keys.sign(Target::new(&named(endpoint), bucket));
    Ok(endpoints.into_iter().map(target).collect())
}

fn pace(load: &LoadArgs) -> Pace {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = load.threads.map_or((cores / 2).max(1), usize::from);
    let check = if load.verify { Check::NamedVersion } else { Check::Lengths };
    let round = Duration::from_secs_f64(load.seconds);
    Pace { rounds: load.rounds.into(), round, threads, check }
}

/// What is about to be done, on standard error.
fn progress(step: Step<'_>) {
    let Step { round, workload, target } = step;
    complain(&format!("round {round}: {workload} {target}"));
}

/// Gives each target its processes. A name that no target has is a mistake.
fn with_pids(targets: Vec<Target>, load: &LoadArgs) -> Result<Vec<Target>, BenchError> {
    for named in &load.pid {
        if !targets.iter().any(|target| target.name() == named.name) {
            let names: Vec<_> = targets.iter().map(Target::name).collect();
            let reason = format!("no endpoint has that name; there is {}", names.join(", "));
            let (what, value) = ("pid", named.name.clone());
            return Err(BenchError::Argument { what, value, reason });
        }
    }
    let give = |target: Target| {
        let mine = load.pid.iter().filter(|named| named.name == target.name());
        let pids = mine.flat_map(|named| named.pids.clone()).collect();
        target.with_pids(pids)
    };
    Ok(targets.into_iter().map(give).collect())
}
