//! Logs: one line an event on standard error, filtered by `FOREBAY_LOG`.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For collectors: a JSON object a line.
    Json,
}

/// What is logged unless told otherwise.
const QUIET: &str =
    "info,s3s=off,openraft=off,aws_config=warn,aws_smithy_runtime=off,aws_runtime=off";

/// Starts logging for the process; a second call changes nothing.
///
/// `s3s` logs every bad signature as an error, so that any stranger could flood the log; the
/// AWS SDK logs what our own retries already count; openraft logs a dead voter several times a
/// second. They are off unless named.
pub fn init_logging(format: LogFormat) {
    let filter = EnvFilter::try_from_env("FOREBAY_LOG").unwrap_or_else(|_| EnvFilter::new(QUIET));
    let lines = tracing_subscriber::fmt()
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    // Already started (several nodes in one test process): the first one's choice stands.
    let _ = match format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
}
