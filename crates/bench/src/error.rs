//! What can go wrong with a measurement, and what to do about it.

use std::io;
use std::path::PathBuf;

use crate::connection::AnswerError;

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// An argument that cannot be understood.
    #[error("{what} {value:?}: {reason}")]
    Argument {
        /// What kind of argument.
        what: &'static str,
        /// What was given.
        value: String,
        /// Why not, and what to write instead.
        reason: String,
    },
    /// Nothing to read.
    #[error("{0}")]
    NothingToRead(String),
    /// The objects cannot be listed.
    #[error("list s3://{bucket}/{prefix} at {target}: {reason}")]
    List {
        /// Whom was asked.
        target: String,
        /// The bucket.
        bucket: String,
        /// The prefix.
        prefix: String,
        /// What came back.
        reason: String,
    },
    /// Not reached, or not for long enough to measure anything.
    #[error("{target}: {source}")]
    Unreached {
        /// Who.
        target: String,
        /// Why.
        source: io::Error,
    },
    /// An answer that lies, or too many that fail.
    #[error("{target}: read {key}: {source}")]
    Answer {
        /// Who answered.
        target: String,
        /// Of which object.
        key: String,
        /// What is wrong.
        source: AnswerError,
    },
    /// Answers were still missing long after the end of a round.
    #[error("{target}: no answer within {limit_s} s after the end of a round")]
    Silent {
        /// Who.
        target: String,
        /// How long was waited.
        limit_s: u64,
    },
    /// A process whose CPU time was asked for.
    #[error("process {pid} of {target}: {source}: name running processes with --pid")]
    Process {
        /// Whose.
        target: String,
        /// Which.
        pid: u32,
        /// Why.
        source: io::Error,
    },
    /// The machine cannot be asked.
    #[error("{path}: {source}")]
    File {
        /// What was read or opened.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A thread of the load ended without a result.
    #[error("a thread of the load ended early")]
    Thread,
}

impl BenchError {
    pub(crate) fn argument(what: &'static str, value: &str, reason: impl Into<String>) -> Self {
        Self::Argument { what, value: value.to_owned(), reason: reason.into() }
    }

    /// Whether the command line is wrong, rather than what it names.
    pub fn is_misuse(&self) -> bool {
        matches!(self, Self::Argument { .. })
    }
}
