//! The figures as a table, or as one JSON object.

use forebay_bench::disk::DiskRow;
use forebay_bench::{Row, Spread};
use serde::Serialize;

use crate::cli::LoadArgs;
use crate::output::{complain, percent, say};
use crate::table::Table;

/// Above this share of the machine in other hands, speeds are the machine's rather than the
/// server's; CPU times stand longer.
const NOISY_RATIO: f64 = 0.06;

/// What a run found.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    bench: &'static str,
    seconds: f64,
    rounds: u16,
    is_verified: bool,
    /// The disk itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) disk: Vec<DiskRow>,
    /// Each workload at each target.
    pub(super) rows: Vec<Row>,
    #[serde(skip)]
    is_json: bool,
}

impl Report {
    pub(super) fn new(bench: &'static str, rows: Vec<Row>, load: &LoadArgs) -> Self {
        let LoadArgs { seconds, rounds, verify, json, .. } = *load;
        Self { bench, seconds, rounds, is_verified: verify, disk: Vec::new(), rows, is_json: json }
    }

    pub(super) fn print(&self) -> anyhow::Result<()> {
        if self.is_json {
            say(&serde_json::to_string(self)?);
            return Ok(());
        }
        if !self.disk.is_empty() {
            say(&self.disk_table().to_string());
        }
        if !self.rows.is_empty() {
            say(self.table().to_string().trim_end());
            self.comment();
        }
        Ok(())
    }

    fn disk_table(&self) -> Table {
        let mut table = Table::new(&["DISK, PAST THE PAGE CACHE", ">GB/s", ">MIN-MAX", ">READS/s"]);
        for row in &self.disk {
            let Spread { median, min, max } = row.gb_per_s;
            table.row([
                row.what.clone(),
                format!("{median:.2}"),
                format!("{min:.2}-{max:.2}"),
                format!("{:.0}", row.reads_per_s.median),
            ]);
        }
        table
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[
            "WORKLOAD",
            "TARGET",
            ">GB/s",
            ">MIN-MAX",
            ">REQ/s",
            ">FIRST BYTE us p50",
            ">p99",
            ">CPU s/GB",
            ">CPU us/REQ",
            ">x SPEED",
            ">x CPU",
            ">HITS",
            ">PEERS",
            ">DISK",
            ">FAILED",
        ]);
        for row in &self.rows {
            table.row(cells(row));
        }
        table
    }

    fn comment(&self) {
        let (s, rounds) = (self.seconds, self.rounds);
        complain(&format!("medians of {rounds} interleaved rounds of {s} s"));
        let foreign = self.rows.iter().filter_map(|row| row.foreign_ratio).fold(0.0, f64::max);
        if foreign > NOISY_RATIO {
            complain(&format!(
                "other processes used up to {} of this machine: trust ratios of CPU time, not speeds",
                percent(Some(foreign))
            ));
        }
    }
}

fn cells(row: &Row) -> [String; 15] {
    let maybe = |spread: Option<Spread>, digits: usize| {
        spread.map_or_else(|| "-".into(), |spread| format!("{:.digits$}", spread.median))
    };
    let Spread { median, min, max } = row.gb_per_s;
    [
        format!("{}: {}", row.workload, row.what),
        row.target.clone(),
        format!("{median:.3}"),
        format!("{min:.3}-{max:.3}"),
        format!("{:.0}", row.requests_per_s.median),
        maybe(row.first_byte_p50_us, 0),
        maybe(row.first_byte_p99_us, 0),
        maybe(row.server_cpu_s_per_gb, 3),
        maybe(row.server_cpu_us_per_request, 1),
        maybe(row.x_speed, 2),
        maybe(row.x_cpu, 2),
        percent(row.hit_ratio),
        percent(row.peer_ratio),
        percent(row.disk_ratio),
        row.failed.to_string(),
    ]
}
