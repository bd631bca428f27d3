//! What the operator typed: the config file's tables, untouched.
//!
//! Unknown keys are found by [`super::known_keys`]; `deny_unknown_fields` stays as the second
//! net. Values are strings wherever [`super::resolve`] can say more about a bad one than the
//! TOML parser could.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Table;

use super::error::ConfigError;
use super::known_keys;
use super::layers::Environment;

/// The config file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawConfig {
    pub(super) worker: RawWorker,
    pub(super) disk: Vec<RawDisk>,
    pub(super) cache: RawCache,
    pub(super) auth: RawAuth,
    pub(super) bucket: Vec<RawBucket>,
    pub(super) cluster: Option<RawCluster>,
    pub(super) meta: Option<RawMeta>,
    /// Where all this stands; `None` for a text.
    #[serde(skip)]
    pub(super) path: Option<PathBuf>,
}

/// The part of a config file that voters replicate.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawRules {
    pub(super) auth: RawAuth,
    pub(super) bucket: Vec<RawBucket>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawWorker {
    pub(super) listen: Option<String>,
    pub(super) admin_listen: Option<String>,
    pub(super) domains: Vec<String>,
    pub(super) drain_seconds: Option<u64>,
    pub(super) congestion: Option<String>,
    pub(super) tls_listen: Option<String>,
    pub(super) tls_certificate_file: Option<PathBuf>,
    pub(super) tls_key_file: Option<PathBuf>,
    pub(super) log: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawDisk {
    pub(super) path: Option<PathBuf>,
    pub(super) capacity: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawCache {
    pub(super) read_ahead_blocks: Option<u64>,
    pub(super) fill_budget: Option<String>,
    pub(super) versions_in_memory: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawAuth {
    pub(super) mode: Option<String>,
    pub(super) key: Vec<RawKey>,
    pub(super) anonymous: Vec<RawGrant>,
}

impl RawAuth {
    pub(super) fn is_given(&self) -> bool {
        self.mode.is_some() || !self.key.is_empty() || !self.anonymous.is_empty()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawKey {
    pub(super) id: Option<String>,
    pub(super) secret_file: Option<PathBuf>,
    pub(super) grants: Vec<RawGrant>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "as the operator writes them")]
pub(super) struct RawGrant {
    pub(super) bucket: Option<String>,
    pub(super) prefix: String,
    pub(super) read: bool,
    pub(super) write: bool,
    pub(super) list: bool,
    pub(super) deny: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawBucket {
    pub(super) name: Option<String>,
    pub(super) origin: Option<String>,
    pub(super) region: Option<String>,
    pub(super) credentials: Option<String>,
    pub(super) access_key_id: Option<String>,
    pub(super) secret_key_file: Option<PathBuf>,
    pub(super) role_arn: Option<String>,
    pub(super) web_identity_token_file: Option<PathBuf>,
    pub(super) role_session_name: Option<String>,
    pub(super) sts_endpoint: Option<String>,
    pub(super) freshness: Option<String>,
    pub(super) bound_seconds: Option<u64>,
    pub(super) prefix: Vec<RawPrefix>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawPrefix {
    pub(super) prefix: Option<String>,
    pub(super) freshness: Option<String>,
    pub(super) bound_seconds: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawCluster {
    pub(super) secret_file: Option<PathBuf>,
    pub(super) voters: Vec<String>,
    pub(super) data_listen: Option<String>,
    pub(super) data_advertise: Option<String>,
    pub(super) s3_advertise: Option<String>,
    pub(super) zone: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawMeta {
    pub(super) id: Option<u64>,
    pub(super) dir: Option<PathBuf>,
    pub(super) listen: Option<String>,
    pub(super) advertise: Option<String>,
    pub(super) initial_voters: Vec<String>,
}

impl RawConfig {
    /// Reads the file that was named on the command line, else the one that `FOREBAY_CONFIG`
    /// names; without either, nothing is set.
    pub fn of(named: Option<PathBuf>, env: &Environment) -> Result<Self, ConfigError> {
        let path = named.or_else(|| env.var("FOREBAY_CONFIG").map(PathBuf::from));
        path.map_or_else(|| Ok(Self::default()), |path| Self::read(&path))
    }

    /// Reads a config file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|reason| ConfigError::Unreadable { path: path.into(), reason })?;
        Ok(Self { path: Some(path.into()), ..Self::parse(&text)? })
    }

    /// Reads the text of a config file.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        parse(text)
    }
}

impl RawRules {
    pub(super) fn parse(text: &str) -> Result<Self, ConfigError> {
        parse(text)
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, ConfigError> {
    let table: Table = toml::from_str(text).map_err(|error| syntax_error(text, &error))?;
    known_keys::check::<T>(&table)?;
    table.try_into().map_err(|error: toml::de::Error| ConfigError::Type {
        reason: error.to_string().split_whitespace().collect::<Vec<_>>().join(" "),
    })
}

/// The parser's message and line, but not the line's text, which may hold a secret.
fn syntax_error(text: &str, error: &toml::de::Error) -> ConfigError {
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    ConfigError::Syntax { line, reason: error.message().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        RawConfig::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_syntax_error_names_the_line_but_does_not_quote_it() {
        let text = refusal("[worker]\n\n[[auth.key]]\nsecret_file = \"hunter2\n");
        assert!(text.starts_with("config line 4:"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }

    #[test]
    fn a_value_of_the_wrong_type_is_named_with_its_key() {
        let text = refusal("[worker]\ndrain_seconds = 'soon'");
        assert!(text.contains("worker.drain_seconds") && text.contains("soon"), "{text}");
    }

    #[test]
    fn rules_know_no_table_that_is_a_workers_own() {
        let text = RawRules::parse("[worker]\nlisten = 'x'").unwrap_err().to_string();
        assert_eq!(text, "worker: unknown key: use one of auth, bucket");
    }
}
