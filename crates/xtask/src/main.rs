//! `cargo xtask <job>`: what the README tells people to run, and what CI runs.
//!
//! Built on std alone, so that it compiles in a second on a machine that has nothing yet.
//! It owns the way from a bare machine to a fast build (`setup`) and the order of the
//! checks (`gate`). It knows nothing of how Forebay works: what is tested lives in tests.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this program talks to a terminal")]

mod args;
mod cache;
mod clients;
mod differential;
mod failure;
mod gate;
mod guards;
mod jobs;
mod libclang;
mod local_toml;
mod machine;
mod rocksdb;
mod setup;
mod ship;
mod ship_tools;
mod step;
mod tally;
mod workspace;

use std::process::ExitCode;

use args::Job;
use failure::Result;
use workspace::Workspace;

const USAGE_ERROR: u8 = 2;

fn main() -> ExitCode {
    let job = match Job::parse(std::env::args().skip(1)) {
        Ok(job) => job,
        Err(complaint) => {
            eprintln!("error: {complaint}\n\n{}", args::USAGE);
            return ExitCode::from(USAGE_ERROR);
        }
    };
    match run(job) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(job: Job) -> Result<ExitCode> {
    if let Job::Help = job {
        println!("{}", args::USAGE);
        return Ok(ExitCode::SUCCESS);
    }
    let workspace = setup::prepare(Workspace::find()?)?;
    match job {
        Job::Help => Ok(ExitCode::SUCCESS),
        Job::Demo { args } => jobs::demo(&workspace, &args),
        Job::Clients { clients, pytest_args } => jobs::clients(&workspace, clients, &pytest_args),
        Job::Ship { pytest_args } => jobs::ship(&workspace, &pytest_args),
        Job::Differential { args } => differential::run(&workspace, &args),
        Job::Check => Ok(gate::check(&workspace)),
        Job::Test { scope } => Ok(gate::test(&workspace, &scope)),
    }
}
