//! The checkout: where it is, what its lock file pins, and how cargo is called in it.
//!
//! The only place that makes a `cargo` command, so that every call sees the same build
//! variables and none of what `cargo run` left in our own environment.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result, While};
use crate::local_toml;

/// The variables that decide how librocksdb-sys is built.
pub(crate) const BUILD_VARIABLES: [&str; 4] =
    ["ROCKSDB_LIB_DIR", "ROCKSDB_STATIC", "LIBCLANG_PATH", "BINDGEN_EXTRA_CLANG_ARGS"];

/// Build variables and their values.
pub(crate) type Variables = Vec<(&'static str, String)>;

pub(crate) struct Workspace {
    root: PathBuf,
    /// What the person's shell says; `cargo run` also passes us what local.toml says.
    shell: Variables,
    /// What setup found or made, on top of the shell's.
    chosen: Variables,
}

impl Workspace {
    pub(crate) fn find() -> Result<Self> {
        let manifest_dir = env::var("CARGO_MANIFEST_DIR")
            .map_err(|_| Failure::new("start this as `cargo xtask <job>`"))?;
        let root = Path::new(&manifest_dir)
            .ancestors()
            .find(|dir| dir.join("Cargo.lock").is_file())
            .ok_or_else(|| Failure::new(format!("no Cargo.lock above {manifest_dir}")))?
            .to_owned();
        let written = local_toml::read(&root);
        let shell = BUILD_VARIABLES
            .into_iter()
            .filter_map(|name| Some((name, env::var(name).ok()?)))
            .filter(|variable| !written.contains(variable))
            .collect();
        Ok(Self { root, shell, chosen: Vec::new() })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A build variable that the shell sets.
    pub(crate) fn shell_variable(&self, name: &str) -> Option<&str> {
        self.shell.iter().find(|(n, _)| *n == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn choose(&mut self, variables: Variables) {
        self.chosen = variables;
    }

    /// `cargo`, in this checkout, with the build variables that hold for this run.
    pub(crate) fn cargo(&self) -> Command {
        let mut cargo = bare_cargo();
        cargo.current_dir(&self.root);
        for (name, value) in self.shell.iter().chain(&self.chosen) {
            cargo.env(name, value);
        }
        cargo
    }

    /// Where cargo puts what it builds.
    pub(crate) fn target_dir(&self) -> Result<PathBuf> {
        let output = self
            .cargo()
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .output()
            .while_doing(|| "run cargo metadata".to_owned())?;
        let metadata = String::from_utf8_lossy(&output.stdout);
        target_directory(&metadata)
            .map(PathBuf::from)
            .ok_or_else(|| Failure::new(String::from_utf8_lossy(&output.stderr)))
    }

    /// The locked version of a package that occurs once in Cargo.lock.
    pub(crate) fn locked_version(&self, package: &str) -> Result<String> {
        let path = self.root.join("Cargo.lock");
        let lock = fs::read_to_string(&path).while_doing(|| format!("read {}", path.display()))?;
        locked_version(&lock, package)
            .map(str::to_owned)
            .ok_or_else(|| Failure::new(format!("Cargo.lock has no package `{package}`")))
    }

    /// The root manifest's line for a workspace dependency, as it stands there.
    pub(crate) fn dependency_line(&self, package: &str) -> Result<String> {
        let path = self.root.join("Cargo.toml");
        let manifest =
            fs::read_to_string(&path).while_doing(|| format!("read {}", path.display()))?;
        manifest
            .lines()
            .find(|line| line.strip_prefix(package).is_some_and(|l| l.starts_with(" = ")))
            .map(str::to_owned)
            .ok_or_else(|| Failure::new(format!("{} has no `{package} = `", path.display())))
    }
}

/// `cargo` without what `cargo run` told *us*: build scripts that watch such variables
/// (ring's does) would otherwise run again after each switch between xtask and plain cargo.
pub(crate) fn bare_cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let told_to_us = |name: &str| {
        name.starts_with("CARGO_PKG_")
            || name.starts_with("CARGO_MANIFEST_")
            || BUILD_VARIABLES.contains(&name)
    };
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(told_to_us) {
            cargo.env_remove(name);
        }
    }
    cargo
}

fn target_directory(metadata: &str) -> Option<&str> {
    metadata.split_once("\"target_directory\":\"")?.1.split('"').next()
}

fn locked_version<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let entry = lock.split_once(&format!("name = \"{package}\"\nversion = \""))?.1;
    entry.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_package_is_read_from_the_lock_file() {
        let lock = "[[package]]\nname = \"a-b\"\nversion = \"0.19.0+11.8.1\"\nsource = \"x\"\n\n\
                    [[package]]\nname = \"b\"\nversion = \"2.0.0\"\n";
        assert_eq!(locked_version(lock, "b"), Some("2.0.0"));
        assert_eq!(locked_version(lock, "a-b"), Some("0.19.0+11.8.1"));
        assert_eq!(locked_version(lock, "a"), None);
    }

    #[test]
    fn the_target_directory_is_read_from_cargo_metadata() {
        let metadata = r#"{"packages":[],"target_directory":"/x/target","version":1}"#;
        assert_eq!(target_directory(metadata), Some("/x/target"));
    }
}
