//! What may not be in the dependency graph, and what only once.

use std::collections::BTreeSet;

use crate::failure::{Failure, Result, While};
use crate::workspace::Workspace;

/// A second TLS or crypto stack: each comes in by somebody's default features.
const BANNED: [&str; 4] = ["aws-lc-sys", "aws-lc-rs", "openssl-sys", "native-tls"];
/// Two of these are two connection pools, two TLS configurations, two sets of types.
const ONCE: [&str; 2] = ["hyper", "rustls"];

/// Looks at everything that is built, for tests and build scripts as well.
pub(crate) fn dependencies(workspace: &Workspace) -> Result<()> {
    let mut tree = workspace.cargo();
    tree.args(["tree", "--workspace", "--locked", "--prefix", "none", "--format", "{p}"]);
    tree.args(["--edges", "normal,build,dev"]);
    let output = tree.output().while_doing(|| "run cargo tree".to_owned())?;
    if !output.status.success() {
        return Err(Failure::new(String::from_utf8_lossy(&output.stderr)));
    }
    match complaints(&String::from_utf8_lossy(&output.stdout)).as_slice() {
        [] => Ok(()),
        complaints => Err(Failure::new(complaints.join("; "))),
    }
}

/// `tree` has a line `name vVERSION ...` per package.
fn complaints(tree: &str) -> Vec<String> {
    let packages: BTreeSet<(&str, &str)> = tree
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.next()?))
        })
        .collect();
    let versions = |name: &str| -> Vec<&str> {
        packages.iter().filter(|(n, _)| *n == name).map(|(_, version)| *version).collect()
    };
    let banned = BANNED
        .iter()
        .filter(|name| !versions(name).is_empty())
        .map(|name| format!("{name} is in the graph: `cargo tree -i {name}` says who brings it"));
    let not_once = ONCE
        .iter()
        .filter(|name| versions(name).len() != 1)
        .map(|name| format!("{name} should be there once, found [{}]", versions(name).join(", ")));
    banned.chain(not_once).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: &str = "forebay v0.1.0 (/x)\nhyper v1.12.0\nhyper v1.12.0 (*)\nrustls v0.23.46\n";

    #[test]
    fn one_hyper_one_rustls_and_no_second_tls_stack_is_fine() {
        assert_eq!(complaints(CLEAN), Vec::<String>::new());
    }

    #[test]
    fn a_banned_package_a_second_version_and_a_missing_one_are_each_named() {
        let tree = "hyper v1.12.0\nhyper v0.14.32\naws-lc-sys v0.47.0\n";
        let complaints = complaints(tree).join("\n");
        for named in ["aws-lc-sys is in", "[v0.14.32, v1.12.0]", "rustls should be there once"] {
            assert!(complaints.contains(named), "{named}: {complaints}");
        }
    }
}
