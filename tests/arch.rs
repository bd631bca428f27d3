//! The walls: who may import whom, read from `cargo metadata` and from the sources.
//!
//! A wall that is in the way is moved here, in the open, with its reason in `docs/adr/`.

#![expect(clippy::expect_used, reason = "a test says that it cannot go on by panicking")]

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

/// Each crate of ours and the crates of ours that it may import.
const EDGES: [(&str, &[&str]); 19] = [
    ("forebay-types", &[]),
    ("forebay-rt", &["types"]),
    ("forebay-telemetry", &["types"]),
    ("forebay-ring", &["types"]),
    ("forebay-wire", &["types", "rt"]),
    ("forebay-zerocopy", &["types", "rt"]),
    ("forebay-store", &["types", "rt", "telemetry", "zerocopy"]),
    ("forebay-origin", &["types", "rt", "telemetry"]),
    ("forebay-peer", &["types", "rt", "telemetry", "wire", "zerocopy"]),
    ("forebay-meta", &["types", "rt", "telemetry", "ring", "wire"]),
    ("forebay-client", &["types", "rt", "ring"]),
    ("forebay-cache", &["types", "rt", "telemetry", "zerocopy"]),
    ("forebay-s3", &["types", "rt", "telemetry", "zerocopy", "cache"]),
    (
        "forebay-node",
        &[
            "types",
            "rt",
            "telemetry",
            "ring",
            "wire",
            "zerocopy",
            "store",
            "origin",
            "peer",
            "meta",
            "cache",
            "s3",
        ],
    ),
    ("forebay", &["node", "bench", "testkit", "rt", "types"]),
    ("forebay-testkit", &["types", "rt"]),
    ("forebay-bench", &["types", "rt", "testkit"]),
    ("forebay-tests", &["node", "client", "bench", "testkit", "peer", "wire", "rt", "types"]),
    ("xtask", &[]),
];

/// Packages of others, named by a prefix, and the only crates of ours that may import them.
const ONLY_IN: [(&str, &[&str]); 11] = [
    ("aws-", &["forebay-origin"]),
    ("rocksdb", &["forebay-store", "forebay-meta"]),
    ("prost", &["forebay-wire"]),
    ("tonic", &["forebay-wire", "forebay-meta"]),
    ("consistent_hash_ring", &["forebay-ring"]),
    ("clap", &["forebay"]),
    ("metrics-exporter-", &["forebay-telemetry"]),
    ("s3s", &["forebay-s3"]),
    ("toml", &["forebay-node"]),
    ("axum", &[]),
    ("openraft", &["forebay-meta"]),
];

/// Signing is not the AWS SDK: the fault origin verifies with it, the client signs with it, `s3`
/// tests against it.
const SIGNING: [&str; 2] = ["aws-sigv4", "aws-credential-types"];

/// Crates that stay free of something, whatever else they may import.
const NEVER_IN: [(&str, &[&str]); 4] = [
    ("forebay-ring", &["tokio", "futures", "hyper", "http-body", "async-trait"]),
    ("forebay-types", &["tokio", "futures", "hyper", "http-body", "async-trait"]),
    ("forebay-cache", &["hyper"]),
    ("forebay-store", &["hyper"]),
];

const UNSAFE_ALLOWED: [&str; 2] = ["forebay-store", "forebay-zerocopy"];
const NAMES_THAT_SAY_NOTHING: [&str; 7] =
    ["util", "utils", "common", "misc", "manager", "helper", "helpers"];
const FILE_LINES_MAX: usize = 500;

#[test]
fn crates_of_ours_import_only_what_the_cut_allows() {
    let wrong = imports(|member, import| {
        let Some(name) = import.name.strip_prefix("forebay-") else { return false };
        let in_tests = import.is_dev && name == "testkit";
        !in_tests && !allowed_edges(member).contains(&name)
    });
    assert_nothing(wrong);
}

#[test]
fn every_crate_of_the_workspace_has_its_place_in_the_cut() {
    let members: Vec<_> = CRATES.iter().map(|member| member.name.as_str()).collect();
    for name in &members {
        assert!(EDGES.iter().any(|(known, _)| known == name), "{name} is not in EDGES");
    }
    for (name, _) in EDGES {
        assert!(members.contains(&name), "{name} is in EDGES and not in the workspace");
    }
}

#[test]
fn each_foreign_package_stays_behind_the_crate_that_wraps_it() {
    let wrong = imports(|member, import| {
        ONLY_IN.iter().any(|(prefix, homes)| {
            import.name.starts_with(prefix) && !homes.contains(&member) && !may_sign(member, import)
        })
    });
    assert_nothing(wrong);
}

#[test]
fn pure_crates_import_no_runtime_and_no_transport() {
    let wrong = imports(|member, import| {
        !import.is_dev
            && NEVER_IN.iter().any(|(name, banned)| {
                *name == member && banned.iter().any(|prefix| import.name.starts_with(prefix))
            })
    });
    assert_nothing(wrong);
}

#[test]
fn xtask_compiles_on_std_alone() {
    assert_nothing(imports(|member, _| member == "xtask"));
}

#[test]
fn unsafe_code_lives_in_store_and_zerocopy_alone() {
    let wrong = sources()
        .filter(|source| !UNSAFE_ALLOWED.contains(&source.member))
        .flat_map(|source| source.lines_with(says_unsafe));
    assert_nothing(wrong);
}

#[test]
fn no_crate_or_module_has_a_name_that_says_nothing() {
    let says_nothing = |name: &str| NAMES_THAT_SAY_NOTHING.contains(&name);
    let crates = CRATES.iter().map(|member| member.name.clone());
    let crates = crates.filter(|name| name.split('-').any(says_nothing));
    let modules = sources()
        .filter(|source| {
            let path = source.path.with_extension("");
            path.iter().any(|part| part.to_str().is_some_and(says_nothing))
        })
        .map(|source| source.to_string());
    assert_nothing(crates.chain(modules));
}

#[test]
fn no_source_file_is_longer_than_a_reader_keeps_in_mind() {
    let wrong = sources()
        .map(|source| (source.lines_without_tests(), source))
        .filter(|(lines, _)| *lines > FILE_LINES_MAX)
        .map(|(lines, source)| format!("{source} has {lines} lines"));
    assert_nothing(wrong);
}

#[test]
fn every_source_file_says_first_what_it_is_about() {
    let wrong = sources()
        .filter(|source| !source.is_test() && !source.text.starts_with("//! "))
        .map(|source| source.to_string());
    assert_nothing(wrong);
}

fn assert_nothing(wrong: impl IntoIterator<Item = String>) {
    let wrong: Vec<String> = wrong.into_iter().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A crate of the workspace, as its manifest declares it.
struct Member {
    name: String,
    dir: PathBuf,
    imports: Vec<Import>,
}

struct Import {
    name: String,
    is_dev: bool,
}

static CRATES: LazyLock<Vec<Member>> = LazyLock::new(|| {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    packages.iter().map(Member::of).collect()
});

impl Member {
    fn of(package: &Value) -> Self {
        let text = |value: &Value| value.as_str().expect("a string").to_owned();
        let import = |dependency: &Value| Import {
            name: text(&dependency["name"]),
            is_dev: dependency["kind"] == "dev",
        };
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        Self {
            name: text(&package["name"]),
            dir: manifest.parent().expect("a manifest is in a directory").to_owned(),
            imports: package["dependencies"].as_array().into_iter().flatten().map(import).collect(),
        }
    }
}

fn imports(is_wrong: impl Fn(&str, &Import) -> bool) -> Vec<String> {
    let wrong_in = |member: &'static Member| {
        let wrong = member.imports.iter().filter(|import| is_wrong(&member.name, import));
        wrong.map(|import| format!("{} imports {}", member.name, import.name)).collect::<Vec<_>>()
    };
    CRATES.iter().flat_map(wrong_in).collect()
}

fn allowed_edges(member: &str) -> &'static [&'static str] {
    EDGES.iter().find(|(name, _)| *name == member).map_or(&[], |(_, edges)| edges)
}

fn may_sign(member: &str, import: &Import) -> bool {
    let here = matches!(member, "forebay-testkit" | "forebay-client")
        || (member == "forebay-s3" && import.is_dev);
    here && SIGNING.contains(&import.name.as_str())
}

/// A Rust file of a crate of ours, its path from the crate's directory.
struct Source {
    member: &'static str,
    path: PathBuf,
    text: String,
}

impl Source {
    fn lines_with(&self, is_wrong: impl Fn(&str) -> bool) -> Vec<String> {
        let numbered = self.text.lines().enumerate().filter(|(_, line)| is_wrong(line));
        let at = |(index, line): (usize, &str)| format!("{self}:{}: {}", index + 1, line.trim());
        numbered.map(at).collect()
    }

    fn is_test(&self) -> bool {
        self.path.iter().any(|part| part == "tests" || part == "tests.rs")
    }

    /// Tests come last in a file, or have a file of their own.
    fn lines_without_tests(&self) -> usize {
        let code = self.text.lines().take_while(|line| *line != "#[cfg(test)]");
        if self.is_test() { 0 } else { code.count() }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.member, self.path.display())
    }
}

fn sources() -> impl Iterator<Item = Source> {
    CRATES.iter().flat_map(|member| {
        let mut files = Vec::new();
        rust_files(&member.dir, &mut files);
        files.into_iter().map(|file| Source {
            member: &member.name,
            text: fs::read_to_string(&file).expect("a source file is readable text"),
            path: file.strip_prefix(&member.dir).expect("below the crate").to_owned(),
        })
    })
}

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a readable directory") {
        let path = entry.expect("a directory entry").path();
        if path.is_dir() && !path.join("Cargo.toml").exists() && !path.ends_with("target") {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The keyword in code, or a lint switched off for it; not the word in a comment or a name.
fn says_unsafe(line: &str) -> bool {
    const KEYWORD: &str = concat!("un", "safe");
    let code = line.split("//").next().unwrap_or_default();
    let is_code = |(at, _): (usize, &str)| {
        let before = code[..at].chars().next_back();
        let after = code[at + KEYWORD.len()..].chars().next();
        let ends_a_name = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !ends_a_name(before) && !ends_a_name(after) && before != Some('"')
    };
    let switched_off = ["allow(", "expect("].iter().any(|lint| {
        code.split_once(lint).is_some_and(|(_, lints)| lints.contains(&format!("{KEYWORD}_code")))
    });
    switched_off || code.match_indices(KEYWORD).any(is_code)
}

#[test]
fn the_keyword_is_told_from_the_word() {
    let keyword = concat!("un", "safe");
    assert!(says_unsafe(&format!("    {keyword} {{ libc::close(fd) }};")));
    assert!(says_unsafe(&format!("#[expect({keyword}_code, reason = \"x\")]")));
    assert!(!says_unsafe(&format!("// {keyword} would be wrong here")));
    assert!(!says_unsafe(&format!("fn is_{keyword}_name() {{}}")));
}
