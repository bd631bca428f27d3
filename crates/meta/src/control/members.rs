//! Changing the group of voters itself.
//!
//! Each change runs in a task of its own: an operator who hangs up in the middle must not leave
//! it half done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use forebay_rt::{spawn, timeout};
use forebay_wire::meta::{ChangeReply, HelloReply, HelloRequest, Voter};
use openraft::{ChangeMembers, ServerState};
use tonic::Status;

use crate::limits::{HELLO_TIME_MAX, MEMBERSHIP_TIME_MAX, VOTERS_MAX};
use crate::raft::Member;
use crate::voter::Group;

/// Makes a voter of a process that was started with an empty directory. One that is a voter
/// already, with the same directory, only changes its address.
pub(super) async fn add(group: Arc<Group>, voter: Voter) -> Result<ChangeReply, Status> {
    must_lead(&group)?;
    let member = Member { addr: voter.addr, disk_id: voter.disk_id };
    match known(&group, voter.id) {
        Some((known, _)) if known.disk_id != member.disk_id => {
            Err(Status::already_exists(format!(
                "voter {} has another directory: start this one with an id that was never used",
                voter.id
            )))
        }
        Some((known, true)) if known == member => Ok(done(&group)),
        Some((_, is_voter)) => {
            greet(&group, voter.id, &member).await?;
            change(group, voter.id, member, !is_voter).await
        }
        None => {
            must_have_room(&group)?;
            must_be_new(&greet(&group, voter.id, &member).await?)?;
            change(group, voter.id, member, true).await
        }
    }
}

/// Takes a voter out of the group.
pub(super) async fn remove(group: Arc<Group>, id: u64) -> Result<ChangeReply, Status> {
    must_lead(&group)?;
    let is_voter = match known(&group, id) {
        None => return Err(Status::not_found(format!("no voter {id}"))),
        Some((_, is_voter)) => is_voter,
    };
    if is_voter && voters(&group) == 1 {
        return Err(Status::invalid_argument("the last voter cannot be removed"));
    }
    let ids = BTreeSet::from([id]);
    let change =
        if is_voter { ChangeMembers::RemoveVoters(ids) } else { ChangeMembers::RemoveNodes(ids) };
    let theirs = group.clone();
    apart(&group, async move { alter(&theirs, change).await }).await
}

fn must_have_room(group: &Group) -> Result<(), Status> {
    if group.raft.metrics().borrow().membership_config.nodes().count() < VOTERS_MAX {
        return Ok(());
    }
    Err(Status::resource_exhausted(format!("a group has {VOTERS_MAX} voters at most")))
}

/// Makes sure that the voter is there, and is the one that is meant.
async fn greet(group: &Group, id: u64, member: &Member) -> Result<HelloReply, Status> {
    let mut other = group.network.client(&member.addr);
    let hello = timeout(&*group.clock, HELLO_TIME_MAX, other.hello(HelloRequest {})).await;
    let unreachable = |why: String| {
        let addr = &member.addr;
        Status::invalid_argument(format!("the leader cannot reach {addr}: {why}"))
    };
    let hello = hello.map_err(|_| unreachable("no answer".to_owned()))?;
    let hello = hello.map_err(|status| unreachable(status.to_string()))?.into_inner();
    let is_meant = hello.me.as_ref().is_some_and(|me| me.id == id && me.disk_id == member.disk_id);
    if is_meant {
        return Ok(hello);
    }
    Err(Status::invalid_argument(format!("another voter answers at {}", member.addr)))
}

/// One that has voted elsewhere would bring its votes and its log along.
fn must_be_new(hello: &HelloReply) -> Result<(), Status> {
    if !hello.is_member {
        return Ok(());
    }
    let message = "that voter belongs to a group already: give it an empty directory";
    Err(Status::already_exists(message))
}

async fn change(
    group: Arc<Group>,
    id: u64,
    member: Member,
    promote: bool,
) -> Result<ChangeReply, Status> {
    let theirs = group.clone();
    let changed = async move {
        alter(&theirs, ChangeMembers::SetNodes(BTreeMap::from([(id, member)]))).await?;
        if promote {
            catch_up(&theirs, id).await?;
            alter(&theirs, ChangeMembers::AddVoterIds(BTreeSet::from([id]))).await?;
        }
        Ok(())
    };
    apart(&group, changed).await
}

/// Waits until a learner has what the log had when it came.
async fn catch_up(group: &Group, id: u64) -> Result<(), Status> {
    let mut metrics = group.raft.metrics();
    let goal = metrics.borrow().last_log_index;
    let caught_up = metrics.wait_for(|metrics| {
        let reached = metrics.replication.as_ref().and_then(|each| *each.get(&id)?);
        metrics.state != ServerState::Leader || reached.map(|log_id| log_id.index) >= goal
    });
    match timeout(&*group.clock, MEMBERSHIP_TIME_MAX, caught_up).await {
        Ok(Ok(metrics)) if metrics.state == ServerState::Leader => Ok(()),
        Ok(_) => Err(Status::aborted("the leader has changed: look what came of it")),
        Err(_) => {
            Err(Status::deadline_exceeded(format!("voter {id} does not catch up: it is a learner")))
        }
    }
}

async fn alter(group: &Group, change: ChangeMembers<u64, Member>) -> Result<(), Status> {
    let changed = group.raft.change_membership(change, false);
    let changed = timeout(&*group.clock, MEMBERSHIP_TIME_MAX, changed).await;
    let changed = changed.map_err(|_| Status::deadline_exceeded("no majority confirmed it"))?;
    changed.map_err(|error| group.refused(error))?;
    Ok(())
}

/// Runs `work` to its end, whether or not anybody waits for it.
async fn apart(
    group: &Group,
    work: impl Future<Output = Result<(), Status>> + Send + 'static,
) -> Result<ChangeReply, Status> {
    let ended = spawn(work).await;
    ended.unwrap_or_else(|_| Err(Status::internal("the change of the voters broke off")))?;
    Ok(done(group))
}

fn must_lead(group: &Group) -> Result<(), Status> {
    let leads = group.raft.metrics().borrow().state == ServerState::Leader;
    if leads { Ok(()) } else { Err(group.not_leading()) }
}

/// A member of the group, and whether it votes.
fn known(group: &Group, id: u64) -> Option<(Member, bool)> {
    let metrics = group.raft.metrics();
    let metrics = metrics.borrow();
    let membership = metrics.membership_config.membership();
    let is_voter = membership.voter_ids().any(|voter| voter == id);
    Some((membership.get_node(&id)?.clone(), is_voter))
}

fn voters(group: &Group) -> usize {
    group.raft.metrics().borrow().membership_config.voter_ids().count()
}

fn done(group: &Group) -> ChangeReply {
    ChangeReply { revision: group.state().revision() }
}
