//! Which key a load signs with: the one that `forebay serve` would take for the same side.

use std::env::VarError;

use anyhow::bail;
use forebay_bench::Target;
use forebay_testkit::AccessKey;

use crate::cli::LoadArgs;

const DEFAULT_REGION: &str = "us-east-1";

/// A key and the region that signatures with it name, or none.
#[derive(Debug)]
pub(super) struct Keys(Option<(AccessKey, String)>);

impl Keys {
    /// What clients of a worker sign with.
    pub(super) fn of_clients(load: &LoadArgs) -> anyhow::Result<Self> {
        let key = pair(load, "FOREBAY_ACCESS_KEY_ID", "FOREBAY_SECRET_ACCESS_KEY")?;
        Ok(Self(key.map(|key| (key, DEFAULT_REGION.to_owned()))))
    }

    /// What is signed with at the origin.
    pub(super) fn of_the_origin(load: &LoadArgs) -> anyhow::Result<Self> {
        let key = pair(load, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")?;
        if key.is_some() && variable("AWS_SESSION_TOKEN")?.is_some() {
            bail!("AWS_SESSION_TOKEN is set: name a key that lasts, or measure with --unsigned");
        }
        let region = variable("AWS_REGION")?.unwrap_or_else(|| DEFAULT_REGION.to_owned());
        Ok(Self(key.map(|key| (key, region))))
    }

    /// Lets a target be asked with this key.
    pub(super) fn sign(&self, target: Target) -> Target {
        match &self.0 {
            Some((key, region)) => target.signed_by(key.clone(), region),
            None => target,
        }
    }
}

fn pair(load: &LoadArgs, id: &str, secret: &str) -> anyhow::Result<Option<AccessKey>> {
    if load.unsigned {
        return Ok(None);
    }
    match (variable(id)?, variable(secret)?) {
        (Some(id), Some(secret)) => Ok(Some(AccessKey::new(&id, &secret))),
        (None, None) => Ok(None),
        _ => bail!("only one of {id} and {secret} is set: set both, or ask with --unsigned"),
    }
}

/// Empty stands for unset.
fn variable(name: &str) -> anyhow::Result<Option<String>> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        // The error would quote the value.
        Err(VarError::NotUnicode(_)) => bail!("{name} is not text"),
    }
}
