//! `forebay status`: of one worker, or of its cluster.

use std::fmt::Write;
use std::process::ExitCode;

use forebay_node::status::{ClusterStatus, HandedOver};
use forebay_node::{Status, status};
use forebay_rt::SystemClock;

use crate::cli::StatusArgs;
use crate::output::{human_bytes, human_seconds, percent, print};
use crate::{cluster_table, voters};

const EXIT_UNHEALTHY: u8 = 3;

/// Asks a worker, or the voters where they are named.
pub(crate) async fn run(args: StatusArgs) -> anyhow::Result<ExitCode> {
    let is_healthy = if args.cluster.are_given() {
        let status = voters::control(args.cluster)?.status().await?;
        print(args.output, &status, || cluster_table::status(&status))?;
        status.is_healthy()
    } else {
        let status = status::fetch(&SystemClock, &args.endpoint).await?;
        print(args.output, &status, || table(&status))?;
        status.is_healthy()
    };
    Ok(if is_healthy { ExitCode::SUCCESS } else { ExitCode::from(EXIT_UNHEALTHY) })
}

fn table(status: &Status) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = render(status, &mut text);
    text
}

fn render(status: &Status, out: &mut String) -> std::fmt::Result {
    let Status { state, version, uptime_s, s3, served, .. } = status;
    writeln!(out, "FOREBAY {version}   {state}   up {}   http://{s3}", human_seconds(*uptime_s))?;
    let total = served.ram_bytes + served.nvme_bytes + served.peer_bytes + served.origin_bytes;
    writeln!(
        out,
        "HIT     bytes {}   requests {}   served {}   from origin {}",
        percent(served.hit_bytes_ratio()),
        percent(served.hit_requests_ratio()),
        human_bytes(total),
        human_bytes(served.origin_bytes)
    )?;
    if let Some(cluster) = &status.cluster {
        render_cluster(cluster, out)?;
    }
    writeln!(
        out,
        "{:<28}  {:<10}  {:>10}  {:>10}  {:>5}",
        "DISK", "STATE", "USED", "CAPACITY", "USED%"
    )?;
    for disk in &status.disks {
        let share = disk.used_bytes as f64 / disk.capacity_bytes.max(1) as f64;
        let (used, capacity) = (human_bytes(disk.used_bytes), human_bytes(disk.capacity_bytes));
        writeln!(
            out,
            "{:<28}  {:<10}  {used:>10}  {capacity:>10}  {:>5}",
            disk.path,
            disk.state,
            percent(Some(share))
        )?;
    }
    writeln!(out, "{:<28}  {:<10}  ORIGIN", "BUCKET", "FRESHNESS")?;
    for bucket in &status.buckets {
        writeln!(
            out,
            "{:<28}  {:<10}  {}  {}",
            bucket.name, bucket.freshness, bucket.origin, bucket.origin_at_start
        )?;
    }
    Ok(())
}

fn render_cluster(cluster: &ClusterStatus, out: &mut String) -> std::fmt::Result {
    let ClusterStatus { worker, epoch, vouches, workers, handed_over, .. } = cluster;
    let active = workers.iter().filter(|worker| worker.state == "active").count();
    let leader = cluster.leader.as_deref().filter(|_| cluster.has_voters).unwrap_or("out of reach");
    writeln!(
        out,
        "RING    worker {worker}   epoch {epoch}   owns {}   vouches {vouches}   workers {active}/{}   \
         leader {leader}",
        percent(Some(cluster.owned_ratio)),
        workers.len(),
    )?;
    let Some(HandedOver { done, taken, left }) = handed_over else { return Ok(()) };
    let how_far = if *done { "done" } else { "under way" };
    writeln!(out, "LEAVES  handing over is {how_far}: others took {taken} extents, nobody {left}")
}
