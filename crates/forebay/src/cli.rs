//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use forebay_node::{Flags, Knob};

/// A read cache for training data in front of S3.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a worker: an S3 endpoint that keeps what it has read.
    Serve(Box<ServeArgs>),
    /// Ask a running worker how it is. Exits with 3 if it is not well.
    Status(StatusArgs),
    /// See it work: a distant origin and a worker on this machine, three epochs, every byte
    /// checked.
    Demo(DemoArgs),
    /// The origin of the demo, in a process of its own.
    #[command(hide = true)]
    DemoOrigin(DemoOriginArgs),
}

/// Every flag but --config has a variable (--cache-dir: FOREBAY_CACHE_DIR) and wins over it;
/// both win over the config file.
#[derive(Debug, Args)]
#[command(after_help = "Clients sign with FOREBAY_ACCESS_KEY_ID and FOREBAY_SECRET_ACCESS_KEY \
    unless the config file has keys. Forebay's own credentials at the origin come from the \
    default AWS chain.\n\nExample:\n  forebay serve --origin https://s3.example.com --bucket \
    train --cache-dir /nvme/forebay")]
pub(crate) struct ServeArgs {
    /// The config file [env: FOREBAY_CONFIG].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where S3 clients are served [default: 0.0.0.0:9000].
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Where /metrics, /status, /healthz and /readyz are served [default: 127.0.0.1:9600].
    #[arg(long, value_name = "HOST:PORT")]
    admin_listen: Option<String>,
    /// A directory for cached blocks; one a disk.
    #[arg(long, value_name = "DIR")]
    cache_dir: Vec<String>,
    /// How much of each disk may be used, such as 90% or 500GiB [default: 90%].
    #[arg(long, value_name = "SIZE")]
    capacity: Option<String>,
    /// The S3 endpoint behind this worker: a URL, or "aws".
    #[arg(long, value_name = "URL")]
    origin: Option<String>,
    /// A bucket of the origin, or '*' for all; may repeat.
    #[arg(long, value_name = "NAME")]
    bucket: Vec<String>,
    /// The origin's region [default: AWS_REGION, then us-east-1].
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
    /// How long a known version stands: immutable, bounded (60 s) or strict [default: bounded].
    #[arg(long, value_name = "MODE")]
    freshness: Option<String>,
    /// Ask the origin without signing: for public buckets.
    #[arg(long)]
    anonymous_origin: bool,
    /// Who may ask: "keys", or "none" to serve everybody who reaches the port [default: keys].
    #[arg(long, value_name = "MODE")]
    auth: Option<String>,
    /// How long requests in flight may take after SIGTERM [default: 25].
    #[arg(long, value_name = "SECONDS")]
    drain_seconds: Option<String>,
    /// How log lines look: text or json [default: text].
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Drain and end when standard input ends: for whoever starts a worker for a while.
    #[arg(long, hide = true)]
    pub(crate) exit_with_stdin: bool,
}

impl ServeArgs {
    /// What was typed, by setting.
    pub(crate) fn into_flags(self) -> Flags {
        Flags::default()
            .with(Knob::Listen, self.listen)
            .with(Knob::AdminListen, self.admin_listen)
            .with(Knob::CacheDir, self.cache_dir)
            .with(Knob::Capacity, self.capacity)
            .with(Knob::Origin, self.origin)
            .with(Knob::Bucket, self.bucket)
            .with(Knob::Region, self.region)
            .with(Knob::Freshness, self.freshness)
            .with(Knob::AnonymousOrigin, self.anonymous_origin.then(|| "true".to_owned()))
            .with(Knob::Auth, self.auth)
            .with(Knob::DrainSeconds, self.drain_seconds)
            .with(Knob::LogFormat, self.log_format)
    }
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The worker's admin endpoint.
    #[arg(
        long,
        value_name = "URL",
        env = "FOREBAY_ADMIN_URL",
        default_value = "http://127.0.0.1:9600"
    )]
    pub(crate) endpoint: String,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Table,
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Stay up until Ctrl-C, to try it by hand.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Print one JSON object instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Objects of about 100 KiB.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) objects: u64,
    /// Shards of 64 MiB.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub(crate) shards: u64,
    /// Where the cache is kept [default: a temporary directory on a disk].
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DemoOriginArgs {
    /// The origin's description, as JSON.
    #[arg(long, value_name = "JSON")]
    pub(crate) config: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_knob_has_its_flag() {
        let cli = Cli::command();
        let serve = cli.find_subcommand("serve").unwrap();
        let flags: Vec<_> = serve.get_arguments().filter_map(clap::Arg::get_long).collect();
        for knob in Knob::ALL {
            assert!(flags.contains(&knob.flag().trim_start_matches('-')), "{knob:?}");
        }
        let others = ["config", "exit-with-stdin"];
        assert_eq!(flags.len(), Knob::ALL.len() + others.len(), "{flags:?}");
    }
}
