//! Bucket rules and grants: those of a config file, and the text of them that voters replicate.
//!
//! The text is the config file's `[auth]` and `[[bucket]]` tables and no others. Secrets are
//! named by file in it, never contained, so every worker needs the same files.

use std::net::SocketAddr;

use super::error::{ConfigError, missing};
use super::layers::{Environment, Flags, Knob, Layers, Secrets};
use super::raw::{RawAuth, RawBucket, RawRules};
use super::{Auth, BucketRule, auth, buckets};

/// Which buckets there are, and who may ask for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSet {
    /// What may be asked for; at least one.
    pub buckets: Vec<BucketRule>,
    /// Who may ask.
    pub auth: Auth,
}

impl RuleSet {
    /// Refuses an origin that is this worker itself: each miss would ask it again, without end.
    pub fn refuse_loop(&self, listen: SocketAddr) -> Result<(), ConfigError> {
        buckets::refuse_loop(&self.buckets, listen)
    }
}

/// Gives the cluster's rules their meaning on this worker, with what should be known of them.
///
/// Files of secrets, the AWS region and the key in the environment are this worker's; its
/// other variables and its flags do not change what the cluster agreed on.
pub fn parse(text: &str, env: &Environment) -> Result<(RuleSet, Vec<String>), ConfigError> {
    meaning(text, env, Secrets::Here)
}

/// Checks rules on a machine that need not be a worker, and says what should be known of them.
pub fn check(text: &str) -> Result<Vec<String>, ConfigError> {
    meaning(text, &Environment::default(), Secrets::Elsewhere).map(|(_, warnings)| warnings)
}

fn meaning(
    text: &str,
    env: &Environment,
    secrets: Secrets,
) -> Result<(RuleSet, Vec<String>), ConfigError> {
    let raw = RawRules::parse(text)?;
    let layers = Layers { flags: &Flags::default(), env: &env.without_knobs(), secrets };
    let mut warnings = Vec::new();
    let rules = resolve(raw.bucket, raw.auth, layers, &mut warnings)?;
    Ok((rules, warnings))
}

/// Gives the rules of a file their meaning.
pub(super) fn resolve(
    buckets: Vec<RawBucket>,
    auth: RawAuth,
    layers: Layers<'_>,
    warnings: &mut Vec<String>,
) -> Result<RuleSet, ConfigError> {
    Ok(RuleSet {
        buckets: buckets::resolve(buckets, layers, warnings)?,
        auth: auth::resolve(auth, layers, warnings)?,
    })
}

/// The rules of a worker that may wait for those of its cluster.
pub(super) fn resolve_own(
    buckets: Vec<RawBucket>,
    auth: RawAuth,
    layers: Layers<'_>,
    warnings: &mut Vec<String>,
) -> Result<Option<RuleSet>, ConfigError> {
    if !buckets.is_empty() || layers.any(&[Knob::Origin, Knob::Bucket]) {
        return resolve(buckets, auth, layers, warnings).map(Some);
    }
    if auth.is_given() || layers.any(&[Knob::Auth]) {
        return Err(missing(
            "a bucket for auth",
            "write a [[bucket]] as well, or leave auth out: the cluster's rules bring their own",
        ));
    }
    Ok(None)
}
