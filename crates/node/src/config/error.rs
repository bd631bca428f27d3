//! What is wrong with a configuration: the key, the value, the reason, the fix.

use std::path::PathBuf;

/// Why a configuration was refused. Every text ends with what to do.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("read config {path}: {reason}: check the path given with --config", path = .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The file is not TOML.
    #[error("config line {line}: {reason}: correct the TOML of that line")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// What the parser said.
        reason: String,
    },
    /// A value has the wrong TOML type.
    #[error("config: {reason}: write a value of the expected type")]
    Type {
        /// What was found, what was expected and under which key.
        reason: String,
    },
    /// A key that means nothing.
    #[error("{at}: unknown key: {fix}")]
    UnknownKey {
        /// The key's path.
        at: String,
        /// The nearest known key, or all that are known there.
        fix: String,
    },
    /// A secret written into the file, where backups and readers of the file would find it.
    #[error(
        "{at}: the config file must not hold a secret: put it alone into a file that only Forebay's user can read, and name that file with {instead}"
    )]
    LiteralSecret {
        /// The key's path.
        at: String,
        /// The key that names a file.
        instead: &'static str,
    },
    /// A value that cannot be meant.
    #[error("{at} = {value:?}: {reason}: {fix}")]
    Value {
        /// Where it was given: a key, a flag or a variable.
        at: String,
        /// What was given.
        value: String,
        /// Why it cannot be.
        reason: String,
        /// What to write instead.
        fix: String,
    },
    /// A setting without which the worker cannot start.
    #[error("{at} is missing: {fix}")]
    Missing {
        /// What is missing.
        at: String,
        /// How to give it.
        fix: String,
    },
    /// Settings that contradict each other.
    #[error("{at}: {reason}: {fix}")]
    Conflict {
        /// The settings.
        at: String,
        /// The contradiction.
        reason: String,
        /// How to end it.
        fix: String,
    },
}

/// Why a value cannot be, before it is known where it was given.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) reason: String,
    pub(super) fix: String,
}

impl Refusal {
    pub(super) fn new(reason: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { reason: reason.into(), fix: fix.into() }
    }
}

pub(super) fn missing(at: impl Into<String>, fix: impl Into<String>) -> ConfigError {
    ConfigError::Missing { at: at.into(), fix: fix.into() }
}
