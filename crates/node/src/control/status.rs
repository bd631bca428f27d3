//! A cluster as its voters tell of it, put together from what each of them says.
//!
//! Field names are a stable interface; what changes meaning changes [`SCHEMA`].

use std::collections::HashMap;
use std::fmt::Display;

use forebay_meta::admin::{AdminError, Failure, Tried, VoterStatus};
use forebay_ring::Ring;
use forebay_types::{RingSpec, Rules, View, WorkerId, WorkerInfo, WorkerState};
use serde::{Serialize, Serializer};

/// The version of [`ClusterStatus`]'s fields.
pub const SCHEMA: u32 = 1;

/// What each voter answered, by the address it was asked at.
pub(super) type Answers = Vec<(String, Result<VoterStatus, Failure>)>;

/// A cluster.
#[derive(Debug, Clone, Serialize)]
pub struct ClusterStatus {
    /// The version of these fields.
    pub schema: u32,
    /// What somebody should look at; nothing where all is well.
    pub troubles: Vec<String>,
    /// The number of the voter that leads.
    pub leader: Option<u64>,
    /// The term that it leads in.
    pub term: u64,
    /// Rises with every change of anything that voters agree on.
    pub revision: u64,
    /// The present ring.
    pub ring: RingStatus,
    /// Rings before it whose owners may still hold what moved, newest first.
    pub previous_rings: Vec<RingStatus>,
    /// The voters, by number; those that did not say theirs come last.
    pub voters: Vec<VoterLine>,
    /// The workers, by id.
    pub workers: Vec<WorkerLine>,
    /// The version of the cluster's rules; `None` where each worker has its own.
    pub rules_version: Option<u64>,
}

/// A ring, without its members' shares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RingStatus {
    /// Its epoch.
    pub epoch: u64,
    /// Points of an average worker.
    pub virtual_nodes: u32,
    /// Of the hash.
    pub seed: u64,
    /// How many workers are in it.
    pub members: usize,
}

/// A voter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VoterLine {
    /// Its number; `None` for one that is configured and neither answers nor is in the group.
    pub id: Option<u64>,
    /// Its control port.
    pub addr: String,
    /// What it is to the group.
    pub role: Role,
    /// What it said of itself.
    pub said: Option<Said>,
    /// Why it said nothing.
    pub silence: Option<String>,
}

/// What a voter is to the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It leads.
    Leader,
    /// It votes and follows.
    Voter,
    /// It copies the state, to vote later.
    Learner,
    /// It is not in the group.
    Outside,
}

/// What a voter says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Said {
    /// The term that it is in.
    pub term: u64,
    /// How far it has applied its log.
    pub applied_index: u64,
    /// Entries that the leader has and it has not applied; `None` without a leader.
    pub lag: Option<u64>,
    /// Up to where its snapshot reaches.
    pub snapshot_index: u64,
    /// Of the log and the state on its disk.
    pub disk_bytes: u64,
}

/// A worker.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkerLine {
    /// Who.
    #[serde(serialize_with = "as_text")]
    pub id: WorkerId,
    /// `joining`, `active`, `draining` or `down`.
    pub state: &'static str,
    /// Its S3 port, as clients are told.
    pub s3: String,
    /// Its data port, as other workers are told.
    pub data: String,
    /// Its failure domain; empty without one.
    pub zone: String,
    /// What its disks may hold.
    pub capacity_bytes: u64,
    /// In hundredths of an average worker; `None` out of the ring.
    pub weight: Option<u32>,
    /// The share of all keys that it owns, 0 to 1; `None` out of the ring.
    pub owned_ratio: Option<f64>,
    /// How long ago the leader heard of it; `None` without a leader, or since the leader leads.
    pub heard_ago_ms: Option<u64>,
}

impl ClusterStatus {
    /// Whether nobody has to look.
    pub fn is_healthy(&self) -> bool {
        self.troubles.is_empty()
    }

    /// Puts together what the voters said; an error where none said anything.
    pub(super) fn of(answers: Answers) -> Result<Self, AdminError> {
        let Some(known) = Known::of(&answers) else { return Err(nobody_answered(answers)) };
        let view = &known.newest.view;
        let mut status = Self {
            schema: SCHEMA,
            troubles: Vec::new(),
            leader: known.leader.map(|leader| leader.me.id),
            term: known.latest.term,
            revision: view.revision,
            ring: RingStatus::of(&view.ring),
            previous_rings: view.previous.iter().map(RingStatus::of).collect(),
            voters: known.voters(&answers),
            workers: workers(view, known.leader),
            rules_version: view.rules.as_ref().map(|rules| rules.version),
        };
        status.troubles = status.look_for_trouble();
        Ok(status)
    }

    fn look_for_trouble(&self) -> Vec<String> {
        let mut troubles = Vec::new();
        if self.leader.is_none() {
            troubles.push("no voter leads: the ring stays as it is until one does".into());
        }
        // One outside was removed, or is another name of one in the group: no harm either way.
        let group = self.voters.iter().filter(|voter| voter.role != Role::Outside);
        let silent = group.filter_map(|voter| Some((voter, voter.silence.as_ref()?)));
        troubles
            .extend(silent.map(|(voter, why)| format!("voter {} is silent: {why}", voter.name())));
        let down = self.workers.iter().filter(|worker| worker.state == WorkerState::Down.as_str());
        troubles.extend(down.map(|worker| format!("worker {} ({}) is down", worker.id, worker.s3)));
        if self.ring.members == 0 {
            troubles.push("no worker is in the ring".into());
        }
        troubles
    }
}

impl VoterLine {
    /// Its number and address, as far as they are known.
    pub fn name(&self) -> String {
        self.id.map_or_else(|| self.addr.clone(), |id| format!("{id} ({})", self.addr))
    }
}

impl RingStatus {
    fn of(spec: &RingSpec) -> Self {
        Self {
            epoch: spec.epoch.0,
            virtual_nodes: spec.config.virtual_nodes,
            seed: spec.config.seed,
            members: spec.members.len(),
        }
    }
}

/// The newest rules that any voter knows.
pub(super) fn rules(answers: Answers) -> Result<Option<Rules>, AdminError> {
    match Known::of(&answers) {
        Some(known) => Ok(known.newest.view.rules.clone()),
        None => Err(nobody_answered(answers)),
    }
}

/// The number of the one voter that was asked.
pub(super) fn only_id(answers: Answers) -> Result<u64, AdminError> {
    match answers.first() {
        Some((_, Ok(status))) => Ok(status.me.id),
        _ => Err(nobody_answered(answers)),
    }
}

fn nobody_answered(answers: Answers) -> AdminError {
    let failed = answers.into_iter().filter_map(|(addr, said)| Some((addr, said.err()?)));
    AdminError::NoVoter(Tried(failed.collect()))
}

/// Whom to believe in what.
struct Known<'a> {
    /// In the highest term: who leads, who votes.
    latest: &'a VoterStatus,
    /// Of the highest revision.
    newest: &'a VoterStatus,
    /// The leader of the highest term, if it answered itself.
    leader: Option<&'a VoterStatus>,
}

impl<'a> Known<'a> {
    fn of(answers: &'a Answers) -> Option<Self> {
        let said = || answers.iter().filter_map(|(_, said)| said.as_ref().ok());
        let leads =
            |status: &&VoterStatus| status.leader.as_ref().is_some_and(|l| l.id == status.me.id);
        let latest = said().max_by_key(|status| (status.term, status.applied_index))?;
        let newest = said().max_by_key(|status| status.view.revision)?;
        let leader = said().find(|status| leads(status) && status.term == latest.term);
        Some(Self { latest: leader.unwrap_or(latest), newest, leader })
    }

    /// The group's voters, whether they answered or not, then whoever else was asked.
    fn voters(&self, answers: &Answers) -> Vec<VoterLine> {
        let group = self.latest.voters.iter().map(|voter| (voter, Role::Voter));
        let group = group.chain(self.latest.learners.iter().map(|voter| (voter, Role::Learner)));
        let mut lines: Vec<_> = group
            .map(|(voter, role)| {
                let answer = answers.iter().find(|(addr, said)| match said {
                    Ok(said) => said.me.id == voter.id,
                    Err(_) => *addr == voter.addr,
                });
                let role = if self.leader.is_some_and(|leader| leader.me.id == voter.id) {
                    Role::Leader
                } else {
                    role
                };
                self.line(Some(voter.id), &voter.addr, role, answer.map(|(_, said)| said))
            })
            .collect();
        for (addr, said) in answers {
            let id = said.as_ref().ok().map(|said| said.me.id);
            let is_known = |line: &VoterLine| line.addr == *addr || (id.is_some() && line.id == id);
            if !lines.iter().any(is_known) {
                lines.push(self.line(id, addr, Role::Outside, Some(said)));
            }
        }
        lines.sort_by_key(|line| (line.id.is_none(), line.id));
        lines
    }

    fn line(
        &self,
        id: Option<u64>,
        addr: &str,
        role: Role,
        answer: Option<&Result<VoterStatus, Failure>>,
    ) -> VoterLine {
        let end = self.leader.map(|leader| leader.last_log_index);
        let said = |status: &VoterStatus| Said {
            term: status.term,
            applied_index: status.applied_index,
            lag: end.map(|end| end.saturating_sub(status.applied_index)),
            snapshot_index: status.snapshot_index,
            disk_bytes: status.disk_bytes,
        };
        VoterLine {
            id,
            addr: addr.into(),
            role,
            said: answer.and_then(|answer| answer.as_ref().ok()).map(said),
            silence: match answer {
                Some(Ok(_)) => None,
                Some(Err(failure)) => Some(failure.to_string()),
                None => Some("it was not asked".into()),
            },
        }
    }
}

fn workers(view: &View, leader: Option<&VoterStatus>) -> Vec<WorkerLine> {
    let shares: HashMap<_, _> = Ring::build(&view.ring).owner_share().into_iter().collect();
    let weights: HashMap<_, _> = view.ring.members.iter().map(|m| (m.id, m.weight)).collect();
    let heard: HashMap<_, _> =
        leader.iter().flat_map(|leader| leader.heard.iter().copied()).collect();
    let line = |worker: &WorkerInfo| WorkerLine {
        id: worker.id,
        state: worker.state.as_str(),
        s3: worker.s3_addr.clone(),
        data: worker.data_addr.clone(),
        zone: worker.zone.clone(),
        capacity_bytes: worker.capacity_bytes,
        weight: weights.get(&worker.id).copied(),
        owned_ratio: shares.get(&worker.id).copied(),
        heard_ago_ms: heard.get(&worker.id).map(|ago| ago.as_millis() as u64),
    };
    view.workers.iter().map(line).collect()
}

fn as_text<S: Serializer>(id: &impl Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(id)
}

#[cfg(test)]
mod tests;
