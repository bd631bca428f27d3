//! A worker's config file, looked at again while the worker runs, for the rules in it.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::error::ConfigError;
use super::layers::{Environment, Flags, Layers, Secrets};
use super::raw::RawConfig;
use super::rules::{self, RuleSet};

/// A config file, and what goes before it. Environment and flags are those of the start.
#[derive(Clone)]
pub struct RulesFile {
    path: PathBuf,
    listen: SocketAddr,
    env: Environment,
    flags: Flags,
}

impl RulesFile {
    pub(super) fn new(path: PathBuf, listen: SocketAddr, layers: Layers<'_>) -> Self {
        Self { path, listen, env: layers.env.clone(), flags: layers.flags.clone() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The rules that the file and the files of secrets that it names hold now, with what should
    /// be known of them. `None`: it names no bucket, and leaves the rules to the cluster.
    ///
    /// Waits for disks.
    pub fn read(&self) -> Result<Option<(RuleSet, Vec<String>)>, ConfigError> {
        let raw = RawConfig::read(&self.path)?;
        let layers = Layers { flags: &self.flags, env: &self.env, secrets: Secrets::Here };
        let mut warnings = Vec::new();
        let rules = rules::resolve_own(raw.bucket, raw.auth, layers, &mut warnings)?;
        rules.as_ref().map_or(Ok(()), |rules| rules.refuse_loop(self.listen))?;
        Ok(rules.map(|rules| (rules, warnings)))
    }
}

/// Without the environment, which may hold secrets.
impl fmt::Debug for RulesFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RulesFile").field("path", &self.path).finish_non_exhaustive()
    }
}
