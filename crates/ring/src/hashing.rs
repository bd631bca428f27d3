//! The bytes that are hashed, and with what: all of placement that is not the walk.
//!
//! Changing anything here moves every block of every cluster to another owner.

use std::hash::{BuildHasher, Hash, Hasher};

use forebay_types::names::{MAX_BUCKET_BYTES, MAX_KEY_BYTES};
use forebay_types::{BlockIndex, ObjectName, WorkerId};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// XXH3 with the seed of the ring's configuration: the same on every machine, for ever.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Xxh3(pub(crate) u64);

impl BuildHasher for Xxh3 {
    type Hasher = Xxh3State;

    fn build_hasher(&self) -> Xxh3State {
        Xxh3State(self.0)
    }
}

/// What is hashed writes its canonical bytes in one piece, so that the hash is that of exactly
/// these bytes. A second piece takes the hash of the first for its seed.
#[derive(Debug)]
pub(crate) struct Xxh3State(u64);

impl Hasher for Xxh3State {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    // The default writes in the byte order of the machine.
    fn write_u64(&mut self, number: u64) {
        self.write(&number.to_le_bytes());
    }
}

/// One of the places on the ring where a member stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VirtualNode {
    pub(crate) worker: WorkerId,
    /// From 0.
    pub(crate) nth: u32,
    /// Where the worker stands in the list of members. Not hashed.
    pub(crate) slot: u32,
}

impl Hash for VirtualNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.worker.0.to_le_bytes());
        bytes[8..].copy_from_slice(&self.nth.to_le_bytes());
        state.write(&bytes);
    }
}

const MAX_CANONICAL_BYTES: usize = 8 + 4 + MAX_BUCKET_BYTES + 4 + MAX_KEY_BYTES + 8;

/// What places a block: rule, bucket, key and number, not the version. On the stack, because a
/// lookup allocates nothing.
pub(crate) struct BlockKey {
    bytes: [u8; MAX_CANONICAL_BYTES],
    len: usize,
}

impl BlockKey {
    pub(crate) fn new(name: &ObjectName, block: BlockIndex) -> Self {
        let mut key = Self { bytes: [0; MAX_CANONICAL_BYTES], len: 0 };
        key.push(&name.rule.0.to_le_bytes());
        key.push_text(name.bucket.as_str());
        key.push_text(name.key.as_str());
        key.push(&block.0.to_le_bytes());
        key
    }

    pub(crate) fn canonical(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn push_text(&mut self, text: &str) {
        // Names are bounded by their types, far below 4 GiB.
        self.push(&(text.len() as u32).to_le_bytes());
        self.push(text.as_bytes());
    }

    fn push(&mut self, piece: &[u8]) {
        let end = self.len + piece.len();
        self.bytes[self.len..end].copy_from_slice(piece);
        self.len = end;
    }
}

impl Hash for BlockKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.canonical());
    }
}

#[cfg(test)]
mod tests {
    use forebay_types::{BucketName, ObjectKey, RuleId};

    use super::*;

    fn name(bucket: &str, key: &str) -> ObjectName {
        ObjectName {
            rule: RuleId(1),
            bucket: BucketName::new(bucket).unwrap(),
            key: ObjectKey::new(key).unwrap(),
            version_id: None,
        }
    }

    #[test]
    fn no_two_blocks_share_their_canonical_bytes() {
        let names = [name("a", "bc"), name("ab", "c"), name("a", "b"), name("a", "b\0\0\0\0")];
        let keys: Vec<_> = names
            .iter()
            .flat_map(|name| [0, 1, 256].map(|block| BlockKey::new(name, BlockIndex(block))))
            .collect();
        for (i, one) in keys.iter().enumerate() {
            for two in &keys[i + 1..] {
                assert_ne!(one.canonical(), two.canonical());
            }
        }
    }

    #[test]
    fn golden_blocks_stand_where_the_file_says() {
        let file = include_str!("../tests/golden/placement.json");
        let cases: serde_json::Value = serde_json::from_str(file).unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let hex = |value| u64::from_str_radix(&text(value), 16).unwrap();
        let mut checked = 0;
        for case in cases.as_array().unwrap() {
            for key in case["keys"].as_array().unwrap() {
                let mut name = name(&text(&key["bucket"]), &text(&key["key"]));
                name.rule = RuleId(hex(&key["rule"]));
                let block = BlockKey::new(&name, BlockIndex(key["block"].as_u64().unwrap()));
                assert_eq!(Xxh3(hex(&case["seed"])).hash_one(block), hex(&key["hash"]), "{key}");
                checked += 1;
            }
        }
        assert!(checked > 300, "{checked}");
    }

    #[test]
    fn the_longest_name_fits() {
        let name = name(&"b".repeat(MAX_BUCKET_BYTES), &"k".repeat(MAX_KEY_BYTES));
        let key = BlockKey::new(&name, BlockIndex(u64::MAX));
        assert_eq!(key.canonical().len(), MAX_CANONICAL_BYTES);
    }

    #[test]
    fn the_version_asked_for_does_not_place() {
        let plain = name("b", "k");
        let versioned = ObjectName { version_id: Some("v1".into()), ..plain.clone() };
        let bytes = |name| BlockKey::new(name, BlockIndex(3)).canonical().to_vec();
        assert_eq!(bytes(&plain), bytes(&versioned));
    }

    #[test]
    fn the_hash_of_bytes_in_one_piece_is_xxh3_of_exactly_them() {
        let key = BlockKey::new(&name("b", "k"), BlockIndex(3));
        assert_eq!(Xxh3(9).hash_one(&key), xxh3_64_with_seed(key.canonical(), 9));
        assert_eq!(Xxh3(9).hash_one(7u64), xxh3_64_with_seed(&7u64.to_le_bytes(), 9));
    }
}
