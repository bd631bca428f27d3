//! The command line.

mod bench;
mod cluster;
mod serve;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use bench::{
    BenchCommand, BenchDiskArgs, BenchNetArgs, BenchOriginArgs, BenchReadArgs, LoadArgs, SetArgs,
};
pub(crate) use cluster::{
    AddVoterArgs, AskArgs, ClusterArgs, DrainArgs, ForgetArgs, MetaCommand, OneWorkerArgs,
    RemoveVoterArgs, RestoreArgs, RingCommand, RingSetArgs, RulesApplyArgs, RulesCommand,
    SnapshotArgs,
};
pub(crate) use serve::ServeArgs;

/// A read cache for training data in front of S3.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a worker, which is an S3 endpoint that keeps what it has read, or a voter, or both.
    Serve(Box<ServeArgs>),
    /// Ask a running worker how it is, or the voters how their cluster is. Exits with 3 if it is
    /// not well.
    Status(StatusArgs),
    /// Look at the ring, take workers out of it and back into it.
    #[command(subcommand)]
    Ring(RingCommand),
    /// Look at the voters, change who they are, save and restore what they know.
    #[command(subcommand)]
    Meta(MetaCommand),
    /// Look at the cluster's bucket rules and access grants, and replace them.
    #[command(subcommand)]
    Rules(RulesCommand),
    /// Measure reads: of a worker or several, of the origin, of the disk, of the way.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// See it work: a distant origin and a worker on this machine, three epochs, every byte
    /// checked.
    Demo(DemoArgs),
    /// The origin of the demo, in a process of its own.
    #[command(hide = true)]
    DemoOrigin(DemoOriginArgs),
}

/// Without --config or --voters: the worker at --endpoint. With one of them: the cluster.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The admin endpoint of a worker.
    #[arg(
        long,
        value_name = "URL",
        env = "FOREBAY_ADMIN_URL",
        default_value = "http://127.0.0.1:9600"
    )]
    pub(crate) endpoint: String,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
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
}
