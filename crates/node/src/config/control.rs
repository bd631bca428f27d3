//! What a command needs that asks the voters: who they are, and the secret that admits to them.

use forebay_wire::ClusterSecret;

use super::address::Advertise;
use super::cluster;
use super::error::ConfigError;
use super::layers::{Environment, Flags, Layers, Secrets};
use super::meta::{self, MetaConfig};
use super::raw::RawConfig;

/// Who the voters are, and the secret that admits to them.
#[derive(Debug, Clone)]
pub struct ControlConfig {
    /// What every worker and voter knows and nobody else.
    pub secret: ClusterSecret,
    /// Control ports of voters.
    pub voters: Vec<String>,
    /// What works but should be known.
    pub warnings: Vec<String>,
}

impl ControlConfig {
    /// Looks for both in the file of a worker or a voter, the environment and the flags.
    pub fn resolve(file: RawConfig, env: &Environment, flags: &Flags) -> Result<Self, ConfigError> {
        let layers = Layers { flags, env, secrets: Secrets::Here };
        let mut warnings = Vec::new();
        let cluster = file.cluster.unwrap_or_default();
        let secret = cluster::secret(cluster.secret_file.as_deref(), layers, &mut warnings)?;
        let meta = meta::is_given(file.meta.as_ref(), layers)
            .then(|| meta::resolve(file.meta.unwrap_or_default(), secret.clone(), layers))
            .transpose()?;
        let of_meta =
            || meta.map(|meta| meta.others().into_iter().chain(own_address(meta)).collect());
        let voters = cluster::voters(cluster.voters, of_meta, layers)?;
        Ok(Self { secret, voters, warnings })
    }
}

/// Where the voter of the file is, unless it takes any port.
fn own_address(meta: MetaConfig) -> Option<String> {
    match meta.advertise {
        Advertise::Written(address) => Some(address),
        Advertise::Taken => (meta.listen.port() != 0).then(|| meta.listen.to_string()),
    }
}
