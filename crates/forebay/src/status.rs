//! `forebay status`.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Context;
use forebay_node::{Status, status};
use forebay_rt::SystemClock;

use crate::cli::{Output, StatusArgs};
use crate::output::{human_bytes, say};

const EXIT_UNHEALTHY: u8 = 3;

/// Asks a worker how it is.
pub(crate) async fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let status = status::fetch(&SystemClock, &args.endpoint).await?;
    match args.output {
        Output::Table => say(table(&status).trim_end()),
        Output::Json => say(&serde_json::to_string(&status).context("print the status")?),
    }
    let healthy = status.is_healthy();
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::from(EXIT_UNHEALTHY) })
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
    let total = served.ram_bytes + served.nvme_bytes + served.origin_bytes;
    writeln!(
        out,
        "HIT     bytes {}   requests {}   served {}   from origin {}",
        percent(served.hit_bytes_ratio()),
        percent(served.hit_requests_ratio()),
        human_bytes(total),
        human_bytes(served.origin_bytes)
    )?;
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

/// `-` where nothing was served yet.
fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".into(), |ratio| format!("{:.1}%", ratio * 100.0))
}

fn human_seconds(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}
