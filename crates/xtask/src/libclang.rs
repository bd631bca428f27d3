//! libclang, which bindgen loads to read RocksDB's C header on every build.
//!
//! In this order: what the shell names, what the system has, the Debian package where we are
//! root, the wheel from PyPI in the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::Cache;
use crate::failure::{Failure, Result};
use crate::machine;
use crate::workspace::{Variables, Workspace};

const WHEEL: &str = "libclang==18.1.1";
/// Patterns of bindgen's own search, one level of `*` each.
const SYSTEM_DIRS: [&str; 6] = [
    "/usr/lib/llvm-*/lib",
    "/usr/lib/*-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/local/llvm*/lib",
];

/// Finds or installs libclang; the variables bindgen needs to use it.
pub(crate) fn require(workspace: &Workspace, cache: &Cache) -> Result<Variables> {
    if workspace.shell_variable("LIBCLANG_PATH").is_some() {
        return Ok(Variables::new());
    }
    if system_has_library() {
        return system_variables(workspace);
    }
    match machine::install("libclang", &["libclang-dev"]) {
        Ok(()) => system_variables(workspace),
        Err(no_package) => from_wheel(workspace, cache).map_err(|no_wheel| {
            Failure::new(format!("{no_package}\nor give python3 pip: {no_wheel}"))
        }),
    }
}

/// The library alone (package libclang1) lacks `stdbool.h` and its kin; gcc's serve as well.
fn system_variables(workspace: &Workspace) -> Result<Variables> {
    let has_headers = ["/usr/lib/llvm-*/lib/clang/*/include", "/usr/lib/clang/*/include"]
        .iter()
        .flat_map(|pattern| expand(pattern))
        .any(|dir| dir.join("stdbool.h").is_file());
    if has_headers { Ok(Variables::new()) } else { gcc_headers(workspace) }
}

fn from_wheel(workspace: &Workspace, cache: &Cache) -> Result<Variables> {
    let dir = cache.get_or_make(&WHEEL.replace("==", "-"), |dir| {
        println!("unpacking {WHEEL} from PyPI into the cache");
        let pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"];
        machine::run(Command::new("python3").args(pip).arg("--target").arg(dir).arg(WHEEL))
    })?;
    let library_dir = dir.join("clang/native").display().to_string();
    let mut variables = vec![("LIBCLANG_PATH", library_dir)];
    variables.extend(gcc_headers(workspace)?);
    Ok(variables)
}

fn gcc_headers(workspace: &Workspace) -> Result<Variables> {
    const NAME: &str = "BINDGEN_EXTRA_CLANG_ARGS";
    if workspace.shell_variable(NAME).is_some() {
        return Ok(Variables::new());
    }
    let dir = machine::output_of(&machine::cxx(), &["-print-file-name=include"])?;
    Ok(vec![(NAME, format!("-I{dir}"))])
}

fn system_has_library() -> bool {
    let is_libclang = |file: PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (name.starts_with("libclang.so") || name.starts_with("libclang-"))
            && name.contains(".so")
            && !name.contains("-cpp")
    };
    SYSTEM_DIRS.iter().flat_map(|pattern| expand(pattern)).any(|d| files_in(&d).any(is_libclang))
}

/// The directories that a pattern names; `*` stands within one component.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/")];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        found = match part.split_once('*') {
            None => found.into_iter().map(|dir| dir.join(part)).collect(),
            Some((head, tail)) => found
                .iter()
                .flat_map(|dir| files_in(dir))
                .filter(|entry| {
                    let name = entry.file_name().unwrap_or_default().to_string_lossy();
                    name.starts_with(head) && name.ends_with(tail)
                })
                .collect(),
        };
    }
    found
}

fn files_in(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text_within_one_component() {
        assert_eq!(expand("/pro*/self"), vec![PathBuf::from("/proc/self")]);
        assert_eq!(expand("/proc/se*"), vec![PathBuf::from("/proc/self")]);
        assert!(expand("/no-such-*/lib").is_empty());
    }
}
