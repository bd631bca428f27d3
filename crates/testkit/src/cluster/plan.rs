//! What a cluster is started with, and the config files that say so.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::ClusterError;
use super::member::{ADMIN_PORT, CONTROL_PORT, DATA_PORT, Member, S3_PORT};
use super::network::{Host, Network};
use crate::sign::AccessKey;

/// Hosts of workers come after those of voters.
const FIRST_WORKER_HOST: u8 = 101;

/// Shared by the processes of one cluster; its network is its own, so it need not be random.
const SECRET: &str = "test-cluster-secret-0123456789abcdef";

/// What a cluster is started with.
#[derive(Debug, Clone)]
pub struct ClusterPlan {
    /// The `forebay` binary.
    pub binary: PathBuf,
    /// For config files, caches and voters' directories.
    pub dir: PathBuf,
    /// Where the processes run.
    pub network: Network,
    /// How many voters: 1, 3 or 5.
    pub voters: usize,
    /// How many workers at first.
    pub workers: usize,
    /// The origin's endpoint, as workers reach it.
    pub origin: String,
    /// The bucket.
    pub bucket: String,
    /// Its freshness.
    pub freshness: String,
    /// Seconds of a `bounded` one.
    pub bound_seconds: Option<u64>,
    /// Bytes that each worker may keep.
    pub capacity: String,
    /// Blocks fetched ahead.
    pub read_ahead_blocks: u64,
    /// For requests in flight and for handing over after SIGTERM.
    pub drain_seconds: u64,
    /// What workers sign with at the origin.
    pub origin_key: AccessKey,
    /// What clients sign with.
    pub client_key: AccessKey,
}

impl ClusterPlan {
    /// The usual cluster: three voters, three workers, `immutable`.
    pub fn new(binary: &Path, dir: &Path, origin: &str, bucket: &str) -> Self {
        Self {
            binary: binary.to_owned(),
            dir: dir.to_owned(),
            network: Network::loopback(),
            voters: 3,
            workers: 3,
            origin: origin.to_owned(),
            bucket: bucket.to_owned(),
            freshness: "immutable".to_owned(),
            bound_seconds: None,
            capacity: "4GiB".to_owned(),
            read_ahead_blocks: 8,
            drain_seconds: 25,
            origin_key: AccessKey::new("ORIGINKEY", "origin-secret-canary"),
            client_key: AccessKey::new("CLIENTKEY", "client-secret-canary"),
        }
    }

    /// The file with the cluster secret.
    pub fn secret_file(&self) -> PathBuf {
        self.dir.join("cluster.secret")
    }

    pub(super) fn voter(&self, index: usize) -> Result<Member, ClusterError> {
        let host = self.voter_host(index);
        let dir = self.dir.join(format!("voter-{}", index + 1));
        let text = format!(
            "{}[cluster]\nsecret_file = \"{}\"\n\
             [meta]\nid = {}\ndir = \"{dir}\"\nlisten = \"{ip}:{CONTROL_PORT}\"\n\
             advertise = \"{ip}:{CONTROL_PORT}\"\ninitial_voters = [{}]\n",
            worker_table(&host, ""),
            self.secret_file().display(),
            index + 1,
            self.initial_voters(),
            ip = host.ip,
            dir = dir.display(),
        );
        self.member(host, dir, &format!("voter-{}", index + 1), &text)
    }

    pub(super) fn worker(&self, index: usize) -> Result<Member, ClusterError> {
        let host = self.network.host(FIRST_WORKER_HOST + index as u8);
        let dir = self.dir.join(format!("worker-{}", index + 1));
        let bound =
            self.bound_seconds.map(|s| format!("bound_seconds = {s}\n")).unwrap_or_default();
        let drain =
            format!("drain_seconds = {}\nlisten = \"{}:{S3_PORT}\"\n", self.drain_seconds, host.ip);
        let text = format!(
            "{}[[disk]]\npath = \"{dir}\"\ncapacity = {:?}\n\
             [cache]\nread_ahead_blocks = {}\n\
             [cluster]\nsecret_file = \"{}\"\nvoters = [{}]\ndata_listen = \"{}:{DATA_PORT}\"\n\
             [[bucket]]\nname = {:?}\norigin = {:?}\nregion = \"us-east-1\"\nfreshness = {:?}\n{bound}",
            worker_table(&host, &drain),
            self.capacity,
            self.read_ahead_blocks,
            self.secret_file().display(),
            self.voter_list(),
            host.ip,
            self.bucket,
            self.origin,
            self.freshness,
            dir = dir.display(),
        );
        self.member(host, dir, &format!("worker-{}", index + 1), &text)
    }

    fn member(
        &self,
        host: Host,
        dir: PathBuf,
        name: &str,
        config: &str,
    ) -> Result<Member, ClusterError> {
        write_private(&self.secret_file(), SECRET)?;
        let path = self.dir.join(format!("{name}.toml"));
        write_private(&path, config)?;
        let launch = host
            .launch(&self.binary)
            .arg("serve")
            .arg("--exit-with-stdin")
            .arg("--config")
            .arg(&path)
            .env("AWS_ACCESS_KEY_ID", &self.origin_key.id)
            .env("AWS_SECRET_ACCESS_KEY", &self.origin_key.secret)
            .env("AWS_SESSION_TOKEN", "")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("FOREBAY_ACCESS_KEY_ID", &self.client_key.id)
            .env("FOREBAY_SECRET_ACCESS_KEY", &self.client_key.secret);
        Ok(Member::new(host, dir, path, launch))
    }

    fn voter_host(&self, index: usize) -> Host {
        self.network.host(1 + index as u8)
    }

    fn voter_addrs(&self) -> impl Iterator<Item = String> {
        (0..self.voters).map(|index| format!("{}:{CONTROL_PORT}", self.voter_host(index).ip))
    }

    fn voter_list(&self) -> String {
        quoted(self.voter_addrs())
    }

    fn initial_voters(&self) -> String {
        quoted(self.voter_addrs().enumerate().map(|(index, addr)| format!("{}={addr}", index + 1)))
    }
}

fn worker_table(host: &Host, more: &str) -> String {
    format!("[worker]\nadmin_listen = \"{}:{ADMIN_PORT}\"\n{more}", host.ip)
}

fn quoted(items: impl Iterator<Item = String>) -> String {
    items.fold(String::new(), |mut list, item| {
        let separator = if list.is_empty() { "" } else { ", " };
        // Writing to a string does not fail.
        let _ = write!(list, "{separator}{item:?}");
        list
    })
}

fn write_private(path: &Path, text: &str) -> Result<(), ClusterError> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let file = options.create(true).truncate(true).write(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|source| ClusterError::Files { path: path.to_owned(), source })
}
