//! `forebay ring`: who owns how much, and who is in it at all.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use forebay_node::control::{SCHEMA, WorkerLine};
use forebay_node::status::{self, HandedOver};
use forebay_rt::{Clock, SystemClock};
use serde::Serialize;

use crate::cli::{AskArgs, DrainArgs, ForgetArgs, OneWorkerArgs, Output, RingCommand, RingSetArgs};
use crate::output::{human_bytes, print};
use crate::{EXIT_USAGE, cluster_table, consent, voters};

const HANDOVER_POLL: Duration = Duration::from_secs(1);

/// A change that the voters have made.
#[derive(Debug, Serialize)]
pub(crate) struct Changed {
    schema: u32,
    /// Of the view that has the change in it.
    revision: u64,
}

impl Changed {
    /// Says that `what` was done, with `revision`.
    pub(crate) fn print(output: Output, what: &str, revision: u64) -> anyhow::Result<ExitCode> {
        let changed = Self { schema: SCHEMA, revision };
        print(output, &changed, || format!("{what} (revision {revision})"))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Looks at the ring or changes it.
pub(crate) async fn run(command: RingCommand) -> anyhow::Result<ExitCode> {
    match command {
        RingCommand::Show(args) => show(args).await,
        RingCommand::Drain(args) => drain(args).await,
        RingCommand::Undrain(args) => undrain(args).await,
        RingCommand::Forget(args) => forget(args).await,
        RingCommand::Set(args) => set(args).await,
    }
}

async fn show(args: AskArgs) -> anyhow::Result<ExitCode> {
    let status = voters::control(args.cluster)?.status().await?;
    print(args.output, &cluster_table::RingView::of(&status), || cluster_table::ring(&status))?;
    Ok(ExitCode::SUCCESS)
}

async fn drain(DrainArgs { one, no_wait, endpoint }: DrainArgs) -> anyhow::Result<ExitCode> {
    let control = voters::control(one.ask.cluster)?;
    let worker = control.worker(&one.worker).await?;
    let revision = control.drain(&worker).await?;
    let mut what = format!("{} is to leave the ring", name(&worker));
    if !no_wait {
        control.until_drained(&worker).await?;
        what = format!("{} is out of the ring", name(&worker));
    }
    if let Some(endpoint) = endpoint {
        let HandedOver { taken, left, .. } = handed_over(&worker, &endpoint).await?;
        what = format!("{what}; others took {taken} of its extents, nobody {left}");
    }
    Changed::print(one.ask.output, &what, revision)
}

/// Waits until the worker says that it has offered all that it holds, for as long as it takes.
async fn handed_over(worker: &WorkerLine, endpoint: &str) -> anyhow::Result<HandedOver> {
    loop {
        let status = status::fetch(&SystemClock, endpoint).await?;
        let cluster = status.cluster.filter(|cluster| cluster.worker == worker.id.to_string());
        let cluster = cluster.with_context(|| {
            format!("{endpoint} is not {}: give that worker's admin address", name(worker))
        })?;
        match cluster.handed_over {
            Some(progress) if progress.done => return Ok(progress),
            _ => SystemClock.sleep(HANDOVER_POLL).await,
        }
    }
}

async fn undrain(args: OneWorkerArgs) -> anyhow::Result<ExitCode> {
    let control = voters::control(args.ask.cluster)?;
    let worker = control.worker(&args.worker).await?;
    let revision = control.undrain(&worker).await?;
    Changed::print(args.ask.output, &format!("{} is drained no more", name(&worker)), revision)
}

async fn forget(ForgetArgs { one, yes }: ForgetArgs) -> anyhow::Result<ExitCode> {
    let control = voters::control(one.ask.cluster)?;
    let worker = control.worker(&one.worker).await?;
    let plan = format!(
        "forget {}, which is {} and has {}\n\
         - what its disks hold stays there, and no other worker asks for it any more\n\
         - if it lives, it comes back with its next heartbeat",
        name(&worker),
        worker.state,
        human_bytes(worker.capacity_bytes)
    );
    if !consent::given(&plan, yes) {
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    let revision = control.forget(&worker).await?;
    Changed::print(one.ask.output, &format!("{} is forgotten", name(&worker)), revision)
}

async fn set(args: RingSetArgs) -> anyhow::Result<ExitCode> {
    let control = voters::control(args.ask.cluster)?;
    let seed = match args.seed {
        Some(seed) => seed,
        None => control.status().await?.ring.seed,
    };
    let revision = control.set_ring(args.virtual_nodes, seed).await?;
    let what = format!("the ring has {} virtual nodes, seed {seed}", args.virtual_nodes);
    Changed::print(args.ask.output, &what, revision)
}

fn name(worker: &WorkerLine) -> String {
    format!("worker {} ({})", worker.id, worker.s3)
}
