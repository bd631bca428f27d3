//! From what was typed to what it means.

use std::time::Duration;

use forebay_telemetry::LogFormat;

use super::error::{ConfigError, Refusal};
use super::layers::{Environment, Flags, Knob, Layers, Secrets};
use super::raw::{RawCluster, RawConfig};
use super::{Config, Role, address, cluster, meta, worker};

/// Loopback: the page says which buckets there are, and asks nobody for a key.
const DEFAULT_ADMIN_LISTEN: &str = "127.0.0.1:9600";
/// Shorter than the 30 s that Kubernetes waits before it kills.
const DEFAULT_DRAIN_SECONDS: u64 = 25;
const MAX_DRAIN_SECONDS: u64 = 24 * 3600;

impl Config {
    /// Gives what was typed its meaning: flags over environment over file over defaults.
    pub fn resolve(
        mut file: RawConfig,
        env: &Environment,
        flags: &Flags,
    ) -> Result<Self, ConfigError> {
        let layers = Layers { flags, env, secrets: Secrets::Here };
        let mut warnings = Vec::new();
        let own = &mut file.worker;
        let admin =
            layers.or_file(Knob::AdminListen, "worker.admin_listen", own.admin_listen.take());
        let drain = layers.or_file(Knob::DrainSeconds, "worker.drain_seconds", own.drain_seconds);
        let log = layers.or_file(Knob::LogFormat, "worker.log", own.log.take());
        Ok(Self {
            admin_listen: address::listen(admin, DEFAULT_ADMIN_LISTEN)?,
            drain: drain
                .map_or(Ok(Duration::from_secs(DEFAULT_DRAIN_SECONDS)), |s| s.parse(seconds))?,
            log_format: log.map_or(Ok(LogFormat::Text), |s| s.parse(log_format))?,
            role: role(file, layers, &mut warnings)?,
            warnings,
        })
    }
}

/// A voter without disks and buckets is that and nothing else.
fn role(
    file: RawConfig,
    layers: Layers<'_>,
    warnings: &mut Vec<String>,
) -> Result<Role, ConfigError> {
    const OF_A_WORKER: [Knob; 3] = [Knob::CacheDir, Knob::Origin, Knob::Bucket];
    let serves = !file.disk.is_empty() || !file.bucket.is_empty() || layers.any(&OF_A_WORKER);
    if serves || !meta::is_given(file.meta.as_ref(), layers) {
        return worker::resolve(file, layers, warnings).map(Box::new).map(Role::Worker);
    }
    refuse_what_only_workers_have(&file, layers)?;
    let cluster = file.cluster.unwrap_or_default();
    let secret = cluster::secret(cluster.secret_file.as_deref(), layers, warnings)?;
    meta::resolve(file.meta.unwrap_or_default(), secret, layers).map(Box::new).map(Role::Voter)
}

/// Whoever says how a worker serves wants one, and forgot its disk.
fn refuse_what_only_workers_have(file: &RawConfig, layers: Layers<'_>) -> Result<(), ConfigError> {
    let (worker, default) = (&file.worker, RawCluster::default());
    let cluster = file.cluster.as_ref().unwrap_or(&default);
    let of_file = [
        ("worker.listen", worker.listen.is_some()),
        ("worker.domains", !worker.domains.is_empty()),
        ("worker.congestion", worker.congestion.is_some()),
        ("worker.tls_listen", worker.tls_listen.is_some()),
        ("worker.tls_certificate_file", worker.tls_certificate_file.is_some()),
        ("worker.tls_key_file", worker.tls_key_file.is_some()),
        ("auth", file.auth.is_given()),
        ("cluster.data_listen", cluster.data_listen.is_some()),
        ("cluster.data_advertise", cluster.data_advertise.is_some()),
        ("cluster.s3_advertise", cluster.s3_advertise.is_some()),
        ("cluster.zone", cluster.zone.is_some()),
    ];
    let of_file = of_file.iter().find(|(_, is_given)| *is_given).map(|(key, _)| (*key).to_owned());
    let only_workers = [
        Knob::Listen,
        Knob::Capacity,
        Knob::Auth,
        Knob::DataListen,
        Knob::DataAdvertise,
        Knob::S3Advertise,
        Knob::Zone,
    ];
    let given = only_workers.iter().find_map(|knob| layers.one(*knob)).map(|given| given.at);
    let Some(at) = given.or(of_file) else { return Ok(()) };
    Err(ConfigError::Conflict {
        at,
        reason: "is a worker's, and this process is a voter only: it has no [[disk]]".into(),
        fix: "add a [[disk]] (--cache-dir) to make it a worker too, or leave it out".into(),
    })
}

fn seconds(text: &str) -> Result<Duration, Refusal> {
    match text.parse::<u64>() {
        Ok(seconds) if seconds <= MAX_DRAIN_SECONDS => Ok(Duration::from_secs(seconds)),
        _ => Err(Refusal::new(
            "not a number of seconds",
            format!("write a whole number from 0 to {MAX_DRAIN_SECONDS}"),
        )),
    }
}

fn log_format(text: &str) -> Result<LogFormat, Refusal> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(Refusal::new("no such format", "use \"text\" or \"json\"")),
    }
}
