//! The tables, in Markdown, with what is needed to judge them.

use std::fmt::Write;
use std::process::Command;

use anyhow::{Context, Result};
use forebay_bench::{Row, Spread};

use crate::options::Options;

/// Loads whose answers are large are told in bytes, the others in requests.
const LARGE_BYTES: u64 = 1 << 20;

/// All figures of a run.
#[derive(Debug)]
pub(crate) struct Tables {
    congestion: String,
    head: String,
    /// Forebay and its peers.
    pub(crate) local: Vec<Row>,
    /// Hits from the worker's own disk and from another worker's.
    pub(crate) relayed: Vec<Row>,
}

impl Tables {
    /// Without figures as yet.
    pub(crate) fn of_this_machine(options: &Options) -> Result<Self> {
        let congestion = read("/proc/sys/net/ipv4/tcp_congestion_control")?;
        let head = format!(
            "{} x {}, Linux {}, {} GiB of memory, loopback; congestion control {congestion}; {}.\n\
             {}, {}.",
            cores(),
            model(&read("/proc/cpuinfo")?),
            read("/proc/sys/kernel/osrelease")?,
            memory_gib(&read("/proc/meminfo")?),
            options.describe(),
            version("nginx", "-v"),
            version("varnishd", "-V"),
        );
        Ok(Self { congestion, head, local: Vec::new(), relayed: Vec::new() })
    }

    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("{}\n\n", self.head);
        if !self.local.is_empty() {
            table(&mut text, "x nginx", &self.local);
            text.push('\n');
        }
        table(&mut text, "x local", &self.relayed);
        text
    }

    /// A page in which these tables stand in the place that is marked for them.
    pub(crate) fn put_into(&self, page: &str) -> Result<String> {
        let begin = format!("<!-- measured: {} -->\n", self.congestion);
        let end = "<!-- end -->";
        let marked = page.split_once(&begin);
        let (before, rest) = marked.with_context(|| format!("no line {begin:?}"))?;
        let (_, after) = rest.split_once(end).with_context(|| format!("no line {end:?}"))?;
        Ok(format!("{before}{begin}\n{}\n{end}{after}", self.markdown()))
    }
}

fn table(text: &mut String, anchor: &str, rows: &[Row]) {
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "| load | server | speed (min-max) | {anchor} | server CPU | {anchor} | first byte p50, \
         p99 us | client CPU us/request | others |\n|---|---|---|---|---|---|---|---|---|"
    );
    let mut above = "";
    for row in rows {
        let load = if row.what == above { "" } else { &row.what };
        above = &row.what;
        let _ = writeln!(text, "| {load} | {} |", cells(row).join(" | "));
    }
}

fn cells(row: &Row) -> [String; 8] {
    let is_large = row.bytes / row.requests.max(1) >= LARGE_BYTES;
    let median = |spread: Option<Spread>| spread.map(|spread| spread.median);
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let (speed, cpu) = if is_large {
        let Spread { median, min, max } = row.gb_per_s;
        let per_gb = row.server_cpu_s_per_gb.map(|cpu| cpu.median);
        (format!("{median:.2} GB/s ({min:.2}-{max:.2})"), format!("{} s/GB", number(per_gb, 3)))
    } else {
        let Spread { median, min, max } = row.requests_per_s;
        let per_request = row.server_cpu_us_per_request.map(|cpu| cpu.median);
        (format!("{median:.0}/s ({min:.0}-{max:.0})"), format!("{} us", number(per_request, 1)))
    };
    let (p50, p99) = (median(row.first_byte_p50_us), median(row.first_byte_p99_us));
    [
        row.target.clone(),
        speed,
        number(median(row.x_speed), 2),
        cpu,
        number(median(row.x_cpu), 2),
        format!("{}, {}", number(p50, 0), number(p99, 0)),
        number(Some(row.client_cpu_us_per_request.median), 1),
        row.foreign_ratio.map_or_else(|| "-".into(), |ratio| format!("{:.0} %", 100.0 * ratio)),
    ]
}

fn read(path: &str) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| path.to_owned())?;
    Ok(text.trim().to_owned())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn model(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    line.map_or_else(
        || "unknown CPU".into(),
        |line| line.trim_start_matches(['\t', ' ', ':']).into(),
    )
}

fn memory_gib(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) >> 20
}

/// The first line of what a program says of its version.
fn version(program: &str, flag: &str) -> String {
    let path = crate::server::find(program);
    let output = path.and_then(|path| Command::new(path).arg(flag).output().ok());
    let Some(output) = output else { return format!("no {program}") };
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    said.lines().next().unwrap_or(program).trim().to_owned()
}
