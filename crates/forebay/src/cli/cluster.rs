//! The command lines of what is asked of voters.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Output;

/// Who the voters are, and the secret that admits to them.
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    /// The config file of a worker or a voter, for its voters and secret.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Control ports of voters, separated by commas [default: those of the config file].
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub(crate) voters: Vec<String>,
    /// The file with the cluster's secret [default: that of the config file].
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<String>,
}

impl ClusterArgs {
    /// Whether any of them was given.
    pub(crate) fn are_given(&self) -> bool {
        self.config.is_some() || !self.voters.is_empty() || self.secret_file.is_some()
    }
}

/// The voters, and how to print what they say.
#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RingCommand {
    /// Who owns how much, and the rings before.
    Show(AskArgs),
    /// Take a worker out of the ring. It goes on answering for what it holds.
    Drain(DrainArgs),
    /// Take a worker back into the ring.
    Undrain(OneWorkerArgs),
    /// Forget a worker that will not come back.
    Forget(ForgetArgs),
    /// Change how keys are spread. Most of what is cached will belong to another worker.
    Set(RingSetArgs),
}

#[derive(Debug, Args)]
pub(crate) struct OneWorkerArgs {
    /// Its id, the beginning of its id, or its address.
    #[arg(value_name = "WORKER")]
    pub(crate) worker: String,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    pub(crate) one: OneWorkerArgs,
    /// Do not wait until it is out.
    #[arg(long, conflicts_with = "endpoint")]
    pub(crate) no_wait: bool,
    /// The worker's admin endpoint: wait as well until it has handed over what it holds.
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ForgetArgs {
    #[command(flatten)]
    pub(crate) one: OneWorkerArgs,
    /// Do it; without this, only say what would be done.
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RingSetArgs {
    /// Points on the ring of an average worker.
    #[arg(long, value_name = "N")]
    pub(crate) virtual_nodes: u32,
    /// Of the hash [default: the present one].
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MetaCommand {
    /// The voters, and how they are.
    Members(AskArgs),
    /// Make a voter one of the group. Start it first, with an empty directory and without
    /// initial voters.
    Add(AddVoterArgs),
    /// Take a voter out of the group, dead or alive.
    Remove(RemoveVoterArgs),
    /// Write what the voters agree on into a file.
    Snapshot(SnapshotArgs),
    /// Begin a new group of one voter from a snapshot or from the directory of a voter that is
    /// lost to its group: when a majority is lost for good.
    Restore(RestoreArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AddVoterArgs {
    /// Its number, as in its meta.id.
    #[arg(value_name = "ID")]
    pub(crate) id: u64,
    /// Its control port.
    #[arg(value_name = "HOST:PORT")]
    pub(crate) addr: String,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveVoterArgs {
    /// Its number.
    #[arg(value_name = "ID")]
    pub(crate) id: u64,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
    /// Do it; without this, only say what would be done.
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {
    /// A file that does not exist yet.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The new voter's directory: empty, or not there yet.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) source: RestoreSource,
    /// The new voter's number, which no voter has had.
    #[arg(long, value_name = "N")]
    pub(crate) id: u64,
    /// What workers and other voters are to call it.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) advertise: String,
    /// How to print what was restored.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    /// Do it; without this, only say what would be done.
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct RestoreSource {
    /// What `forebay meta snapshot` wrote.
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot: Option<PathBuf>,
    /// The directory of a voter that has ended.
    #[arg(long, value_name = "DIR")]
    pub(crate) from_dir: Option<PathBuf>,
}

impl RestoreSource {
    /// Where to restore from, and what that is.
    pub(crate) fn into_path(self) -> (PathBuf, &'static str) {
        match (self.snapshot, self.from_dir) {
            (Some(file), _) => (file, "the snapshot"),
            // One of the two is required.
            (None, dir) => (dir.unwrap_or_default(), "the directory"),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// The cluster's rules, as they were written.
    Show(AskArgs),
    /// Replace the cluster's rules by those of a file.
    Apply(RulesApplyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RulesApplyArgs {
    /// [auth] and [[bucket]] tables, as in a config file; no others.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}
