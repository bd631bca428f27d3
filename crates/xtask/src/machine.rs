//! The machine: is a program there, and installing a Debian package where we may.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::{Failure, Result, While};

/// A C++ compiler, installed if need be.
pub(crate) fn require_cxx() -> Result<()> {
    if runs(cxx(), &["--version"]) {
        return Ok(());
    }
    install("a C++ compiler", &["build-essential"])?;
    if runs(cxx(), &["--version"]) {
        return Ok(());
    }
    Err(Failure::new(format!("`{}` does not run; check CXX", cxx())))
}

/// What the promises are proven with: programs that make system calls fail, that look into the
/// page cache, and that make networks and cut them. Installed if need be.
pub(crate) fn require_test_tools() -> Result<()> {
    const TOOLS: [(&str, &str, &str); 4] = [
        ("strace", "--version", "strace"),
        ("fincore", "--version", "util-linux-extra"),
        ("unshare", "--version", "util-linux"),
        ("ip", "-V", "iproute2"),
    ];
    for (program, version, package) in TOOLS {
        if !runs(program, &[version]) {
            install(program, &[package])?;
        }
    }
    Ok(())
}

/// The compiler that the `cc` crate will call.
pub(crate) fn cxx() -> String {
    std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned())
}

/// Whether the program starts and says yes.
pub(crate) fn runs(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> bool {
    let quiet =
        Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

/// What the program prints, trimmed.
pub(crate) fn output_of(program: &str, args: &[&str]) -> Result<String> {
    let output =
        Command::new(program).args(args).output().while_doing(|| format!("run {program}"))?;
    if !output.status.success() {
        return Err(Failure::new(format!("`{program} {}`: {}", args.join(" "), output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs a command to its end with our terminal; its failure is ours.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let name = name_of(command);
    let status = command.status().while_doing(|| format!("run {name}"))?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("{name}: {status}"))) }
}

/// `cargo fmt` for `/long/way/to/cargo fmt --all --check`.
pub(crate) fn name_of(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = [program].into_iter().chain(command.get_args().next());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Installs Debian packages, or says which line would.
pub(crate) fn install(what: &str, packages: &[&str]) -> Result<()> {
    let line = format!("apt-get install -y --no-install-recommends {}", packages.join(" "));
    if !is_root() || !runs("apt-get", &["--version"]) {
        return Err(Failure::new(format!("{what} is missing; run as root:\n    {line}")));
    }
    println!("{what} is missing: {line}");
    // A fresh image has no package lists, a stale one has dead links: both want the update.
    apt(&["install"], packages)
        .or_else(|_| apt(&["update"], &[]).and_then(|()| apt(&["install"], packages)))
        .while_doing(|| format!("install {what}"))
}

fn apt(verb: &[&str], packages: &[&str]) -> Result<()> {
    run(Command::new("apt-get")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["-y", "-qq", "--no-install-recommends"])
        .args(verb)
        .args(packages)
        .stdin(Stdio::null()))
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}
