//! Configuration in two steps: what the operator typed ([`RawConfig`]), and what it means
//! ([`Config`]).
//!
//! Reads the file, the environment and the flags, and refuses what cannot work with an error
//! that names the key, the value, the reason and the fix. Code below sees only [`Config`] and
//! never looks at the environment. Nothing here opens a socket or touches a cache directory.

mod address;
mod auth;
mod buckets;
mod cluster;
mod control;
mod credentials;
mod error;
mod known_keys;
mod layers;
mod meta;
mod raw;
mod resolve;
pub mod rules;
mod rules_file;
mod secret_file;
mod size;
mod tls;
mod worker;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use forebay_origin::WebIdentity;
use forebay_s3::{AccessKey, BucketPattern, Grant};
use forebay_telemetry::{LogFormat, Secret};
use forebay_types::{BucketName, Freshness};
use forebay_zerocopy::Congestion;

pub use address::Advertise;
pub use cluster::ClusterConfig;
pub use control::ControlConfig;
pub use error::ConfigError;
pub use layers::{Environment, Flags, Knob};
pub use meta::{InitialVoter, MetaConfig};
pub use raw::RawConfig;
pub use rules::RuleSet;
pub use rules_file::RulesFile;
pub use size::{Capacity, SizeError, parse_size};
pub use tls::TlsConfig;

/// Everything that a process needs to know before it starts. Valid by construction.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where `/metrics`, `/status` and the probes are served.
    pub admin_listen: SocketAddr,
    /// How long requests in flight may take after SIGTERM.
    pub drain: Duration,
    /// How log lines look.
    pub log_format: LogFormat,
    /// What the process is.
    pub role: Role,
    /// What works but should be known; shown once at start.
    pub warnings: Vec<String>,
}

/// What a process is.
#[derive(Debug, Clone)]
pub enum Role {
    /// A worker: alone, or one of several, with a voter beside it or without.
    Worker(Box<WorkerConfig>),
    /// A voter and nothing else: no S3 port, no disk for blocks.
    Voter(Box<MetaConfig>),
}

/// What a worker needs to know.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// Where S3 clients are served.
    pub listen: SocketAddr,
    /// Where they are served over TLS, if anywhere.
    pub tls: Option<TlsConfig>,
    /// Host names under which `bucket.name` addresses a bucket.
    pub domains: Vec<String>,
    /// Congestion control of client connections.
    pub congestion: Congestion,
    /// Where blocks are kept; at least one.
    pub disks: Vec<DiskRule>,
    /// Bounds of the cache in memory.
    pub cache: CacheSettings,
    /// Its own rules, which hold until the cluster has some. `None` only in a cluster.
    pub rules: Option<RuleSet>,
    /// Where those came from, to see when they change. `None` without a config file.
    pub rules_file: Option<RulesFile>,
    /// Its place among others; `None` for one that is alone.
    pub cluster: Option<ClusterConfig>,
}

/// A directory for blocks, and how much of its volume it may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskRule {
    /// The directory; made when missing.
    pub path: PathBuf,
    /// Its limit.
    pub capacity: Capacity,
}

/// Bounds of the cache in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSettings {
    /// Blocks fetched ahead of a sequential reader.
    pub read_ahead_blocks: u64,
    /// Bytes of fills in flight.
    pub fill_budget_bytes: u64,
    /// Versions remembered in memory.
    pub versions_in_memory: u64,
}

/// Who may ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// Anybody who reaches the port. Has to be asked for in words.
    Open,
    /// Holders of keys, and callers that do not sign as far as they are granted something. One of
    /// the two lets somebody in.
    Keys {
        /// The keys.
        keys: Vec<AccessKey>,
        /// What callers may do that do not sign.
        anonymous: Vec<Grant>,
    },
}

/// What the operator says of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketRule {
    /// The bucket, or every one that no other rule names.
    pub bucket: BucketPattern,
    /// Where its objects come from.
    pub origin: OriginRule,
    /// How long a known version stands.
    pub freshness: Freshness,
    /// Other freshness for keys under a prefix; the longest prefix that fits wins.
    pub prefixes: Vec<(String, Freshness)>,
}

/// An origin as a rule names it. Rules with equal ones share connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginRule {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The region that requests are signed for.
    pub region: String,
    /// Who Forebay is at the origin.
    pub credentials: OriginIdentity,
}

/// Where an origin is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// Amazon S3 in the rule's region.
    Aws,
    /// An S3 endpoint, without a trailing slash.
    Url(String),
}

/// Who Forebay is at an origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OriginIdentity {
    /// The default AWS chain: environment, profile, web identity, instance.
    Chain,
    /// Requests are not signed: public buckets.
    Anonymous,
    /// A key of its own.
    Static {
        /// The access key id.
        access_key_id: String,
        /// Its secret.
        secret: Secret,
    },
    /// A role of its own, lent by an STS to the bearer of a token.
    WebIdentity(WebIdentity),
}

impl Endpoint {
    /// The endpoint as its operator knows it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Aws => "aws",
            Self::Url(url) => url,
        }
    }
}

impl BucketRule {
    /// The bucket's name; `None` for the rule of all others.
    pub fn name(&self) -> Option<&BucketName> {
        match &self.bucket {
            BucketPattern::Any => None,
            BucketPattern::Exactly(name) => Some(name),
        }
    }

    /// The bucket's name, `*` for the rule of all others.
    pub fn label(&self) -> &str {
        self.name().map_or("*", BucketName::as_str)
    }
}
