//! What a voter is and knows.

use forebay_wire::meta::{Heard, StatusReply, Voter};
use forebay_wire::view::View;

use super::ControlService;
use crate::raft::Member;

impl ControlService {
    pub(super) fn report_status(&self) -> StatusReply {
        let group = &self.group;
        let raft = group.raft.metrics().borrow().clone();
        let membership = raft.membership_config.membership();
        let is_voter = |id: u64| membership.voter_ids().any(|voter| voter == id);
        let members = membership.nodes().map(|(id, member)| voter(*id, member));
        let (voters, learners) = members.partition(|voter: &Voter| is_voter(voter.id));
        let ages = self.leadership.ages(group.clock.now()).into_iter();
        let heard = ages.map(|(worker, ago)| Heard {
            worker,
            ago_ms: u64::try_from(ago.as_millis()).unwrap_or(u64::MAX),
        });
        StatusReply {
            me: Some(Voter {
                id: group.identity.id,
                addr: group.addr.clone(),
                disk_id: group.identity.disk_id,
            }),
            leader: group.leader().map(|(id, member)| voter(id, &member)),
            term: raft.current_term,
            last_log_index: raft.last_log_index.unwrap_or(0),
            applied_index: raft.last_applied.map_or(0, |log_id| log_id.index),
            snapshot_index: raft.snapshot.map_or(0, |log_id| log_id.index),
            voters,
            learners,
            view: Some(View::from(&*group.view())),
            disk_bytes: group.db.bytes_on_disk(),
            heard: heard.collect(),
        }
    }
}

pub(super) fn voter(id: u64, member: &Member) -> Voter {
    Voter { id, addr: member.addr.clone(), disk_id: member.disk_id }
}
