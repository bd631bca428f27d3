//! The cluster as a function of the commands so far: workers, rings, rules.
//!
//! Knows no clock, no disk, no network and no Raft. The same commands in the same order give the
//! same state on every voter, so nothing here may depend on anything else.

mod command;
#[cfg(test)]
pub(crate) mod tests;
mod view;
mod weights;

use std::collections::BTreeMap;

use forebay_types::{PREVIOUS_RINGS, RingConfig, WorkerState};
use serde::{Deserialize, Serialize};

pub use command::{Applied, Command, Heard, MAX_VIRTUAL_NODES, Outcome, Refusal, Report, Wish};

/// What the voters agree on. Kept on disk in this form: see [`crate::format`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct State {
    revision: u64,
    ring: Ring,
    previous: Vec<Ring>,
    workers: BTreeMap<u64, Worker>,
    rules: Option<Rules>,
    unit_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Ring {
    epoch: u64,
    placement: Placement,
}

/// What decides who owns a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Placement {
    virtual_nodes: u32,
    seed: u64,
    members: Vec<Member>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Member {
    id: u64,
    weight: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Worker {
    data_addr: String,
    s3_addr: String,
    zone: String,
    capacity_bytes: u64,
    wish: Wish,
    /// The operator keeps it out of the ring, whatever it wishes.
    is_held: bool,
    is_down: bool,
    /// What it last had in the ring; 0 before it was in one.
    weight: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Rules {
    version: u64,
    toml: String,
}

impl State {
    /// Applies one command.
    pub fn apply(&mut self, command: Command) -> Outcome {
        let changed = match command {
            Command::Report(report) => self.report(report),
            Command::Drain { worker, drain } => self.drain(worker, drain)?,
            Command::Forget { worker } => self.forget(worker)?,
            Command::Fence { epoch } => self.fence(epoch)?,
            Command::SetRing { virtual_nodes, seed } => self.set_ring(virtual_nodes, seed)?,
            Command::SetRules { toml } => self.set_rules(toml),
        };
        if changed {
            self.revision += 1;
        }
        Ok(self.applied(changed))
    }

    /// What a command that changes nothing would come to.
    pub(crate) fn unchanged(&self) -> Applied {
        self.applied(false)
    }

    /// Of the view; rises with every change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Of the ring; rises with every change of placement and with every fence.
    pub fn epoch(&self) -> u64 {
        self.ring.epoch
    }

    /// All workers, by id.
    pub(crate) fn workers(&self) -> impl Iterator<Item = (u64, WorkerState)> + '_ {
        self.workers.iter().map(|(id, worker)| (*id, worker.state()))
    }

    /// What `worker` is to the ring, if it is known.
    pub(crate) fn worker(&self, worker: u64) -> Option<WorkerState> {
        Some(self.workers.get(&worker)?.state())
    }

    /// Workers that would be in the ring, were they not down.
    pub(crate) fn missing(&self) -> usize {
        self.workers.values().filter(|worker| worker.is_down && worker.is_wanted()).count()
    }

    /// Whether `worker` is down and nobody has said that it should be remembered.
    pub(crate) fn is_abandoned(&self, worker: u64) -> bool {
        self.workers.get(&worker).is_some_and(|worker| worker.is_down && !worker.is_held)
    }

    /// Workers in the ring.
    pub(crate) fn members(&self) -> usize {
        self.ring.placement.members.len()
    }

    /// Whether `heard` tells anything new.
    pub(crate) fn is_news(&self, heard: &Heard) -> bool {
        let known = self.workers.get(&heard.id);
        known.is_none_or(|known| *known != known.after(heard.clone()))
    }

    /// Moves revision and epoch on by `by`, past everything that anybody may have seen of a group
    /// whose end is lost.
    pub(crate) fn leap(&mut self, by: u64) {
        self.revision += by;
        self.ring.epoch += by;
    }

    fn applied(&self, changed: bool) -> Applied {
        Applied { revision: self.revision, epoch: self.ring.epoch, changed }
    }

    fn report(&mut self, report: Report) -> bool {
        let mut changed = false;
        for heard in report.heard {
            changed |= self.hear(heard);
        }
        for id in report.lost {
            changed |= self.workers.get_mut(&id).is_some_and(Worker::lose);
        }
        for id in report.forgotten {
            changed |= self.is_abandoned(id) && self.workers.remove(&id).is_some();
        }
        if changed {
            self.place();
        }
        changed
    }

    fn hear(&mut self, heard: Heard) -> bool {
        let id = heard.id;
        let Some(known) = self.workers.get_mut(&id) else {
            self.workers.insert(id, Worker::new(heard));
            return true;
        };
        let next = known.after(heard);
        let changed = next != *known;
        *known = next;
        changed
    }

    fn drain(&mut self, worker: u64, drain: bool) -> Result<bool, Refusal> {
        let worker = self.workers.get_mut(&worker).ok_or(Refusal::NoSuchWorker)?;
        let changed = worker.is_held != drain;
        worker.is_held = drain;
        if changed {
            self.place();
        }
        Ok(changed)
    }

    fn forget(&mut self, worker: u64) -> Result<bool, Refusal> {
        match self.worker(worker) {
            None => Err(Refusal::NoSuchWorker),
            Some(WorkerState::Joining | WorkerState::Active) => Err(Refusal::NotOut),
            Some(WorkerState::Draining | WorkerState::Down) => {
                self.workers.remove(&worker);
                Ok(true)
            }
        }
    }

    fn fence(&mut self, epoch: u64) -> Result<bool, Refusal> {
        if epoch > self.ring.epoch {
            return Err(Refusal::EpochNotBegun);
        }
        let matches = epoch == self.ring.epoch;
        if matches {
            self.ring.epoch += 1;
        }
        Ok(matches)
    }

    fn set_ring(&mut self, virtual_nodes: u32, seed: u64) -> Result<bool, Refusal> {
        if !(1..=MAX_VIRTUAL_NODES).contains(&virtual_nodes) {
            return Err(Refusal::VirtualNodes);
        }
        let members = self.ring.placement.members.clone();
        Ok(self.turn_to(Placement { virtual_nodes, seed, members }))
    }

    fn set_rules(&mut self, toml: String) -> bool {
        if self.rules.as_ref().is_some_and(|rules| rules.toml == toml) {
            return false;
        }
        let version = self.rules.as_ref().map_or(0, |rules| rules.version) + 1;
        self.rules = Some(Rules { version, toml });
        true
    }

    /// Makes the ring what the workers say it is.
    fn place(&mut self) {
        let capacities: Vec<u64> =
            self.in_ring().map(|(_, worker)| worker.capacity_bytes).collect();
        self.unit_bytes = weights::unit_bytes(self.unit_bytes, capacities.into_iter());
        for worker in self.workers.values_mut().filter(|worker| worker.is_member()) {
            worker.weight = weights::weight(worker.weight, worker.capacity_bytes, self.unit_bytes);
        }
        let member = |(id, worker): (u64, &Worker)| Member { id, weight: worker.weight };
        let members = self.in_ring().map(member).collect();
        let Placement { virtual_nodes, seed, .. } = self.ring.placement;
        self.turn_to(Placement { virtual_nodes, seed, members });
    }

    /// Begins an epoch with `placement`, if that is another one.
    fn turn_to(&mut self, placement: Placement) -> bool {
        if placement == self.ring.placement {
            return false;
        }
        let next = Ring { epoch: self.ring.epoch + 1, placement };
        let last = std::mem::replace(&mut self.ring, next);
        // Once is enough to find what an owner still holds, and the present owner asks itself.
        let (now, before) = (&self.ring.placement, &last.placement);
        self.previous.retain(|ring| ring.placement != *now && ring.placement != *before);
        if !last.placement.members.is_empty() {
            self.previous.insert(0, last);
        }
        self.previous.truncate(PREVIOUS_RINGS);
        true
    }

    fn in_ring(&self) -> impl Iterator<Item = (u64, &Worker)> + '_ {
        let by_id = self.workers.iter().map(|(id, worker)| (*id, worker));
        by_id.filter(|(_, worker)| worker.is_member())
    }
}

impl Worker {
    fn new(heard: Heard) -> Self {
        Self {
            data_addr: heard.data_addr,
            s3_addr: heard.s3_addr,
            zone: heard.zone,
            capacity_bytes: heard.capacity_bytes,
            wish: heard.wish,
            is_held: false,
            is_down: false,
            weight: 0,
        }
    }

    /// This worker once it has said `heard`.
    fn after(&self, heard: Heard) -> Self {
        let keeps_its_place =
            heard.wish == Wish::Joining && self.wish == Wish::Active && !self.is_down;
        let wish = if keeps_its_place { Wish::Active } else { heard.wish };
        Self { wish, is_held: self.is_held, weight: self.weight, ..Self::new(heard) }
    }

    fn lose(&mut self) -> bool {
        !std::mem::replace(&mut self.is_down, true)
    }

    /// Whether worker and operator both want it in the ring.
    fn is_wanted(&self) -> bool {
        self.wish == Wish::Active && !self.is_held
    }

    fn is_member(&self) -> bool {
        self.is_wanted() && !self.is_down
    }

    fn state(&self) -> WorkerState {
        match self.wish {
            _ if self.is_down => WorkerState::Down,
            Wish::Joining => WorkerState::Joining,
            Wish::Active if !self.is_held => WorkerState::Active,
            Wish::Active | Wish::Draining => WorkerState::Draining,
        }
    }
}

impl Default for Placement {
    fn default() -> Self {
        let RingConfig { virtual_nodes, seed } = RingConfig::default();
        Self { virtual_nodes, seed, members: Vec::new() }
    }
}
