//! A worker's place among others: the secret, the voters, the addresses that others call.

use std::net::SocketAddr;
use std::path::Path;

use forebay_wire::{ClusterSecret, SecretError};

use super::address::{self, Advertise};
use super::error::{ConfigError, Refusal, missing};
use super::layers::{Knob, Layers};
use super::meta::{self, MetaConfig};
use super::raw::{RawCluster, RawMeta};
use super::secret_file::secret_at;

const DEFAULT_DATA_LISTEN: &str = "0.0.0.0:9100";

/// Settings that say of a worker that it is one of several.
const MEMBERSHIP: [Knob; 6] = [
    Knob::SecretFile,
    Knob::Voters,
    Knob::DataListen,
    Knob::DataAdvertise,
    Knob::S3Advertise,
    Knob::Zone,
];

/// A worker's place among others.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    /// What every worker and voter knows and nobody else.
    pub secret: ClusterSecret,
    /// Control ports of voters. The one of [`ClusterConfig::meta`] counts as well, and only
    /// beside it may this be empty.
    pub voters: Vec<String>,
    /// Where other workers are served.
    pub data_listen: SocketAddr,
    /// What other workers are told to call.
    pub data_advertise: Advertise,
    /// What clients that follow the ring are told to call.
    pub s3_advertise: Advertise,
    /// The failure domain; empty without one.
    pub zone: String,
    /// The voter in the same process, if it has one.
    pub meta: Option<MetaConfig>,
}

/// Whether anything says that the worker is one of several.
pub(super) fn is_given(
    raw: Option<&RawCluster>,
    meta: Option<&RawMeta>,
    layers: Layers<'_>,
) -> bool {
    raw.is_some() || layers.any(&MEMBERSHIP) || meta::is_given(meta, layers)
}

/// Gives a worker its place; `s3_listen` is where it serves clients.
pub(super) fn resolve(
    raw: RawCluster,
    raw_meta: Option<RawMeta>,
    s3_listen: SocketAddr,
    layers: Layers<'_>,
    warnings: &mut Vec<String>,
) -> Result<ClusterConfig, ConfigError> {
    let secret = secret(raw.secret_file.as_deref(), layers, warnings)?;
    let meta = meta::is_given(raw_meta.as_ref(), layers)
        .then(|| meta::resolve(raw_meta.unwrap_or_default(), secret.clone(), layers))
        .transpose()?;
    let listen = layers.or_file(Knob::DataListen, "cluster.data_listen", raw.data_listen);
    let data_listen = address::listen(listen, DEFAULT_DATA_LISTEN)?;
    let advertise = |knob, key, given, listen| {
        address::advertise(layers.or_file(knob, key, given), key, listen)
    };
    let zone = layers.or_file(Knob::Zone, "cluster.zone", raw.zone);
    Ok(ClusterConfig {
        secret,
        voters: voters(raw.voters, || meta.as_ref().map(MetaConfig::others), layers)?,
        data_listen,
        data_advertise: advertise(
            Knob::DataAdvertise,
            "cluster.data_advertise",
            raw.data_advertise,
            data_listen,
        )?,
        s3_advertise: advertise(
            Knob::S3Advertise,
            "cluster.s3_advertise",
            raw.s3_advertise,
            s3_listen,
        )?,
        zone: zone.map_or_else(String::new, |zone| zone.value),
        meta,
    })
}

/// The cluster's secret, from the file that the settings name.
pub(super) fn secret(
    file: Option<&Path>,
    layers: Layers<'_>,
    warnings: &mut Vec<String>,
) -> Result<ClusterSecret, ConfigError> {
    let file = file.map(Path::display);
    let given = layers.or_file(Knob::SecretFile, "cluster.secret_file", file).ok_or_else(|| {
        missing(
            "cluster.secret_file",
            "name the file with the secret that all workers and voters share, or say \
             --secret-file FILE",
        )
    })?;
    let secret = secret_at(Path::new(&given.value), &given.at, layers, warnings)?;
    given.parse(|_| ClusterSecret::from_text(secret.reveal()).map_err(too_short))
}

/// The voters that are named, else those that `of_meta` knows from a `[meta]`.
pub(super) fn voters(
    file: Vec<String>,
    of_meta: impl FnOnce() -> Option<Vec<String>>,
    layers: Layers<'_>,
) -> Result<Vec<String>, ConfigError> {
    let given = layers.all_or_file(Knob::Voters, "cluster.voters", file);
    if !given.is_empty() {
        return given.iter().map(|voter| voter.parse(address::host_port)).collect();
    }
    of_meta().ok_or_else(|| {
        missing(
            "cluster.voters",
            "name the control ports of the voters, such as [\"meta-0:9701\"], or say --voters \
             HOST:PORT,...",
        )
    })
}

fn too_short(SecretError::Short(bytes): SecretError) -> Refusal {
    Refusal::new(
        format!("holds a secret of {bytes} bytes, which can be guessed"),
        "make one with `head -c 32 /dev/urandom | base64`, and copy it to all workers and voters",
    )
}
