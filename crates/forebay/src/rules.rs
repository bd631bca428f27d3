//! `forebay rules`: the bucket rules and grants that all workers of a cluster share.

use std::process::ExitCode;

use anyhow::Context;
use forebay_node::config::rules;
use forebay_node::control::SCHEMA;
use serde::Serialize;

use crate::cli::{AskArgs, RulesApplyArgs, RulesCommand};
use crate::output::{complain, print};
use crate::ring::Changed;
use crate::voters;

/// The rules, as they were written.
#[derive(Debug, Serialize)]
struct Shown {
    schema: u32,
    /// `None` where each worker has its own.
    version: Option<u64>,
    toml: Option<String>,
}

/// Looks at the rules or replaces them.
pub(crate) async fn run(command: RulesCommand) -> anyhow::Result<ExitCode> {
    match command {
        RulesCommand::Show(args) => show(args).await,
        RulesCommand::Apply(args) => apply(args).await,
    }
}

/// The text alone, so that it can be changed and applied again.
async fn show(args: AskArgs) -> anyhow::Result<ExitCode> {
    let rules = voters::control(args.cluster)?.rules().await?;
    if rules.is_none() {
        complain("the cluster has no rules: each worker goes by those of its own config file");
    }
    let (version, toml) = rules.map(|rules| (rules.version, rules.toml)).unzip();
    let shown = Shown { schema: SCHEMA, version, toml };
    print(args.output, &shown, || shown.toml.clone().unwrap_or_default())?;
    Ok(ExitCode::SUCCESS)
}

async fn apply(args: RulesApplyArgs) -> anyhow::Result<ExitCode> {
    let file = args.file.display();
    let text = std::fs::read_to_string(&args.file).with_context(|| format!("read {file}"))?;
    for warning in rules::check(&text).with_context(|| format!("check {file}"))? {
        complain(&format!("warning: {warning}"));
    }
    let revision = voters::control(args.ask.cluster)?.set_rules(&text).await?;
    Changed::print(args.ask.output, "the cluster has these rules", revision)
}
