//! The Forebay binary.
//!
//! Only the command line lives here: what a worker is, is put together in `forebay-node`.
//! Exit codes: 0 ok, 1 error, 2 usage or configuration, 3 unhealthy.

mod bench;
mod cli;
mod cluster_table;
mod consent;
mod demo;
mod demo_origin;
mod meta;
mod output;
mod ring;
mod rules;
mod serve;
mod signals;
mod status;
mod table;
mod voters;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use forebay_bench::BenchError;
use forebay_node::control::ControlError;
use forebay_node::{ConfigError, StatusError};

use cli::{Cli, Command};

const EXIT_ERROR: u8 = 1;
pub(crate) const EXIT_USAGE: u8 = 2;

/// Blocking work that outlives its request (a disk that hangs) does not hold up the exit.
const LAST_WORK_LIMIT: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            output::complain(&format!("error: {}", explain(&error)));
            ExitCode::from(exit_code(&error))
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("start the async runtime")?;
    let code = runtime.block_on(async {
        match cli.command {
            Command::Serve(args) => Box::pin(serve::run(*args)).await,
            Command::Status(args) => status::run(args).await,
            Command::Ring(command) => ring::run(command).await,
            Command::Meta(command) => meta::run(command).await,
            Command::Rules(command) => rules::run(command).await,
            Command::Bench(command) => bench::run(command).await,
            Command::Demo(args) => demo::run(args).await,
            Command::DemoOrigin(args) => demo_origin::run(&args).await,
        }
    });
    runtime.shutdown_timeout(LAST_WORK_LIMIT);
    code
}

fn exit_code(error: &anyhow::Error) -> u8 {
    let no_url = matches!(error.downcast_ref(), Some(StatusError::Endpoint(_)));
    let misnamed = error.downcast_ref().is_some_and(ControlError::is_misnamed);
    let misused = error.downcast_ref().is_some_and(BenchError::is_misuse);
    if no_url || misnamed || misused || error.is::<ConfigError>() { EXIT_USAGE } else { EXIT_ERROR }
}

/// The error and its causes, without those that are quoted already: many errors put their
/// cause before what to do about it.
fn explain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cause_is_said_twice() {
        let io = std::io::Error::other("disk on fire");
        let error =
            anyhow::Error::new(io).context("open /x: disk on fire: pour water").context("start");
        assert_eq!(explain(&error), "start: open /x: disk on fire: pour water");
        assert_eq!(explain(&anyhow::anyhow!("why").context("what")), "what: why");
    }
}
