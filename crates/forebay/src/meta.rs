//! `forebay meta`: the voters, who they are, and what they know.

use std::process::ExitCode;

use forebay_node::control::{self, ClusterStatus, ControlError, Restore, Restored, Role, SCHEMA};
use serde::Serialize;

use crate::cli::{AddVoterArgs, AskArgs, MetaCommand, RemoveVoterArgs, RestoreArgs, SnapshotArgs};
use crate::output::{human_bytes, print};
use crate::ring::Changed;
use crate::{EXIT_USAGE, cluster_table, consent, voters};

/// Looks at the voters, changes, saves or restores them.
pub(crate) async fn run(command: MetaCommand) -> anyhow::Result<ExitCode> {
    match command {
        MetaCommand::Members(args) => members(args).await,
        MetaCommand::Add(args) => add(args).await,
        MetaCommand::Remove(args) => remove(args).await,
        MetaCommand::Snapshot(args) => snapshot(args).await,
        MetaCommand::Restore(args) => restore(args),
    }
}

async fn members(args: AskArgs) -> anyhow::Result<ExitCode> {
    let status = voters::control(args.cluster)?.status().await?;
    print(args.output, &cluster_table::MembersView::of(&status), || {
        cluster_table::members(&status)
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn add(AddVoterArgs { id, addr, ask }: AddVoterArgs) -> anyhow::Result<ExitCode> {
    let revision = voters::control(ask.cluster)?.add_voter(id, &addr).await?;
    Changed::print(ask.output, &format!("voter {id} ({addr}) is one of the group"), revision)
}

async fn remove(RemoveVoterArgs { id, ask, yes }: RemoveVoterArgs) -> anyhow::Result<ExitCode> {
    let control = voters::control(ask.cluster)?;
    let plan = removal_plan(&control.status().await?, id)?;
    if !consent::given(&plan, yes) {
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    let revision = control.remove_voter(id).await?;
    Changed::print(ask.output, &format!("voter {id} is out of the group"), revision)
}

fn removal_plan(status: &ClusterStatus, id: u64) -> Result<String, ControlError> {
    let group = || status.voters.iter().filter(|voter| voter.role != Role::Outside);
    let leaving =
        group().find(|voter| voter.id == Some(id)).ok_or(ControlError::NoSuchVoter { id })?;
    let stay = group().count() - 1;
    let answer = group().filter(|voter| voter.id != Some(id) && voter.said.is_some()).count();
    let needed = stay / 2 + 1;
    let is_alive = if leaving.said.is_some() { "answers" } else { "is silent" };
    let mut plan = format!(
        "remove voter {}, which {is_alive}, from a group of {}\n\
         - {stay} stay, of which {answer} answer; any change needs {needed}\n\
         - its number and its directory are of no use any more: a successor gets new ones\n",
        leaving.name(),
        stay + 1,
    );
    if answer < needed {
        plan.push_str("- too few: the ring could not change any more, add a voter first\n");
    }
    Ok(plan)
}

/// What `forebay meta snapshot` prints as JSON.
#[derive(Debug, Serialize)]
struct Written {
    schema: u32,
    bytes: u64,
}

async fn snapshot(args: SnapshotArgs) -> anyhow::Result<ExitCode> {
    let bytes = voters::control(args.ask.cluster)?.snapshot(&args.file).await?;
    print(args.ask.output, &Written { schema: SCHEMA, bytes }, || {
        format!("wrote {} to {}", human_bytes(bytes), args.file.display())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What `forebay meta restore` prints as JSON.
#[derive(Debug, Serialize)]
struct Begun {
    schema: u32,
    revision: u64,
    epoch: u64,
    workers: usize,
}

fn restore(args: RestoreArgs) -> anyhow::Result<ExitCode> {
    let RestoreArgs { dir, source, id, advertise, output, yes } = args;
    let (from, what) = source.into_path();
    let (from_text, dir_text) = (from.display().to_string(), dir.display().to_string());
    let plan = format!(
        "begin a new group of one voter, {id} ({advertise}), in {dir_text}\n\
         - it knows what {what} {from_text} knows; what was decided later is lost\n\
         - no voter of the old group belongs to it: end those that still run\n"
    );
    if !consent::given(&plan, yes) {
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    let restored = control::restore(&Restore { from, dir, id, advertise })?;
    let Restored { revision, epoch, workers } = restored;
    print(output, &Begun { schema: SCHEMA, revision, epoch, workers }, || {
        format!(
            "restored {workers} workers and epoch {epoch} (revision {revision})\n\
             next: start a voter with meta.id = {id}, meta.dir = {dir_text:?} and no \
             initial_voters; then `forebay meta add` others"
        )
    })?;
    Ok(ExitCode::SUCCESS)
}
