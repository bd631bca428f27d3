//! Who may ask: keys from the file and the environment, what the file grants callers without one,
//! or nobody is asked.

use forebay_s3::{AccessKey, BucketPattern, Effect, Grant};
use forebay_telemetry::Secret;
use forebay_types::BucketName;

use super::Auth;
use super::error::{ConfigError, Refusal, missing};
use super::layers::{Environment, Knob, Layers, Secrets, Setting};
use super::raw::{RawAuth, RawGrant, RawKey};
use super::secret_file::secret_at;

const KEY_ID: &str = "FOREBAY_ACCESS_KEY_ID";
const KEY_SECRET: &str = "FOREBAY_SECRET_ACCESS_KEY";

const BOTH_WAYS: &str = "set FOREBAY_ACCESS_KEY_ID and FOREBAY_SECRET_ACCESS_KEY (or write an \
    [[auth.key]] with a secret_file) for clients to sign with, list in auth.anonymous what those may \
    do that do not sign, or say --auth none (auth.mode = \"none\") to serve everybody who reaches \
    the port";

/// What the key in the environment may do: whoever sets it owns the worker.
const EVERYTHING: Grant = Grant {
    effect: Effect::Allow,
    bucket: BucketPattern::Any,
    prefix: String::new(),
    read: true,
    write: true,
    list: true,
};

/// Decides who may ask.
pub(super) fn resolve(
    raw: RawAuth,
    layers: Layers<'_>,
    warnings: &mut Vec<String>,
) -> Result<Auth, ConfigError> {
    let mode = layers.or_file(Knob::Auth, "auth.mode", raw.mode);
    let open = mode.map_or(Ok(false), |mode| mode.parse(is_open))?;
    let anonymous = anonymous(raw.anonymous, open, warnings)?;
    if open {
        warnings.push(
            "auth = \"none\": everybody who reaches the port can read and write every bucket \
             with Forebay's own origin credentials"
                .into(),
        );
        return Ok(Auth::Open);
    }
    let mut keys = Vec::new();
    for (index, key) in raw.key.into_iter().enumerate() {
        keys.push(file_key(key, &format!("auth.key[{index}]"), layers, warnings)?);
    }
    keys.extend(env_key(layers.env)?);
    refuse_twins(&keys)?;
    match layers.secrets {
        _ if !anonymous.is_empty() => {}
        Secrets::Here if keys.is_empty() => {
            return Err(missing("an access key for clients", BOTH_WAYS));
        }
        Secrets::Elsewhere if keys.is_empty() => warnings.push(format!(
            "auth has no key: only workers with {KEY_ID} in their environment can serve by it"
        )),
        _ => {}
    }
    Ok(Auth::Keys { keys, anonymous })
}

fn is_open(mode: &str) -> Result<bool, Refusal> {
    match mode {
        "keys" => Ok(false),
        "none" => Ok(true),
        _ => Err(Refusal::new("no such mode", "use \"keys\" or \"none\"")),
    }
}

fn file_key(
    raw: RawKey,
    at: &str,
    layers: Layers<'_>,
    warnings: &mut Vec<String>,
) -> Result<AccessKey, ConfigError> {
    let id = raw.id.filter(|id| !id.is_empty()).ok_or_else(|| {
        missing(format!("{at}.id"), "write the access key id that clients will use")
    })?;
    let path = raw.secret_file.ok_or_else(|| {
        missing(format!("{at}.secret_file"), "name the file that holds the key's secret")
    })?;
    let secret = secret_at(&path, &format!("{at}.secret_file"), layers, warnings)?;
    if raw.grants.is_empty() {
        let fix = "write grants = [{ bucket = \"*\", read = true, list = true }]";
        return Err(missing(format!("{at}.grants"), fix));
    }
    Ok(AccessKey { id: id.into(), secret, grants: grants(raw.grants, &format!("{at}.grants"))? })
}

/// What callers may do that do not sign.
fn anonymous(
    raw: Vec<RawGrant>,
    open: bool,
    warnings: &mut Vec<String>,
) -> Result<Vec<Grant>, ConfigError> {
    const AT: &str = "auth.anonymous";
    let conflict = |reason: &str, fix: &str| {
        Err(ConfigError::Conflict { at: AT.into(), reason: reason.into(), fix: fix.into() })
    };
    let grants = grants(raw, AT)?;
    let allows = |grant: &Grant| grant.effect == Effect::Allow;
    if !grants.is_empty() && open {
        return conflict(
            "with auth = \"none\" everybody may do everything, and no grant limits it",
            "leave one of the two out",
        );
    }
    if !grants.is_empty() && !grants.iter().any(allows) {
        let fix = "add a grant without deny, or leave auth.anonymous out";
        return conflict("only denies, where nothing is allowed", fix);
    }
    for (index, _) in grants.iter().enumerate().filter(|(_, grant)| allows(grant) && grant.write) {
        warnings.push(format!(
            "{AT}[{index}]: everybody who reaches the port can write there with Forebay's own \
             origin credentials"
        ));
    }
    Ok(grants)
}

fn grants(raw: Vec<RawGrant>, at: &str) -> Result<Vec<Grant>, ConfigError> {
    let grants = raw.into_iter().enumerate();
    grants.map(|(index, raw)| grant(raw, &format!("{at}[{index}]"))).collect()
}

fn grant(mut raw: RawGrant, at: &str) -> Result<Grant, ConfigError> {
    if !(raw.read || raw.write || raw.list) {
        return Err(missing(format!("{at}: a permission"), "write read, write or list = true"));
    }
    let bucket = raw
        .bucket
        .take()
        .ok_or_else(|| missing(format!("{at}.bucket"), "name a bucket, or \"*\" for all"))?;
    let bucket = Setting::new(format!("{at}.bucket"), bucket).parse(bucket_or_any)?;
    let RawGrant { prefix, read, write, list, deny, .. } = raw;
    let effect = if deny { Effect::Deny } else { Effect::Allow };
    Ok(Grant { effect, bucket, prefix, read, write, list })
}

/// A bucket's name, or `*`.
pub(super) fn bucket_or_any(name: &str) -> Result<BucketPattern, Refusal> {
    if name == "*" {
        return Ok(BucketPattern::Any);
    }
    let refusal = |_| {
        Refusal::new(
            "no bucket can have that name",
            "use 1 to 255 of a-z, A-Z, 0-9, '.', '-' and '_', or \"*\" for every bucket",
        )
    };
    BucketName::new(name).map(BucketPattern::Exactly).map_err(refusal)
}

fn env_key(env: &Environment) -> Result<Option<AccessKey>, ConfigError> {
    match (env.var(KEY_ID), env.var(KEY_SECRET)) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(missing(KEY_SECRET, format!("set it beside {KEY_ID}"))),
        (None, Some(_)) => Err(missing(KEY_ID, format!("set it beside {KEY_SECRET}"))),
        (Some(id), Some(secret)) => Ok(Some(AccessKey {
            id: id.into(),
            secret: Secret::new(secret),
            grants: vec![EVERYTHING],
        })),
    }
}

fn refuse_twins(keys: &[AccessKey]) -> Result<(), ConfigError> {
    for (index, key) in keys.iter().enumerate() {
        if keys[..index].iter().any(|other| other.id == key.id) {
            return Err(ConfigError::Conflict {
                at: format!("access key {:?}", key.id),
                reason: "is defined twice".into(),
                fix: "keep one of them: one key can have several grants".into(),
            });
        }
    }
    Ok(())
}
