//! What a fault origin is started with. Plain data, readable from JSON, so that the same
//! description starts one in this process or in a child.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::fault::FaultRule;
use crate::sign::AccessKey;

/// Bytes of written objects and parts that an origin keeps in memory, unless told otherwise.
pub const DEFAULT_WRITTEN_LIMIT_BYTES: u64 = 1 << 30;

/// Digits of the number in a pattern key: as many as keep the order of names and numbers equal.
const KEY_DIGITS: usize = 8;
/// Most objects of one set.
pub const MAX_SET_OBJECTS: u64 = 10u64.pow(KEY_DIGITS as u32);

/// 2025-01-01: when the first version of every pattern object was "written".
const FIRST_VERSION_UNIX_SECONDS: u64 = 1_735_689_600;

/// Everything that a fault origin is told at start.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OriginConfig {
    /// Where to listen; a loopback address. Port 0 takes any free one.
    pub listen: SocketAddr,
    /// Buckets that exist from the start, besides those of `patterns`.
    pub buckets: Vec<String>,
    /// Objects that exist from the start.
    pub patterns: Vec<PatternSet>,
    /// Who may sign requests.
    pub access_keys: Vec<AccessKey>,
    /// Whether requests without a signature are let in.
    pub anonymous: bool,
    /// How slow it is.
    pub shape: Shape,
    /// How it misbehaves.
    pub faults: Vec<FaultRule>,
    /// Seeds the chance of faults.
    pub seed: u64,
    /// Bytes of written objects and parts that are kept; a write beyond them is refused.
    pub written_limit_bytes: u64,
    /// For a child process: end when stdin does, so that no test that dies leaves one behind.
    pub exit_with_stdin: bool,
}

impl Default for OriginConfig {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            buckets: Vec::new(),
            patterns: Vec::new(),
            access_keys: Vec::new(),
            anonymous: false,
            shape: Shape::default(),
            faults: Vec::new(),
            seed: 1,
            written_limit_bytes: DEFAULT_WRITTEN_LIMIT_BYTES,
            exit_with_stdin: false,
        }
    }
}

/// Makes a loopback origin as slow as one that is far away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Shape {
    /// How long every S3 request waits before its first byte.
    pub first_byte_ms: u64,
    /// How fast one body is sent; `None` is as fast as it goes.
    pub stream_bytes_per_second: Option<u64>,
    /// S3 requests answered per second; those beyond get `503 SlowDown`.
    pub requests_per_second: Option<u64>,
}

impl Shape {
    /// A shape with the two properties of a distant origin.
    pub fn distant(first_byte: Duration, stream_bytes_per_second: u64) -> Self {
        Self {
            first_byte_ms: first_byte.as_millis() as u64,
            stream_bytes_per_second: Some(stream_bytes_per_second),
            requests_per_second: None,
        }
    }
}

/// Many pattern objects by one description: nothing is stored until one is changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatternSet {
    /// The bucket; created if it does not exist.
    pub bucket: String,
    /// What the keys begin with; the rest of a key is its number in eight digits.
    pub prefix: String,
    /// How many objects; at most [`MAX_SET_OBJECTS`].
    pub count: u64,
    /// Size of the smallest object.
    pub size_min_bytes: u64,
    /// Size of the largest.
    pub size_max_bytes: u64,
    /// Seeds the sizes.
    #[serde(default)]
    pub seed: u64,
}

impl PatternSet {
    /// `count` objects that all have the same size.
    pub fn new(bucket: &str, prefix: &str, count: u64, size_bytes: u64) -> Self {
        Self {
            bucket: bucket.into(),
            prefix: prefix.into(),
            count: count.min(MAX_SET_OBJECTS),
            size_min_bytes: size_bytes,
            size_max_bytes: size_bytes,
            seed: 0,
        }
    }

    /// The key of object `index`.
    pub fn key(&self, index: u64) -> String {
        format!("{}{index:0KEY_DIGITS$}", self.prefix)
    }

    /// The size of object `index`.
    pub fn size_bytes(&self, index: u64) -> u64 {
        let choices = self.size_max_bytes.saturating_sub(self.size_min_bytes).saturating_add(1);
        self.size_min_bytes + xxh3_64_with_seed(&index.to_le_bytes(), self.seed) % choices
    }

    /// Which object has this key.
    pub(super) fn index_of(&self, key: &str) -> Option<u64> {
        let digits = key.strip_prefix(self.prefix.as_str())?;
        let well_formed = digits.len() == KEY_DIGITS && digits.bytes().all(|b| b.is_ascii_digit());
        let index = digits.parse().ok().filter(|_| well_formed)?;
        (index < self.count).then_some(index)
    }

    /// The first object whose key satisfies `at_or_after`, which must hold from some key on.
    pub(super) fn first_where(&self, at_or_after: impl Fn(&str) -> bool) -> Option<u64> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            if at_or_after(&self.key(middle)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        (low < self.count).then_some(low)
    }
}

/// When a version of a pattern object was "written": a second after the one before, and the
/// same in every process.
pub(super) fn last_modified(version: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(FIRST_VERSION_UNIX_SECONDS + version - 1)
}
