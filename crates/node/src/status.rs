//! How a worker is: what `/status` answers and `forebay status` asks.
//!
//! Field names are a stable interface; what changes meaning changes [`SCHEMA`].

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use forebay_rt::{Clock, timeout};
use http::Uri;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde::{Deserialize, Serialize};

pub use crate::cluster::{ClusterStatus, HandedOver, WorkerStatus};

/// The version of [`Status`]'s fields.
pub const SCHEMA: u32 = 1;

const FETCH_LIMIT: Duration = Duration::from_secs(5);
const MAX_STATUS_BYTES: usize = 4 << 20;

/// How a worker is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Status {
    /// The version of these fields.
    pub schema: u32,
    /// The worker's release.
    pub version: String,
    /// Whether it serves.
    pub state: State,
    /// Seconds since it started.
    pub uptime_s: u64,
    /// Where S3 clients are served.
    pub s3: String,
    /// Its disks.
    pub disks: Vec<DiskStatus>,
    /// Its bucket rules.
    pub buckets: Vec<BucketStatus>,
    /// What it has served since it started.
    pub served: Served,
    /// Fills under way.
    pub fills_in_flight: usize,
    /// Its cluster; `None` for a worker that is alone.
    #[serde(default)]
    pub cluster: Option<ClusterStatus>,
}

/// Where a worker is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Not accepting yet.
    Starting,
    /// Accepting.
    Ready,
    /// Finishing what is in flight.
    Draining,
}

/// One disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DiskStatus {
    /// Its directory.
    pub path: String,
    /// `healthy`, `writes_off` or `offline`.
    pub state: String,
    /// Whether it takes part.
    pub healthy: bool,
    /// Bytes that it may use.
    pub capacity_bytes: u64,
    /// Bytes that it uses.
    pub used_bytes: u64,
    /// Extents that it holds, as far as they are in memory.
    pub extents: u64,
    /// Whether its index is in memory; before, lookups ask the disk.
    pub index_loaded: bool,
}

/// One bucket rule.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BucketStatus {
    /// The bucket, or `*`.
    pub name: String,
    /// The origin's endpoint.
    pub origin: String,
    /// The rule's freshness.
    pub freshness: String,
    /// What the origin said at start: `ok`, `not asked`, or why it did not answer.
    pub origin_at_start: String,
}

/// What a worker has served, by where it came from.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Served {
    /// Bytes that were resident in memory.
    pub ram_bytes: u64,
    /// Bytes read from a disk.
    pub nvme_bytes: u64,
    /// Bytes that another worker had.
    #[serde(default)]
    pub peer_bytes: u64,
    /// Bytes that had to come from the origin.
    pub origin_bytes: u64,
    /// Requests of which every byte was resident in memory.
    pub ram_requests: u64,
    /// Requests that read from a disk and not from the origin.
    pub nvme_requests: u64,
    /// Requests of which some bytes came from another worker and none from the origin.
    #[serde(default)]
    pub peer_requests: u64,
    /// Requests of which some byte came from the origin.
    pub origin_requests: u64,
}

/// Why a worker's status is not known.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// The endpoint is no URL.
    #[error("admin endpoint {0:?} is not a URL: write --endpoint http://HOST:PORT")]
    Endpoint(String),
    /// Nothing answers there.
    #[error(
        "no worker answers at {endpoint}: {reason}: check that it runs, and give the admin address that it printed with --endpoint"
    )]
    Unreachable {
        /// Where it was looked for.
        endpoint: String,
        /// What happened.
        reason: String,
    },
    /// Something else answers there.
    #[error(
        "{endpoint} does not answer as a Forebay worker: {reason}: give the admin address that the worker printed, not its S3 address"
    )]
    Unexpected {
        /// Who answered.
        endpoint: String,
        /// What is wrong with the answer.
        reason: String,
    },
}

impl Status {
    /// Whether nobody has to look.
    pub fn is_healthy(&self) -> bool {
        self.state == State::Ready && self.disks.iter().all(|disk| disk.healthy)
    }
}

impl Served {
    /// The share of bytes that did not come from the origin; `None` before the first one.
    pub fn hit_bytes_ratio(&self) -> Option<f64> {
        ratio(self.ram_bytes + self.nvme_bytes + self.peer_bytes, self.origin_bytes)
    }

    /// The share of requests that needed nothing from the origin; `None` before the first one.
    pub fn hit_requests_ratio(&self) -> Option<f64> {
        let hits = self.ram_requests + self.nvme_requests + self.peer_requests;
        ratio(hits, self.origin_requests)
    }
}

fn ratio(hits: u64, misses: u64) -> Option<f64> {
    let all = hits + misses;
    (all > 0).then(|| hits as f64 / all as f64)
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Draining => "draining",
        })
    }
}

/// Asks the worker whose admin endpoint is `endpoint`.
pub async fn fetch(clock: &dyn Clock, endpoint: &str) -> Result<Status, StatusError> {
    let uri: Uri = format!("{}/status", endpoint.trim_end_matches('/'))
        .parse()
        .map_err(|_| StatusError::Endpoint(endpoint.into()))?;
    if uri.scheme_str() != Some("http") {
        return Err(StatusError::Endpoint(endpoint.into()));
    }
    let unreachable =
        |reason: String| StatusError::Unreachable { endpoint: endpoint.into(), reason };
    let unexpected = |reason: String| StatusError::Unexpected { endpoint: endpoint.into(), reason };
    let body = timeout(clock, FETCH_LIMIT, get(uri))
        .await
        .map_err(|_| unreachable(format!("no answer within {} s", FETCH_LIMIT.as_secs())))?
        .map_err(|failure| match failure {
            GetFailure::Connection(reason) => unreachable(reason),
            GetFailure::Answer(reason) => unexpected(reason),
        })?;
    serde_json::from_slice(&body).map_err(|error| unexpected(error.to_string()))
}

enum GetFailure {
    Connection(String),
    Answer(String),
}

async fn get(uri: Uri) -> Result<Bytes, GetFailure> {
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let answer =
        client.get(uri).await.map_err(|error| GetFailure::Connection(innermost(&error)))?;
    if !answer.status().is_success() {
        return Err(GetFailure::Answer(format!("status {}", answer.status())));
    }
    let body = Limited::new(answer.into_body(), MAX_STATUS_BYTES).collect().await;
    Ok(body.map_err(|error| GetFailure::Answer(error.to_string()))?.to_bytes())
}

/// The cause that a reader can act on: "connection refused", not "client error".
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
