//! A cluster, as people read it.

use forebay_node::control::{ClusterStatus, RingStatus, Role, VoterLine, WorkerLine};
use serde::Serialize;

use crate::output::{human_bytes, human_seconds, percent};
use crate::table::Table;

/// What `forebay ring show` prints as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct RingView<'a> {
    schema: u32,
    revision: u64,
    ring: &'a RingStatus,
    previous_rings: &'a [RingStatus],
    workers: &'a [WorkerLine],
}

/// What `forebay meta members` prints as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct MembersView<'a> {
    schema: u32,
    leader: Option<u64>,
    term: u64,
    voters: &'a [VoterLine],
}

impl<'a> RingView<'a> {
    pub(crate) fn of(status: &'a ClusterStatus) -> Self {
        let ClusterStatus { schema, revision, ring, previous_rings, workers, .. } = status;
        Self { schema: *schema, revision: *revision, ring, previous_rings, workers }
    }
}

impl<'a> MembersView<'a> {
    pub(crate) fn of(status: &'a ClusterStatus) -> Self {
        let ClusterStatus { schema, leader, term, voters, .. } = status;
        Self { schema: *schema, leader: *leader, term: *term, voters }
    }
}

/// All of it, what is wrong first.
pub(crate) fn status(status: &ClusterStatus) -> String {
    let health = if status.is_healthy() { "healthy" } else { "not well" };
    let group = status.voters.iter().filter(|voter| voter.role != Role::Outside);
    let answering = group.clone().filter(|voter| voter.said.is_some()).count();
    let head = format!(
        "CLUSTER  {health}   epoch {}   revision {}   voters {answering}/{}   leader {}   term {}   \
         workers {}/{}",
        status.ring.epoch,
        status.revision,
        group.count(),
        status.leader.map_or_else(|| "-".into(), |leader| leader.to_string()),
        status.term,
        status.ring.members,
        status.workers.len(),
    );
    let troubles = status.troubles.iter().map(|trouble| format!("LOOK     {trouble}\n"));
    let troubles: String = troubles.collect();
    format!("{head}\n{troubles}{}{}", members(status), workers(&status.workers))
}

/// The ring, those before it, and who owns how much.
pub(crate) fn ring(status: &ClusterStatus) -> String {
    let mut rings = Table::new(&["RING", ">EPOCH", ">WORKERS", ">VIRTUAL NODES", ">SEED"]);
    let before = status.previous_rings.iter().map(|ring| ("before", ring));
    for (which, ring) in [("now", &status.ring)].into_iter().chain(before) {
        let RingStatus { epoch, virtual_nodes, seed, members } = ring;
        let numbers = [epoch.to_string(), members.to_string(), virtual_nodes.to_string()];
        rings.row([which.to_owned()].into_iter().chain(numbers).chain([seed.to_string()]));
    }
    format!("{rings}{}", workers(&status.workers))
}

/// The voters.
pub(crate) fn members(status: &ClusterStatus) -> String {
    let head = [">VOTER", "ADDRESS", "ROLE", ">TERM", ">APPLIED", ">LAG", ">DISK", "NOTE"];
    let mut table = Table::new(&head);
    for voter in &status.voters {
        let number = |number: Option<u64>| number.map_or_else(|| "-".into(), |n| n.to_string());
        let said = voter.said.as_ref();
        table.row([
            number(voter.id),
            voter.addr.clone(),
            role(voter.role).into(),
            number(said.map(|said| said.term)),
            number(said.map(|said| said.applied_index)),
            number(said.and_then(|said| said.lag)),
            said.map_or_else(|| "-".into(), |said| human_bytes(said.disk_bytes)),
            voter.silence.clone().unwrap_or_default(),
        ]);
    }
    table.to_string()
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Leader => "leader",
        Role::Voter => "voter",
        Role::Learner => "learner",
        Role::Outside => "outside",
    }
}

fn workers(workers: &[WorkerLine]) -> String {
    let head =
        ["WORKER", "STATE", "S3", "DATA", "ZONE", ">CAPACITY", ">WEIGHT", ">RING%", ">HEARD"];
    let mut table = Table::new(&head);
    for worker in workers {
        let heard = worker.heard_ago_ms.map(|ms| human_seconds(ms / 1000));
        table.row([
            worker.id.to_string(),
            worker.state.into(),
            worker.s3.clone(),
            worker.data.clone(),
            worker.zone.clone(),
            human_bytes(worker.capacity_bytes),
            worker.weight.map_or_else(|| "-".into(), |weight| weight.to_string()),
            percent(worker.owned_ratio),
            heard.map_or_else(|| "-".into(), |ago| format!("{ago} ago")),
        ]);
    }
    table.to_string()
}
