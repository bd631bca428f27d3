//! The command line of `forebay bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use forebay_bench::{NamedEndpoint, NamedPids, Workload};

const SECONDS: std::ops::RangeInclusive<f64> = 0.05..=3600.0;

/// Measure reads: of a worker or several, of the origin beside them, of the disk, of the way.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Read objects of a bucket through one endpoint or several, all of it cached.
    Read(BenchReadArgs),
    /// The same, beside the origin itself.
    Origin(BenchOriginArgs),
    /// How fast the disk below a cache reads and, with --endpoint, how fast a worker serves what
    /// is on its disk but not in memory.
    Disk(BenchDiskArgs),
    /// What the way to a worker carries: one cached range, again and again.
    Net(BenchNetArgs),
}

/// Signed with FOREBAY_ACCESS_KEY_ID and FOREBAY_SECRET_ACCESS_KEY if they are set.
#[derive(Debug, Args)]
pub(crate) struct BenchReadArgs {
    /// Whom to read from; the first is what others are compared with.
    #[arg(long, value_name = "[NAME=]URL", required = true)]
    pub(crate) endpoint: Vec<NamedEndpoint>,
    #[command(flatten)]
    pub(crate) set: SetArgs,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Measure at once, without reading everything beforehand.
    #[arg(long)]
    pub(crate) no_warm: bool,
}

/// The origin's key is in AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, the one for
/// workers in FOREBAY_ACCESS_KEY_ID and FOREBAY_SECRET_ACCESS_KEY.
#[derive(Debug, Args)]
pub(crate) struct BenchOriginArgs {
    /// The origin. It is what others are compared with.
    #[arg(long, value_name = "[NAME=]URL")]
    pub(crate) origin: NamedEndpoint,
    /// A worker in front of it; may repeat.
    #[arg(long, value_name = "[NAME=]URL")]
    pub(crate) endpoint: Vec<NamedEndpoint>,
    #[command(flatten)]
    pub(crate) set: SetArgs,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Measure at once, without reading everything through the workers beforehand.
    #[arg(long)]
    pub(crate) no_warm: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchDiskArgs {
    /// The cache's directory on this machine; its files are only read.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The worker whose cache that is.
    #[arg(long, value_name = "[NAME=]URL", requires = "bucket")]
    pub(crate) endpoint: Option<NamedEndpoint>,
    /// A bucket that the worker has cached.
    #[arg(long, value_name = "NAME", requires = "endpoint")]
    pub(crate) bucket: Option<String>,
    /// Only what begins with this.
    #[arg(long, value_name = "PREFIX", default_value = "")]
    pub(crate) prefix: String,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
}

#[derive(Debug, Args)]
pub(crate) struct BenchNetArgs {
    /// A worker; may repeat.
    #[arg(long, value_name = "[NAME=]URL", required = true)]
    pub(crate) endpoint: Vec<NamedEndpoint>,
    #[command(flatten)]
    pub(crate) set: SetArgs,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
}

/// What is read.
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// The bucket, of the same name at every endpoint.
    #[arg(long, value_name = "NAME")]
    pub(crate) bucket: String,
    /// Only what begins with this.
    #[arg(long, value_name = "PREFIX", default_value = "")]
    pub(crate) prefix: String,
}

/// How it is read.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// w1, w2, w3, w4 or first-byte, separated by commas [default: all that have objects].
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = Workload::named)]
    pub(crate) workload: Vec<Workload>,
    /// Interleaved rounds.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) rounds: u16,
    /// How long each endpoint is read from in each round of each workload.
    #[arg(long, value_name = "S", default_value_t = 3.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Threads that read [default: half of this machine's cores].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Option<u16>,
    /// Check every byte; for objects of `forebay demo`.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Send requests without a signature, whatever keys are set.
    #[arg(long)]
    pub(crate) unsigned: bool,
    /// The processes behind an endpoint, if they are on this machine: their CPU time is told.
    #[arg(long, value_name = "NAME=PID[,PID]")]
    pub(crate) pid: Vec<NamedPids>,
    /// Print one JSON object instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| SECONDS.contains(seconds));
    let (least, most) = (SECONDS.start(), SECONDS.end());
    seconds.ok_or_else(|| format!("write a number of seconds from {least} to {most}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::Cli;

    fn refusal(args: &[&str]) -> String {
        let args = ["forebay", "bench"].iter().chain(args);
        Cli::try_parse_from(args).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn mistakes_are_named_with_what_to_write() {
        let read = ["read", "--bucket", "b", "--endpoint"];
        let with = |more: &[&str]| refusal(&[&read, more].concat());
        assert!(with(&["https://127.0.0.1"]).contains("TLS is not measured here"));
        let url = "http://127.0.0.1:1";
        assert!(with(&[url, "--workload", "w1,w7"]).contains("write one of w1, w2, w3, w4"));
        assert!(with(&[url, "--seconds", "0"]).contains("seconds from 0.05 to 3600"));
        assert!(with(&[url, "--pid", "17"]).contains("write NAME=PID[,PID]"));
        assert!(refusal(&["read", "--bucket", "b"]).contains("--endpoint"));
        let disk = refusal(&["disk", "--dir", "/x", "--endpoint", url]);
        assert!(disk.contains("--bucket"), "{disk}");
    }
}
