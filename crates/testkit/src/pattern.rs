//! Objects whose every byte is known from its name.
//!
//! Each 8-byte little-endian word is a function of (bucket, key, version, word offset): any
//! range can be checked with no reference copy. The function is one to one in its start and
//! index, so two versions never have the same word in the same place, nor one version the
//! same word twice. Generating and checking run at several GB/s a core, so that the check is
//! not what a load test measures.

use std::ops::RangeInclusive;

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

const WORD_BYTES: u64 = 8;

/// What the state moves by from word to word: odd, so that no state comes twice.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Words that are compared before the result is looked at.
const GROUP_WORDS: usize = 64;

/// The bytes of one version of one object, of any length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    seed: u64,
    tag: u128,
}

/// A byte that the pattern does not have at this offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset} is {found:#04x} where the pattern has {expected:#04x}")]
pub struct Mismatch {
    /// Offset of the first wrong byte in the object.
    pub offset: u64,
    /// The byte of the pattern.
    pub expected: u8,
    /// The byte that came.
    pub found: u8,
}

impl Pattern {
    /// The pattern of a version. Versions count from 1.
    pub fn new(bucket: &str, key: &str, version: u64) -> Self {
        let mut identity = Vec::with_capacity(24 + bucket.len() + key.len());
        identity.extend_from_slice(&(bucket.len() as u64).to_le_bytes());
        identity.extend_from_slice(bucket.as_bytes());
        identity.extend_from_slice(key.as_bytes());
        identity.extend_from_slice(&version.to_le_bytes());
        Self { seed: xxh3_64(&identity), tag: xxh3_128(&identity) }
    }

    /// The entity tag of this version, quoted. Derived from its name: an MD5 of a terabyte
    /// that is never materialised cannot be had.
    pub fn etag(&self) -> String {
        format!("\"{:032x}\"", self.tag)
    }

    /// The version among `versions` that carries `etag`, with its pattern.
    pub fn find(
        bucket: &str,
        key: &str,
        etag: &str,
        versions: RangeInclusive<u64>,
    ) -> Option<(u64, Self)> {
        versions
            .map(|version| (version, Self::new(bucket, key, version)))
            .find(|(_, pattern)| pattern.etag() == etag)
    }

    /// Writes the bytes from `offset` on into `out`.
    pub fn fill(&self, offset: u64, out: &mut [u8]) {
        let (head, rest) = out.split_at_mut(bytes_to_word(offset, out.len()));
        let skip = (offset % WORD_BYTES) as usize;
        head.copy_from_slice(&self.word(offset / WORD_BYTES)[skip..skip + head.len()]);

        let (words, tail) = rest.as_chunks_mut();
        let mut state = self.state(offset.div_ceil(WORD_BYTES));
        for word in words {
            *word = mix(state);
            state = state.wrapping_add(STEP);
        }
        tail.copy_from_slice(&mix(state)[..tail.len()]);
    }

    /// Checks that `bytes` are those from `offset` on.
    pub fn verify(&self, offset: u64, bytes: &[u8]) -> Result<(), Mismatch> {
        let (head, rest) = bytes.split_at(bytes_to_word(offset, bytes.len()));
        self.verify_bytes(offset, head)?;

        let mut at = offset + head.len() as u64;
        let (words, tail) = rest.as_chunks();
        for group in words.chunks(GROUP_WORDS) {
            if self.differs(at / WORD_BYTES, group) {
                self.verify_bytes(at, group.as_flattened())?;
            }
            at += group.len() as u64 * WORD_BYTES;
        }
        self.verify_bytes(at, tail)
    }

    fn state(&self, index: u64) -> u64 {
        self.seed.wrapping_add(index.wrapping_mul(STEP))
    }

    fn word(&self, index: u64) -> [u8; WORD_BYTES as usize] {
        mix(self.state(index))
    }

    fn differs(&self, first_index: u64, words: &[[u8; WORD_BYTES as usize]]) -> bool {
        let mut state = self.state(first_index);
        let mut difference = 0;
        for word in words {
            difference |= u64::from_le_bytes(*word) ^ u64::from_le_bytes(mix(state));
            state = state.wrapping_add(STEP);
        }
        difference != 0
    }

    /// Byte by byte: for the edges, and to name the wrong byte once a group differs.
    fn verify_bytes(&self, offset: u64, bytes: &[u8]) -> Result<(), Mismatch> {
        for (offset, &found) in (offset..).zip(bytes) {
            let expected = self.word(offset / WORD_BYTES)[(offset % WORD_BYTES) as usize];
            if found != expected {
                return Err(Mismatch { offset, expected, found });
            }
        }
        Ok(())
    }
}

/// Spreads a difference in any bit over all bytes; one multiplication is what a core does
/// without slowing down.
#[inline]
fn mix(state: u64) -> [u8; WORD_BYTES as usize] {
    let mut word = state ^ (state >> 32);
    word = word.wrapping_mul(0xd6e8_feb8_6659_fd93);
    (word ^ (word >> 32)).to_le_bytes()
}

/// Bytes from `offset` to the next word, at most `len`.
fn bytes_to_word(offset: u64, len: usize) -> usize {
    ((WORD_BYTES - offset % WORD_BYTES) % WORD_BYTES).min(len as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(pattern: Pattern, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        pattern.fill(0, &mut bytes);
        bytes
    }

    #[test]
    fn any_range_has_the_bytes_of_the_whole() {
        let pattern = Pattern::new("train", "shard-7", 1);
        let all = whole(pattern, 2000);
        for start in 0..40 {
            for len in [0, 1, 3, 7, 8, 9, 63, 64, 65, 511, 513, 1024] {
                let mut part = vec![0; len];
                pattern.fill(start as u64, &mut part);
                assert_eq!(part, all[start..start + len], "{start}+{len}");
                assert_eq!(pattern.verify(start as u64, &part), Ok(()));
            }
        }
    }

    #[test]
    fn a_single_flipped_bit_is_named_wherever_it_is() {
        let pattern = Pattern::new("train", "shard-7", 1);
        for start in [0u64, 5, 4096] {
            let mut bytes = vec![0; 1500];
            pattern.fill(start, &mut bytes);
            for at in 0..bytes.len() {
                bytes[at] ^= 1 << (at % 8);
                let wrong = pattern.verify(start, &bytes).unwrap_err();
                assert_eq!(wrong.offset, start + at as u64);
                assert_eq!(wrong.expected ^ wrong.found, 1 << (at % 8));
                bytes[at] ^= 1 << (at % 8);
            }
        }
    }

    #[test]
    fn a_mixed_version_is_caught_at_the_word() {
        let (old, new) = (Pattern::new("b", "k", 1), Pattern::new("b", "k", 2));
        for switch in [8usize, 16, 4096, 65_536, 99_992] {
            let mut mixed = whole(old, 100_000);
            new.fill(switch as u64, &mut mixed[switch..]);
            let wrong = old.verify(0, &mixed).unwrap_err();
            assert_eq!(wrong.offset / WORD_BYTES, switch as u64 / WORD_BYTES);
        }
    }

    #[test]
    fn names_that_concatenate_alike_have_different_bytes_and_tags() {
        let (one, two) = (Pattern::new("ab", "c", 1), Pattern::new("a", "bc", 1));
        assert_ne!(whole(one, 64), whole(two, 64));
        assert_ne!(one.etag(), two.etag());
    }

    #[test]
    fn bytes_moved_by_one_word_do_not_verify() {
        let pattern = Pattern::new("b", "k", 1);
        assert!(pattern.verify(8, &whole(pattern, 4096)).is_err());
    }

    #[test]
    fn an_etag_names_its_version() {
        let etag = Pattern::new("b", "k", 3).etag();
        assert_eq!(etag.len(), 34);
        assert_eq!(Pattern::find("b", "k", &etag, 1..=5).unwrap().0, 3);
        assert_eq!(Pattern::find("b", "other", &etag, 1..=5), None);
    }
}
