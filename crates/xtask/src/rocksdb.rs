//! `librocksdb.a`, compiled once and linked by every profile of every checkout.
//!
//! RocksDB's C++ is two thirds of a cold build. A throwaway crate that depends on nothing but
//! `rocksdb`, by the workspace's own manifest line and lock file, builds it in release; the
//! archive goes into the cache under a name that says what it was made from, because
//! librocksdb-sys does not notice when the file behind ROCKSDB_LIB_DIR changes.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::Duration;

use crate::cache::{Cache, fingerprint};
use crate::failure::{Failure, Result, While};
use crate::machine;
use crate::step::Stopwatch;
use crate::workspace::{Variables, Workspace, bare_cargo};

const ARCHIVE: &str = "librocksdb.a";
const BETWEEN_CHECKS: Duration = Duration::from_secs(1);
const CHECKS_PER_REPORT: u32 = 30;

/// Finds or makes the archive; the variables librocksdb-sys needs to link it. None if it could
/// not be made: cargo then compiles RocksDB itself, slower and still right.
pub(crate) fn require(
    workspace: &Workspace,
    cache: &Cache,
    libclang: &Variables,
) -> Result<Variables> {
    if env::var("ROCKSDB_COMPILE").is_ok_and(|v| v == "1" || v.eq_ignore_ascii_case("true")) {
        return Ok(Variables::new());
    }
    if let Some(dir) = workspace.shell_variable("ROCKSDB_LIB_DIR") {
        return shell_library(workspace, Path::new(dir));
    }
    match shared_library(workspace, cache, libclang) {
        Ok(dir) => Ok(vec![
            ("ROCKSDB_LIB_DIR", dir.display().to_string()),
            ("ROCKSDB_STATIC", "1".to_owned()),
        ]),
        Err(failure) => {
            eprintln!("warning: no shared RocksDB, cargo compiles its own: {failure}");
            Ok(Variables::new())
        }
    }
}

fn shared_library(workspace: &Workspace, cache: &Cache, libclang: &Variables) -> Result<PathBuf> {
    let recipe = Recipe::of(workspace)?;
    cache.get_or_make(&recipe.directory_name(), |dir| {
        println!(
            "compiling RocksDB for {}\n  some 340 C++ files, about ten minutes on two idle cores, \
             once per machine",
            dir.with_file_name(recipe.directory_name()).display()
        );
        let crate_dir = cache.empty_dir("rocksdb-crate")?;
        let archive = recipe.build(workspace, &crate_dir, libclang)?;
        fs::copy(&archive, dir.join(ARCHIVE)).while_doing(|| format!("keep {ARCHIVE}"))?;
        fs::write(dir.join("recipe.txt"), &recipe.text).while_doing(|| "keep recipe".to_owned())?;
        fs::remove_dir_all(&crate_dir).while_doing(|| format!("remove {}", crate_dir.display()))
    })
}

/// The shell brought its own; without ROCKSDB_STATIC it means a shared library.
fn shell_library(workspace: &Workspace, dir: &Path) -> Result<Variables> {
    let is_static = workspace.shell_variable("ROCKSDB_STATIC").is_some();
    if is_static && !dir.join(ARCHIVE).is_file() {
        return Err(Failure::new(format!(
            "ROCKSDB_LIB_DIR={} holds no {ARCHIVE}; unset it to have one made",
            dir.display()
        )));
    }
    Ok(Variables::new())
}

/// All that decides which bytes come out.
struct Recipe {
    dependency_line: String,
    sys_version: String,
    lock_file: PathBuf,
    text: String,
}

impl Recipe {
    fn of(workspace: &Workspace) -> Result<Self> {
        let dependency_line = workspace.dependency_line("rocksdb")?;
        let sys_version = workspace.locked_version("librocksdb-sys")?;
        let mut lines = vec![dependency_line.clone()];
        for package in ["librocksdb-sys", "lz4-sys", "zstd-sys", "cc"] {
            lines.push(format!("{package} {}", workspace.locked_version(package)?));
        }
        let cxx = machine::cxx();
        lines.push(machine::output_of(&cxx, &["--version"])?.lines().take(1).collect());
        lines.push(machine::output_of(&cxx, &["-dumpmachine"])?);
        for flags in ["CXXFLAGS", "CFLAGS", "ROCKSDB_CXX_STD", "RUSTFLAGS"] {
            lines.push(format!("{flags}={}", env::var(flags).unwrap_or_default()));
        }
        let text = lines.join("\n") + "\n";
        let lock_file = workspace.root().join("Cargo.lock");
        Ok(Self { dependency_line, sys_version, lock_file, text })
    }

    fn directory_name(&self) -> String {
        format!("rocksdb-{}-{}", self.sys_version, fingerprint(&self.text))
    }

    /// The path of the finished archive.
    fn build(
        &self,
        workspace: &Workspace,
        crate_dir: &Path,
        libclang: &Variables,
    ) -> Result<PathBuf> {
        self.write_crate(crate_dir).while_doing(|| format!("write {}", crate_dir.display()))?;
        let target_dir = crate_dir.join("target");
        // ROCKSDB_COMPILE wins over any ROCKSDB_LIB_DIR that a config file above may set.
        let mut cargo = bare_cargo();
        cargo
            .args(["build", "--release", "--quiet"])
            .current_dir(crate_dir)
            .env("CARGO_TARGET_DIR", &target_dir)
            .env("ROCKSDB_COMPILE", "1");
        for name in ["LIBCLANG_PATH", "BINDGEN_EXTRA_CLANG_ARGS"] {
            if let Some(value) = workspace.shell_variable(name) {
                cargo.env(name, value);
            }
        }
        cargo.envs(libclang.iter().map(|(name, value)| (name, value)));
        let child = cargo.spawn().while_doing(|| "run cargo".to_owned())?;
        wait_with_reports(child, &target_dir)?;
        build_outputs(&target_dir)
            .map(|out| out.join(ARCHIVE))
            .find(|archive| archive.is_file())
            .ok_or_else(|| Failure::new(format!("the build left no {ARCHIVE}")))
    }

    fn write_crate(&self, crate_dir: &Path) -> std::io::Result<()> {
        // An own [workspace], so that no manifest above the cache takes the crate in. Cargo
        // drops what the copied lock file has too much and keeps the versions of the rest.
        let manifest = format!(
            "[package]\nname = \"rocksdb-archive\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
             [workspace]\n\n[dependencies]\n{}\n\n[profile.release]\ndebug = false\n",
            self.dependency_line
        );
        fs::write(crate_dir.join("Cargo.toml"), manifest)?;
        fs::copy(&self.lock_file, crate_dir.join("Cargo.lock"))?;
        fs::create_dir(crate_dir.join("src"))?;
        fs::write(crate_dir.join("src/lib.rs"), "")
    }
}

/// Cargo is silent while a build script runs, and this one runs for minutes.
fn wait_with_reports(mut child: Child, target_dir: &Path) -> Result<()> {
    let stopwatch = Stopwatch::start();
    for check in 1_u32.. {
        if let Some(status) = child.try_wait().while_doing(|| "wait for cargo".to_owned())? {
            return if status.success() {
                println!("  RocksDB is compiled, {stopwatch}");
                Ok(())
            } else {
                Err(Failure::new(format!("compiling RocksDB: {status}")))
            };
        }
        if check % CHECKS_PER_REPORT == 0 {
            println!("  {} files compiled, {stopwatch}", compiled_files(target_dir));
        }
        thread::sleep(BETWEEN_CHECKS);
    }
    Ok(())
}

fn compiled_files(target_dir: &Path) -> usize {
    let is_object = |file: &fs::DirEntry| file.path().extension().is_some_and(|e| e == "o");
    build_outputs(target_dir).flat_map(fs::read_dir).flatten().flatten().filter(is_object).count()
}

fn build_outputs(target_dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let is_rocksdb =
        |dir: &fs::DirEntry| dir.file_name().to_string_lossy().starts_with("librocksdb-sys-");
    let build_dirs = fs::read_dir(target_dir.join("release/build")).into_iter().flatten().flatten();
    build_dirs.filter(is_rocksdb).map(|dir| dir.path().join("out"))
}
