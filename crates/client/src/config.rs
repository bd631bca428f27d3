//! What a client is told by its user.

use std::fmt;
use std::sync::Arc;

use forebay_rt::{SharedClock, SharedRng, SystemClock, SystemRng};
use http::Uri;

/// The region that S3 servers take when they do not care.
const DEFAULT_REGION: &str = "us-east-1";

/// Where the cluster is, and who we are there.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// S3 ports of some workers, or a name that leads to any: `http://host:port`.
    pub endpoints: Vec<Uri>,
    /// Where the objects are when no worker answers.
    pub origin: Option<OriginConfig>,
    /// An access key of the cluster; `None` where it asks for none.
    pub credentials: Option<Credentials>,
    /// The region that signatures for the workers name.
    pub region: String,
    /// Time, and the date of signatures.
    pub clock: SharedClock,
    /// Chance, for the order in which workers are tried.
    pub rng: SharedRng,
}

impl ClientConfig {
    /// A client of these workers that does not sign and knows no origin.
    pub fn new(endpoints: Vec<Uri>) -> Self {
        Self {
            endpoints,
            origin: None,
            credentials: None,
            region: DEFAULT_REGION.into(),
            clock: Arc::new(SystemClock),
            rng: Arc::new(SystemRng),
        }
    }
}

/// The origin behind the cluster. It is addressed by path (`/bucket/key`).
#[derive(Debug, Clone)]
pub struct OriginConfig {
    /// `https://host` or `http://host:port`.
    pub endpoint: Uri,
    /// An access key of the origin: the cluster's mean nothing there.
    pub credentials: Option<Credentials>,
    /// Its region.
    pub region: String,
}

impl OriginConfig {
    /// An origin that is read without a signature.
    pub fn new(endpoint: Uri) -> Self {
        Self { endpoint, credentials: None, region: DEFAULT_REGION.into() }
    }
}

/// An access key. Prints without its secret.
#[derive(Clone)]
pub struct Credentials {
    /// The public id.
    pub access_key_id: String,
    /// The secret.
    pub secret: String,
    /// For keys that end: the token that came with them.
    pub session_token: Option<String>,
}

impl Credentials {
    /// A key that does not end.
    pub fn new(access_key_id: &str, secret: &str) -> Self {
        let (access_key_id, secret) = (access_key_id.into(), secret.into());
        Self { access_key_id, secret, session_token: None }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key_id", &self.access_key_id)
            .finish_non_exhaustive()
    }
}
