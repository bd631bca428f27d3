//! `.cargo/local.toml`: the build variables for cargo calls that do not come from xtask.
//!
//! Untracked, included by the tracked `.cargo/config.toml`. xtask alone writes it, so it
//! holds nothing but lines of the form `NAME = "value"` below `[env]`.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::failure::{Result, While};
use crate::workspace::{BUILD_VARIABLES, Variables};

const HEADER: &str = "# Written by `cargo xtask`; delete it to start over.\n[env]\n";

/// Makes the file say exactly this; no variables, no file.
pub(crate) fn write(root: &Path, variables: &Variables) -> Result<()> {
    let path = path(root);
    if variables.is_empty() {
        return match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).while_doing(|| format!("remove {}", path.display()))
            }
            _ => Ok(()),
        };
    }
    let text = render(variables);
    if fs::read_to_string(&path).is_ok_and(|present| present == text) {
        return Ok(());
    }
    fs::write(&path, text).while_doing(|| format!("write {}", path.display()))
}

/// What the file says now; an absent file says nothing.
pub(crate) fn read(root: &Path) -> Variables {
    parse(&fs::read_to_string(path(root)).unwrap_or_default())
}

fn path(root: &Path) -> PathBuf {
    root.join(".cargo/local.toml")
}

fn render(variables: &Variables) -> String {
    let line = |(name, value): &(&str, String)| format!("{name} = {value:?}\n");
    HEADER.to_owned() + &variables.iter().map(line).collect::<Vec<_>>().concat()
}

fn parse(text: &str) -> Variables {
    let value_of = |name: &str, line: &str| {
        let quoted = line.strip_prefix(name)?.strip_prefix(" = \"")?.strip_suffix('"')?;
        Some(quoted.replace("\\\"", "\"").replace("\\\\", "\\"))
    };
    text.lines()
        .filter_map(|line| {
            BUILD_VARIABLES.into_iter().find_map(|name| Some((name, value_of(name, line)?)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        let variables = vec![
            ("ROCKSDB_LIB_DIR", "/home/a b/.cache/x".to_owned()),
            ("BINDGEN_EXTRA_CLANG_ARGS", "-I/usr/lib/\"q\"".to_owned()),
        ];
        assert_eq!(parse(&render(&variables)), variables);
    }

    #[test]
    fn a_file_without_our_variables_says_nothing() {
        assert_eq!(parse("[env]\nOTHER = \"1\"\n# ROCKSDB_LIB_DIR = \"/x\"\n"), vec![]);
    }
}
