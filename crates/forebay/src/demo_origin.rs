//! `forebay demo-origin`: the demo's distant origin, in a process of its own so that its work
//! is not mistaken for the worker's.

use std::process::ExitCode;

use anyhow::Context;
use forebay_testkit::origin::{OriginConfig, run_process};

use crate::cli::DemoOriginArgs;

/// Serves until it is ended.
pub(crate) async fn run(args: &DemoOriginArgs) -> anyhow::Result<ExitCode> {
    let config: OriginConfig =
        serde_json::from_str(&args.config).context("read the origin's description in --config")?;
    run_process(config).await.context("serve the demo's origin")?;
    Ok(ExitCode::SUCCESS)
}
