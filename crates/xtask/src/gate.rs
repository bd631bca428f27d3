//! The checks in their order: `check` for between two edits, `test` for everything.
//!
//! All of it is built in release: the tests move gigabytes, and a second profile would
//! compile every dependency twice.

use std::process::{Command, ExitCode};

use crate::args::{Clients, Scope};
use crate::failure::Result;
use crate::step::Steps;
use crate::workspace::Workspace;
use crate::{clients, guards, machine, ship, tally};

/// Tells tests to use the large sizes that their promises are stated for.
const LONG: &str = "FOREBAY_LONG";

pub(crate) fn check(workspace: &Workspace) -> ExitCode {
    let mut steps = Steps::default();
    lints(&mut steps, workspace);
    let architecture = ["test", "--release", "--locked", "-p", "forebay-tests", "--test", "arch"];
    steps.tests("architecture", || Ok(cargo(workspace, &architecture)), tally::of_libtest);
    steps.close()
}

pub(crate) fn test(workspace: &Workspace, scope: &Scope) -> ExitCode {
    let mut steps = Steps::default();
    if let Some(filter) = &scope.filter {
        println!("only Rust tests matching `{filter}`: no fmt, clippy, guards, client suite");
    } else {
        lints(&mut steps, workspace);
        steps.check("dependency guards", || guards::dependencies(workspace));
    }
    steps.check("test tools", machine::require_test_tools);
    // With the tests, so that the binary and they agree on features and share one build.
    let build = ["build", "--release", "--locked", "--workspace", "--all-targets"];
    steps.check("build", || machine::run(&mut cargo(workspace, &build)));
    steps.tests("cargo test", || Ok(rust_tests(workspace, scope)), tally::of_libtest);
    if scope.filter.is_none() {
        steps.tests("client suite", || client_suite(workspace), tally::of_pytest);
        steps.tests("ship suite", || ship::suite(workspace), tally::of_pytest);
    }
    steps.close()
}

fn lints(steps: &mut Steps, workspace: &Workspace) {
    let fmt = ["fmt", "--all", "--check"];
    steps.check("fmt", || machine::run(&mut cargo(workspace, &fmt)));
    let clippy = ["clippy", "--release", "--locked", "--workspace", "--all-targets"];
    steps
        .check("clippy", || machine::run(cargo(workspace, &clippy).args(["--", "-D", "warnings"])));
}

fn rust_tests(workspace: &Workspace, scope: &Scope) -> Command {
    let mut tests = cargo(workspace, &["test", "--release", "--locked", "--workspace"]);
    tests.arg("--no-fail-fast").args(&scope.filter);
    if scope.long {
        tests.env(LONG, "1").args(["--", "--include-ignored"]);
    }
    tests
}

fn client_suite(workspace: &Workspace) -> Result<Command> {
    let mut suite = clients::suite(workspace, Clients::Promised)?;
    // Through a worker, whatever somebody was trying out in this shell.
    suite.env_remove(clients::DIRECT);
    Ok(suite)
}

fn cargo(workspace: &Workspace, args: &[&str]) -> Command {
    let mut cargo = workspace.cargo();
    cargo.args(args);
    cargo
}
