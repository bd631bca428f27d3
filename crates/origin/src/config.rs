//! What the operator says about one origin, resolved: code below this crate's edge sees no text
//! that still has to be parsed but the endpoint, which [`crate::Origin::connect`] checks.

use std::path::PathBuf;
use std::time::Duration;

use forebay_rt::Backoff;
use forebay_telemetry::Secret;
use forebay_types::BucketName;

/// Requests that may wait for a slot for each one that may be in flight.
const WAITING_PER_SLOT: usize = 8;

/// One origin: where it is, who we are there, and how patient we are with it.
#[derive(Debug, Clone)]
pub struct OriginConfig {
    /// `http://` or `https://` URL of the server; `None` is AWS.
    pub endpoint: Option<String>,
    /// The region to sign for. `None`: with [`CredentialsSource::DefaultChain`] what the
    /// environment, the profile or the instance says; else `us-east-1`.
    pub region: Option<String>,
    /// Our own identity at the origin.
    pub credentials: CredentialsSource,
    /// `endpoint/bucket/key` rather than `bucket.endpoint/key`.
    pub path_style: bool,
    /// Requests, their bodies included, that may be on their way at once.
    pub max_in_flight: usize,
    /// Requests that may wait for one of those to end.
    pub max_waiting: usize,
    /// How long one may wait.
    pub wait_timeout: Duration,
    /// How often, and after which waits, a failed request is tried again.
    pub retry: Backoff,
    /// Limit for one TCP and TLS connect. In real time, whatever the clock.
    pub connect_timeout: Duration,
    /// Limit for the head of an answer to HEAD and GET, the connect included.
    pub first_byte_timeout: Duration,
    /// Longest silence in a body.
    pub stall_timeout: Duration,
    /// Slowest body that is not given up.
    pub min_rate: MinRate,
    /// Longest silence between the last byte of a forwarded request and the head of its answer:
    /// a server may copy gigabytes before it says anything.
    pub answer_timeout: Duration,
    /// Buckets that metrics may name; all others are `other`.
    pub metric_buckets: Vec<BucketName>,
}

/// The rate below which a body is given up: time in which nobody reads it does not count.
#[derive(Debug, Clone, Copy)]
pub struct MinRate {
    /// Bytes a second; 0 switches the check off.
    pub bytes_per_s: u64,
    /// The time over which it is taken.
    pub window: Duration,
}

/// Where our identity at the origin comes from.
#[derive(Debug, Clone)]
pub enum CredentialsSource {
    /// AWS' own order: environment, profile, web identity (IRSA), container, instance.
    DefaultChain,
    /// A fixed pair of keys.
    Static {
        /// The public half.
        access_key_id: String,
        /// The secret half.
        secret: Secret,
        /// For temporary keys.
        session_token: Option<Secret>,
    },
    /// Requests are not signed.
    Anonymous,
    /// What an STS lends to the bearer of a token.
    WebIdentity(WebIdentity),
}

/// A role, and the token that an STS lends it for (`AssumeRoleWithWebIdentity`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebIdentity {
    /// The role.
    pub role_arn: String,
    /// Where the token is. Read anew each time: its issuer replaces it before it expires.
    pub token_file: PathBuf,
    /// What the owner of the role sees us called.
    pub session_name: String,
    /// `http://` or `https://` URL of the STS, without a path; `None`: AWS' own, in our region.
    pub sts_endpoint: Option<String>,
}

impl OriginConfig {
    /// AWS itself, with defaults for all else.
    pub fn aws(credentials: CredentialsSource) -> Self {
        let max_in_flight = 256;
        Self {
            endpoint: None,
            region: None,
            credentials,
            path_style: false,
            max_in_flight,
            max_waiting: max_in_flight * WAITING_PER_SLOT,
            wait_timeout: Duration::from_secs(10),
            retry: Backoff {
                base: Duration::from_millis(100),
                cap: Duration::from_secs(2),
                tries: 5,
            },
            connect_timeout: Duration::from_secs(3),
            first_byte_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(10),
            min_rate: MinRate { bytes_per_s: 4 << 10, window: Duration::from_secs(30) },
            answer_timeout: Duration::from_mins(5),
            metric_buckets: Vec::new(),
        }
    }

    /// Any other S3 server, in path style, with defaults for all else.
    pub fn at(endpoint: &str, credentials: CredentialsSource) -> Self {
        Self { endpoint: Some(endpoint.into()), path_style: true, ..Self::aws(credentials) }
    }
}
