//! The command line of `forebay serve`.

use std::path::PathBuf;

use clap::Args;
use forebay_node::{Flags, Knob};

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
    #[command(flatten)]
    cluster: MemberArgs,
    #[command(flatten)]
    meta: VoterArgs,
    /// Drain and end when standard input ends: for whoever starts a worker for a while.
    #[arg(long, hide = true)]
    pub(crate) exit_with_stdin: bool,
}

/// A worker that is one of several.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
struct MemberArgs {
    /// The file with the secret that all workers and voters share.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<String>,
    /// Control ports of voters, separated by commas.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    voters: Vec<String>,
    /// Where other workers are served [default: 0.0.0.0:9100].
    #[arg(long, value_name = "HOST:PORT")]
    data_listen: Option<String>,
    /// What other workers are told to call [default: --data-listen, if that names an address].
    #[arg(long, value_name = "HOST:PORT")]
    data_advertise: Option<String>,
    /// What clients that follow the ring are told to call [default: --listen, likewise].
    #[arg(long, value_name = "HOST:PORT")]
    s3_advertise: Option<String>,
    /// The failure domain that the worker is in.
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,
}

/// A process that is a voter; without a disk and a bucket, only that.
#[derive(Debug, Args)]
#[command(next_help_heading = "Voter")]
struct VoterArgs {
    /// The voter's number, which no other has had.
    #[arg(long, value_name = "N")]
    meta_id: Option<String>,
    /// A directory for its log and state.
    #[arg(long, value_name = "DIR")]
    meta_dir: Option<String>,
    /// Its control port [default: 0.0.0.0:9701].
    #[arg(long, value_name = "HOST:PORT")]
    meta_listen: Option<String>,
    /// What workers and other voters are told to call [default: --meta-listen, likewise].
    #[arg(long, value_name = "HOST:PORT")]
    meta_advertise: Option<String>,
    /// The voters that the group is first formed of, as in 1=meta-0:9701,2=...
    #[arg(long, value_name = "N=HOST:PORT", value_delimiter = ',')]
    initial_voters: Vec<String>,
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
            .with(Knob::SecretFile, self.cluster.secret_file)
            .with(Knob::Voters, self.cluster.voters)
            .with(Knob::DataListen, self.cluster.data_listen)
            .with(Knob::DataAdvertise, self.cluster.data_advertise)
            .with(Knob::S3Advertise, self.cluster.s3_advertise)
            .with(Knob::Zone, self.cluster.zone)
            .with(Knob::MetaId, self.meta.meta_id)
            .with(Knob::MetaDir, self.meta.meta_dir)
            .with(Knob::MetaListen, self.meta.meta_listen)
            .with(Knob::MetaAdvertise, self.meta.meta_advertise)
            .with(Knob::InitialVoters, self.meta.initial_voters)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

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
