//! Forebay beside nginx, Varnish and cachey: the same data, all of it cached, the same client,
//! interleaved rounds. A program that prints tables, not a test.
//!
//! `cargo bench -p forebay-tests --bench peers -- [--reno] [--seconds 3] [--rounds 5]
//! [--relayed | --write docs/BENCHMARKS.md]`
//!
//! With --reno everything runs in a network namespace of its own (which needs root) where all
//! servers have the same congestion control, one that does not pace. A peer that is not installed
//! is skipped by name; `tests/bench/install-peers` installs them.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the tables are the point")]

mod options;
mod relayed;
mod server;
mod servers;
mod set;
mod table;

use anyhow::{Context, Result};
use forebay_bench::{BenchError, Case, Check, Pace, Plan, Row, Step, Workload, compare, warm};
use tempfile::TempDir;

use options::Options;
use server::Server;
use set::Set;
use table::Tables;

/// The version of a pattern object that has been written once.
const VERSION: Check = Check::Version(1);

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::read()?;
    if options.is_elsewhere() {
        return Options::run_in_a_namespace();
    }
    let mut tables = Tables::of_this_machine(&options)?;
    if !options.is_relayed_alone {
        tables.local = beside_others(options.pace()).await?;
    }
    tables.relayed = relayed::measure(options.pace()).await?;
    println!("{}", tables.markdown());
    options.write(&tables)
}

async fn beside_others(pace: Pace) -> Result<Vec<Row>> {
    let folder = TempDir::with_prefix("forebay-peers-").context("make a folder")?;
    let set = Set::write(&folder.path().join("files"))?;
    let servers = servers::start(folder.path(), &set).await?;
    let work = move || measure(&servers.compared, &set, pace);
    Ok(forebay_rt::spawn_blocking(work).await??)
}

fn measure(servers: &[Server], set: &Set, pace: Pace) -> Result<Vec<Row>, BenchError> {
    let mut rows = Vec::new();
    for workload in Workload::all() {
        let objects = workload.choose(set.objects())?;
        let plan = Plan::new(objects, workload.read, workload.order);
        let mut cases = Vec::new();
        for server in servers {
            let target = server.target();
            eprintln!("warm {}: {}", workload.name, target.name());
            if !warm(&target, &plan, VERSION)? {
                eprintln!("{}: not all of it is cached", target.name());
            }
            cases.push(Case::new(target, plan.clone(), workload.clone()));
        }
        rows.extend(compare_aloud(&cases, pace)?);
    }
    Ok(rows)
}

/// Says what is under way.
fn compare_aloud(cases: &[Case], pace: Pace) -> Result<Vec<Row>, BenchError> {
    compare(cases, pace, &mut |step: Step<'_>| {
        eprintln!("round {}: {} {}", step.round, step.workload, step.target);
        Ok(())
    })
}
