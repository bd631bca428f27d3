//! ceph/s3-tests against an origin and through Forebay to it: the Python environment, the
//! origin's programs, and the runner in `tests/differential`.

use std::process::{Command, ExitCode};

use crate::cache::Cache;
use crate::failure::Result;
use crate::workspace::Workspace;
use crate::{clients, jobs, machine};

const HARNESS: &str = "tests/differential";

/// Builds Forebay and runs the comparison; `args` are the runner's own.
pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode> {
    let harness = workspace.root().join(HARNESS);
    if starts_rgw(args) {
        require_rgw()?;
    }
    let python = clients::environment(&Cache::open()?, &[harness.join("requirements.txt")])?;
    let binary = jobs::build(workspace)?;
    // Nothing of a run stays in the checkout: no bytecode.
    let mut runner = Command::new(python);
    runner.arg("-B").arg(harness.join("run.py")).arg("--forebay").arg(binary).args(args);
    machine::run(&mut runner)?;
    Ok(ExitCode::SUCCESS)
}

/// RGW is the runner's default.
fn starts_rgw(args: &[String]) -> bool {
    let is_help = |arg: &String| arg == "-h" || arg == "--help";
    !args.iter().any(|arg| is_help(arg) || arg == "moto" || arg == "--origin=moto")
}

/// Ceph's daemons, which the runner starts itself: nothing here becomes a service.
fn require_rgw() -> Result<()> {
    const PROGRAMS: [(&str, &str); 4] = [
        ("ceph", "ceph-common"),
        ("ceph-mon", "ceph-mon"),
        ("ceph-osd", "ceph-osd"),
        ("radosgw", "radosgw"),
    ];
    for (program, package) in PROGRAMS {
        if !machine::runs(program, &["--version"]) {
            machine::install(program, &[package])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceph_is_installed_only_for_a_run_that_starts_it() {
        let starts = |line: &str| {
            let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            starts_rgw(&args)
        };
        assert!(starts("--s3-tests /somewhere"));
        assert!(starts("--origin rgw"));
        assert!(!starts("--s3-tests /somewhere --origin moto"));
        assert!(!starts("--origin=moto"));
        assert!(!starts("--help"));
    }
}
