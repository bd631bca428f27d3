//! What the program was told, and where it runs.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use forebay_bench::{Check, Pace};

use crate::table::Tables;

/// Set in the process that runs inside the namespace.
const INSIDE: &str = "FOREBAY_BENCH_INSIDE";
const ENTER: &str = "ip link set lo up && \
                     echo reno > /proc/sys/net/ipv4/tcp_congestion_control && exec \"$0\" \"$@\"";

/// The command line.
#[derive(Debug)]
pub(crate) struct Options {
    seconds: f64,
    rounds: usize,
    is_reno: bool,
    /// Leave out everybody else: only what another worker has, beside what is here.
    pub(crate) is_relayed_alone: bool,
    write: Option<PathBuf>,
}

impl Options {
    pub(crate) fn read() -> Result<Self> {
        let mut options =
            Self { seconds: 3.0, rounds: 5, is_reno: false, is_relayed_alone: false, write: None };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
            match arg.as_str() {
                // cargo says so to every benchmark.
                "--bench" => {}
                "--reno" => options.is_reno = true,
                "--relayed" => options.is_relayed_alone = true,
                "--seconds" => options.seconds = value()?.parse().context("--seconds")?,
                "--rounds" => options.rounds = value()?.parse().context("--rounds")?,
                // cargo starts a benchmark in the folder of its crate.
                "--write" => options.write = Some(repository().join(value()?)),
                _ => {
                    bail!("{arg}: write --reno, --relayed, --seconds N, --rounds N or --write FILE")
                }
            }
        }
        let is_a_part = options.is_relayed_alone && options.write.is_some();
        ensure!(!is_a_part, "--write takes all tables: leave out --relayed");
        ensure!(options.rounds > 0 && options.seconds > 0.0, "measure at least one round");
        Ok(options)
    }

    pub(crate) fn pace(&self) -> Pace {
        let round = Duration::from_secs_f64(self.seconds);
        Pace { rounds: self.rounds, round, threads: 1, check: Check::Lengths }
    }

    /// How it was run, for the head of a table.
    pub(crate) fn describe(&self) -> String {
        format!("{} interleaved rounds of {} s", self.rounds, self.seconds)
    }

    /// Whether the work is to be done in a namespace, and this is not it.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.is_reno && std::env::var_os(INSIDE).is_none()
    }

    /// Runs this program again, in a network namespace with nothing but its own loopback.
    pub(crate) fn run_in_a_namespace() -> Result<()> {
        let program = std::env::current_exe().context("find this program")?;
        let mut again = Command::new("unshare");
        again.args(["--net", "sh", "-c", ENTER]).arg(program).args(std::env::args_os().skip(1));
        let status = again.env(INSIDE, "1").status().context("run unshare, of util-linux")?;
        ensure!(status.success(), "in a network namespace (which needs root): {status}");
        Ok(())
    }

    /// Puts the tables into the file that --write names.
    pub(crate) fn write(&self, tables: &Tables) -> Result<()> {
        let Some(path) = &self.write else { return Ok(()) };
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let text = tables.put_into(&text).with_context(|| path.display().to_string())?;
        std::fs::write(path, text).with_context(|| path.display().to_string())
    }
}

fn repository() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Whether this machine, as seen from here, has no interface but loopback.
pub(crate) fn is_alone() -> Result<bool> {
    const HEAD_LINES: usize = 2;
    let interfaces = std::fs::read_to_string("/proc/net/dev").context("list interfaces")?;
    Ok(interfaces.lines().skip(HEAD_LINES).all(|line| line.trim_start().starts_with("lo:")))
}
