//! The ring of one epoch: built once from `consistent_hash_ring`, then only read.
//!
//! A member's virtual nodes go into the crate as nodes of their own, in the order of the ring.
//! One by one at random places, as `insert_weight` adds them, a thousand workers take a minute;
//! appended, a fifth of a second. Successors are found by a clockwise walk, because the crate's
//! `replicas()` does not name the worker that owns a block once its owner has left the ring.

use std::fmt;
use std::hash::BuildHasher;

use consistent_hash_ring::RingBuilder;
use forebay_types::{BlockIndex, ObjectName, RingConfig, RingMember, RingSpec, WorkerId};

use crate::hashing::{BlockKey, VirtualNode, Xxh3};
use crate::owners::{MAX_OWNERS, Owners};

/// Most virtual nodes of one member: 200 times a member of unit weight, by default.
const MAX_VIRTUAL_NODES: u64 = 100_000;

/// The ring of one epoch, ready to be asked.
pub struct Ring {
    spec: RingSpec,
    hasher: Xxh3,
    /// Last hash of each arc, ascending to `u64::MAX`, and the member that owns the arc.
    ends: Vec<u64>,
    slots: Vec<u32>,
    /// By id, each once.
    members: Vec<WorkerId>,
}

impl Ring {
    /// Builds the ring that `spec` describes; the same on every machine.
    pub fn build(spec: &RingSpec) -> Self {
        let hasher = Xxh3(spec.config.seed);
        let members = members_by_id(&spec.members);
        let nodes = in_ring_order(virtual_nodes(&spec.config, &members), hasher);

        let ring = RingBuilder::new(hasher).vnodes(1).nodes_iter(nodes).build();
        let arcs = ring.resident_ranges().map(|arc| (*arc.keys().end(), arc.node().slot));
        let (ends, slots) = arcs.unzip();

        let members = members.iter().map(|member| member.id).collect();
        Self { spec: spec.clone(), hasher, ends, slots, members }
    }

    /// The workers that own `block` of `name`, clockwise: the owner first, then the one that the
    /// ring would name without it, and so on. Empty for an empty ring. Allocates nothing.
    pub fn owners(&self, name: &ObjectName, block: BlockIndex) -> Owners {
        let hash = self.hasher.hash_one(BlockKey::new(name, block));
        let at = self.ends.partition_point(|end| *end < hash);
        let (before, behind) = self.slots.split_at(at);
        let most = self.members.len().min(MAX_OWNERS);

        let mut owners = Owners::NONE;
        for slot in behind.iter().chain(before) {
            owners.add(self.members[*slot as usize]);
            if owners.len() == most {
                break;
            }
        }
        owners
    }

    /// The share of the hash space that each member owns, by id.
    pub fn owner_share(&self) -> Vec<(WorkerId, f64)> {
        const SPACE: f64 = (1u128 << 64) as f64;
        let mut hashes = vec![0u128; self.members.len()];
        let mut start = 0;
        for (end, slot) in self.ends.iter().zip(&self.slots) {
            let end = u128::from(*end) + 1;
            hashes[*slot as usize] += end - start;
            start = end;
        }
        let share = |(id, hashes): (&WorkerId, u128)| (*id, hashes as f64 / SPACE);
        self.members.iter().zip(hashes).map(share).collect()
    }

    /// Whether nobody owns anything.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// What it was built from.
    pub fn spec(&self) -> &RingSpec {
        &self.spec
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// Each member once, with the largest of its weights.
fn members_by_id(members: &[RingMember]) -> Vec<RingMember> {
    let mut members = members.to_vec();
    members.sort_unstable_by_key(|member| (member.id, u32::MAX - member.weight));
    members.dedup_by_key(|member| member.id);
    members
}

fn virtual_nodes(config: &RingConfig, members: &[RingMember]) -> impl Iterator<Item = VirtualNode> {
    let unit = u64::from(config.virtual_nodes);
    members.iter().zip(0..).flat_map(move |(member, slot)| {
        let nodes = unit * u64::from(member.weight) / u64::from(RingConfig::UNIT_WEIGHT);
        let nodes = nodes.clamp(1, MAX_VIRTUAL_NODES) as u32;
        (0..nodes).map(move |nth| VirtualNode { worker: member.id, nth, slot })
    })
}

fn in_ring_order(nodes: impl Iterator<Item = VirtualNode>, hasher: Xxh3) -> Vec<VirtualNode> {
    let mut nodes: Vec<_> = nodes.map(|node| (hasher.hash_one(node), node)).collect();
    nodes.sort_unstable_by_key(|(hash, node)| (*hash, node.slot, node.nth));
    nodes.into_iter().map(|(_, node)| node).collect()
}

#[cfg(test)]
mod tests {
    use forebay_types::{BucketName, Epoch, ObjectKey, RuleId};
    use proptest::prelude::*;

    use super::*;

    fn spec(config: RingConfig, members: &[(u64, u32)]) -> RingSpec {
        let member = |(id, weight): &(u64, u32)| RingMember { id: WorkerId(*id), weight: *weight };
        RingSpec { epoch: Epoch(1), config, members: members.iter().map(member).collect() }
    }

    fn name(key: &str) -> ObjectName {
        ObjectName {
            rule: RuleId(7),
            bucket: BucketName::new("train").unwrap(),
            key: ObjectKey::new(key).unwrap(),
            version_id: None,
        }
    }

    proptest! {
        #[test]
        fn the_owner_is_the_one_that_the_crate_names(
            members in prop::collection::btree_map(any::<u64>(), 0u32..300, 1..20),
            seed in any::<u64>(),
            keys in prop::collection::vec("[a-z/]{1,20}", 50),
        ) {
            let members: Vec<_> = members.into_iter().collect();
            let config = RingConfig { virtual_nodes: 40, seed };
            let spec = spec(config, &members);
            let ring = Ring::build(&spec);
            let nodes = virtual_nodes(&config, &spec.members);
            let crates = RingBuilder::new(Xxh3(seed)).vnodes(1).nodes_iter(nodes).build();
            for key in keys {
                let owners = ring.owners(&name(&key), BlockIndex(1));
                let named = crates.get(BlockKey::new(&name(&key), BlockIndex(1)));
                prop_assert_eq!(owners.first(), Some(&named.worker));
                prop_assert_eq!(owners.len(), members.len().min(MAX_OWNERS));
            }
        }

        #[test]
        fn the_order_of_the_members_is_of_no_account(
            members in prop::collection::vec((0u64..30, 0u32..300), 0..40),
            shuffled in any::<prop::sample::Index>(),
        ) {
            let config = RingConfig { virtual_nodes: 20, seed: 3 };
            let mut other = members.clone();
            other.reverse();
            other.rotate_left(shuffled.index(members.len().max(1)));
            let (one, two) = (Ring::build(&spec(config, &members)), Ring::build(&spec(config, &other)));
            prop_assert_eq!(one.ends, two.ends);
            prop_assert_eq!(one.slots, two.slots);
            prop_assert_eq!(one.members, two.members);
        }
    }

    #[test]
    fn a_ring_of_few_members_names_fewer_owners() {
        for members in 0..5 {
            let all: Vec<_> = (0..members).map(|id| (id, 100)).collect();
            let ring = Ring::build(&spec(RingConfig::default(), &all));
            assert_eq!(ring.is_empty(), members == 0);
            for block in 0..1000 {
                let owners = ring.owners(&name("k"), BlockIndex(block));
                assert_eq!(owners.len(), (members as usize).min(MAX_OWNERS));
            }
        }
    }

    #[test]
    fn no_weight_is_too_small_or_too_large_to_be_in_the_ring() {
        let weights = [(1, 0), (2, 1), (3, u32::MAX)];
        let config = RingConfig { virtual_nodes: u32::MAX, seed: 0 };
        let ring = Ring::build(&spec(config, &weights));
        assert_eq!(ring.ends.len() as u64, 1 + 2 * MAX_VIRTUAL_NODES + 1);
        assert_eq!(ring.owners(&name("k"), BlockIndex(0)).len(), 3);

        let ring = Ring::build(&spec(RingConfig { virtual_nodes: 0, seed: 0 }, &weights));
        assert_eq!(ring.slots.len(), 3 + 1);
    }

    #[test]
    fn shares_sum_up_to_the_whole_space() {
        let members: Vec<_> = (0..16).map(|id| (id, 100)).collect();
        let ring = Ring::build(&spec(RingConfig::default(), &members));
        let shares = ring.owner_share();
        assert_eq!(shares.len(), 16);
        assert!((shares.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(shares.is_sorted_by_key(|(id, _)| *id));
        let alone = Ring::build(&spec(RingConfig::default(), &[(9, 100)]));
        assert_eq!(alone.owner_share(), [(WorkerId(9), 1.0)]);
        assert_eq!(Ring::build(&RingSpec::default()).owner_share(), []);
    }
}
