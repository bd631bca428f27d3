//! The ring names the owners that `golden/placement.json` says, which no release may change.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use forebay_ring::Ring;
use forebay_types::{
    BlockIndex, BucketName, Epoch, ObjectKey, ObjectName, RingConfig, RingMember, RingSpec, RuleId,
    WorkerId,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    about: String,
    seed: String,
    virtual_nodes: u32,
    members: Vec<Member>,
    keys: Vec<Key>,
}

#[derive(Deserialize)]
struct Member {
    id: String,
    weight: u32,
}

#[derive(Deserialize)]
struct Key {
    rule: String,
    bucket: String,
    key: String,
    block: u64,
    owners: Vec<String>,
}

#[test]
fn owners_are_the_golden_ones() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("golden/placement.json")).unwrap();
    assert_eq!(cases.len(), 8);
    for case in cases {
        let ring = Ring::build(&case.spec());
        assert!(!case.keys.is_empty());
        for key in &case.keys {
            let owners = ring.owners(&key.name(), BlockIndex(key.block));
            let owners: Vec<_> = owners.iter().map(WorkerId::to_string).collect();
            assert_eq!(owners, key.owners, "{}: {:?} {}", case.about, key.key, key.block);
        }
    }
}

impl Case {
    fn spec(&self) -> RingSpec {
        let member = |member: &Member| RingMember {
            id: WorkerId::parse(&member.id).unwrap(),
            weight: member.weight,
        };
        RingSpec {
            epoch: Epoch(1),
            config: RingConfig { virtual_nodes: self.virtual_nodes, seed: hex(&self.seed) },
            members: self.members.iter().map(member).collect(),
        }
    }
}

impl Key {
    fn name(&self) -> ObjectName {
        ObjectName {
            rule: RuleId(hex(&self.rule)),
            bucket: BucketName::new(&self.bucket).unwrap(),
            key: ObjectKey::new(&self.key).unwrap(),
            version_id: None,
        }
    }
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap()
}
