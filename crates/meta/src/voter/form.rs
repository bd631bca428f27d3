//! How a group comes into being, and how a voter waits for one.
//!
//! Of the initial voters the one with the lowest id forms the group, once, when it has found all
//! others with directories that have never belonged to one. Any sign of a group that exists
//! already, and it never does: then this voter has lost its directory, or was started to be added
//! by `forebay meta add`. Forming a second group would forget every ring of the first one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use forebay_rt::timeout;
use forebay_wire::meta::{HelloReply, HelloRequest, Voter};
use futures_util::future::join_all;

use super::Group;
use crate::limits::{FORM_PAUSE, HELLO_TIME_MAX, OUTSIDE_PATIENCE};
use crate::raft::Member;

/// What a round of asking the others has shown.
enum Round {
    /// All are there, and none has a group.
    AllFresh(BTreeMap<u64, Member>),
    /// This one has.
    GroupExists(u64),
    /// Ask again.
    Incomplete,
}

/// Returns once this voter belongs to a group.
pub(super) async fn join(group: Arc<Group>, initial: Vec<(u64, String)>) {
    let mut outside = Outside::since(group.clock.now());
    // Once seen, a group stays seen: its other voters may all be silent in the next round.
    let mut found_by = None;
    while group.raft.is_initialized().await.is_ok_and(|belongs| !belongs) {
        match ask(&group, &initial).await {
            Round::GroupExists(voter) => found_by = Some(voter),
            Round::AllFresh(members) if found_by.is_none() && forms(&group, &members) => {
                initialize(&group, members).await;
            }
            Round::AllFresh(_) | Round::Incomplete => {}
        }
        outside.complain(&group, found_by);
        group.clock.sleep(FORM_PAUSE).await;
    }
}

/// Whether this voter is the one of `members` that forms the group.
fn forms(group: &Group, members: &BTreeMap<u64, Member>) -> bool {
    members.keys().next() == Some(&group.identity.id)
}

async fn initialize(group: &Group, members: BTreeMap<u64, Member>) {
    let ids: Vec<u64> = members.keys().copied().collect();
    match group.raft.initialize(members).await {
        Ok(()) => tracing::info!(voters = ?ids, "formed the group of voters"),
        Err(error) => tracing::error!(%error, "cannot form the group of voters"),
    }
}

async fn ask(group: &Group, initial: &[(u64, String)]) -> Round {
    let me = Member { addr: group.addr.clone(), disk_id: group.identity.disk_id };
    let mut members = BTreeMap::from([(group.identity.id, me)]);
    let others = initial.iter().filter(|(id, _)| *id != group.identity.id);
    let replies = others.map(async |(id, addr)| (*id, addr, hello(group, addr).await));
    let mut all_fresh = initial.iter().any(|(id, _)| *id == group.identity.id);
    for (id, addr, reply) in join_all(replies).await {
        match reply {
            Some(HelloReply { is_member: true, .. }) => return Round::GroupExists(id),
            Some(HelloReply { me: Some(Voter { id: theirs, disk_id, .. }), .. })
                if theirs == id =>
            {
                members.insert(id, Member { addr: addr.clone(), disk_id });
            }
            Some(_) => {
                tracing::warn!(id, addr, "another voter answers there: check the addresses");
                all_fresh = false;
            }
            None => all_fresh = false,
        }
    }
    if all_fresh { Round::AllFresh(members) } else { Round::Incomplete }
}

async fn hello(group: &Group, addr: &str) -> Option<HelloReply> {
    let mut other = group.network.client(addr);
    let reply = timeout(&*group.clock, HELLO_TIME_MAX, other.hello(HelloRequest {})).await;
    Some(reply.ok()?.ok()?.into_inner())
}

/// Says that this voter stands outside, but not all the time.
struct Outside {
    last_said: Instant,
}

impl Outside {
    fn since(now: Instant) -> Self {
        Self { last_said: now }
    }

    fn complain(&mut self, group: &Group, found_by: Option<u64>) {
        let now = group.clock.now();
        if now.saturating_duration_since(self.last_said) < OUTSIDE_PATIENCE {
            return;
        }
        self.last_said = now;
        let id = group.identity.id;
        if let Some(voter) = found_by {
            tracing::error!(
                id,
                "this voter's directory is empty, but voter {voter} belongs to a group: if the \
                 directory was lost, remove voter {id} with `forebay meta remove`, start this one \
                 with an id that was never used, and add it with `forebay meta add`"
            );
        } else {
            tracing::warn!(
                id,
                "waiting for the other initial voters, or to be added with `forebay meta add`"
            );
        }
    }
}
