//! The jobs that run Forebay: build the binary, then hand over to it or to the client suite.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::args::Clients;
use crate::failure::{Failure, Result};
use crate::step::Steps;
use crate::workspace::Workspace;
use crate::{clients, machine, ship, tally};

/// Becomes `forebay demo`, so that signals and the exit code are the demo's own.
pub(crate) fn demo(workspace: &Workspace, args: &[String]) -> Result<ExitCode> {
    let binary = build(workspace)?;
    let error = Command::new(&binary).arg("demo").args(args).exec();
    Err(Failure::new(format!("run {}: {error}", binary.display())))
}

pub(crate) fn clients(
    workspace: &Workspace,
    clients: Clients,
    pytest_args: &[String],
) -> Result<ExitCode> {
    build(workspace)?;
    let mut steps = Steps::default();
    let suite = || {
        let mut suite = clients::suite(workspace, clients)?;
        suite.args(pytest_args);
        Ok(suite)
    };
    steps.tests("client suite", suite, tally::of_pytest);
    Ok(steps.close())
}

pub(crate) fn ship(workspace: &Workspace, pytest_args: &[String]) -> Result<ExitCode> {
    build(workspace)?;
    let mut steps = Steps::default();
    let suite = || {
        let mut suite = ship::suite(workspace)?;
        suite.args(pytest_args);
        Ok(suite)
    };
    steps.tests("ship suite", suite, tally::of_pytest);
    Ok(steps.close())
}

/// Builds the release binary; its path.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf> {
    machine::run(workspace.cargo().args(["build", "--release", "--locked", "-p", "forebay"]))?;
    binary(workspace)
}

pub(crate) fn binary(workspace: &Workspace) -> Result<PathBuf> {
    Ok(workspace.target_dir()?.join("release/forebay"))
}
