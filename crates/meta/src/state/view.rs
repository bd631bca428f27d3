//! The state as every other process sees it.

use forebay_types::{Epoch, RingConfig, RingMember, RingSpec, Rules, View, WorkerId, WorkerInfo};

use super::{Member, Ring, State, Worker};

impl State {
    /// What every process of the cluster is told.
    pub fn view(&self) -> View {
        View {
            revision: self.revision,
            ring: self.ring.spec(),
            previous: self.previous.iter().map(Ring::spec).collect(),
            workers: self.workers.iter().map(|(id, worker)| worker.info(*id)).collect(),
            rules: self
                .rules
                .as_ref()
                .map(|rules| Rules { version: rules.version, toml: rules.toml.clone() }),
        }
    }
}

impl Ring {
    fn spec(&self) -> RingSpec {
        let placement = &self.placement;
        let member =
            |member: &Member| RingMember { id: WorkerId(member.id), weight: member.weight };
        RingSpec {
            epoch: Epoch(self.epoch),
            config: RingConfig { virtual_nodes: placement.virtual_nodes, seed: placement.seed },
            members: placement.members.iter().map(member).collect(),
        }
    }
}

impl Worker {
    fn info(&self, id: u64) -> WorkerInfo {
        WorkerInfo {
            id: WorkerId(id),
            state: self.state(),
            data_addr: self.data_addr.clone(),
            s3_addr: self.s3_addr.clone(),
            zone: self.zone.clone(),
            capacity_bytes: self.capacity_bytes,
        }
    }
}
