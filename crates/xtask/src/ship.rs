//! The ship suite: tests of chart, dashboard, alerts, image and documents, in Python.

use std::process::Command;

use crate::cache::Cache;
use crate::failure::Result;
use crate::workspace::Workspace;
use crate::{clients, jobs, machine, ship_tools};

const SUITE: &str = "tests/ship";

/// pytest over the suite, ready to run against the binary that was built last.
pub(crate) fn suite(workspace: &Workspace) -> Result<Command> {
    let suite = workspace.root().join(SUITE);
    let cache = Cache::open()?;
    if !machine::runs("curl", &["--version"]) {
        machine::install("curl", &["curl"])?;
    }
    let python = clients::environment(&cache, &[suite.join("requirements.txt")])?;
    let mut pytest = clients::pytest(&python, &suite);
    pytest.env("FOREBAY_BIN", jobs::binary(workspace)?);
    match ship_tools::require(&cache)? {
        Some(tools) => pytest.env("FOREBAY_SHIP_TOOLS", tools),
        None => pytest.env_remove("FOREBAY_SHIP_TOOLS"),
    };
    Ok(pytest)
}
