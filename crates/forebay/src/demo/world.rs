//! The demo's processes: a distant origin, three voters, three workers.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use forebay_rt::{Rng, SystemRng};
use forebay_testkit::cluster::{Cluster, ClusterPlan, Member};
use forebay_testkit::origin::{KeyCounts, READY_PREFIX, Stats};
use forebay_testkit::process::Launch;
use forebay_testkit::reader::{AnyOf, Ask, Reader};
use forebay_testkit::{AccessKey, OriginConfig, Process, Shape};
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use super::counts::OriginCounts;
use super::dataset::{BUCKET, Dataset};
use super::place;

/// How far away the origin is: a bucket in the same region.
pub(super) const FIRST_BYTE: Duration = Duration::from_millis(15);
pub(super) const STREAM_BYTES_PER_SECOND: u64 = 90_000_000;

const START_LIMIT: Duration = Duration::from_secs(20);
const MIN_CAPACITY_BYTES: u64 = 2 << 30;
const REGION: &str = "us-east-1";

/// All processes, their keys and their directory. All end when it is dropped.
#[derive(Debug)]
pub(super) struct World {
    // Before the directory, so that nobody writes into it when it goes.
    cluster: Cluster,
    _origin: Process,
    origin_endpoint: String,
    keys: Keys,
    _dir: TempDir,
}

#[derive(Debug)]
struct Keys {
    origin: AccessKey,
    client: AccessKey,
}

impl World {
    /// Starts all of them; returns when every worker is in the ring.
    pub(super) async fn start(dir: Option<&Path>, dataset: &Dataset) -> anyhow::Result<Self> {
        let set_bytes = dataset.epoch(1).bytes();
        let dir = place::make(dir)?;
        place::check_room(dir.path(), set_bytes)?;
        let keys = Keys { origin: new_key("demo-origin"), client: new_key("demo-client") };
        let (origin, origin_endpoint) = start_origin(dataset, &keys.origin).await?;
        let binary = std::env::current_exe().context("find this binary")?;
        let plan = ClusterPlan {
            capacity: MIN_CAPACITY_BYTES.max(set_bytes).to_string(),
            origin_key: keys.origin.clone(),
            client_key: keys.client.clone(),
            ..ClusterPlan::new(&binary, dir.path(), &origin_endpoint, BUCKET)
        };
        let cluster = Cluster::start(plan).await.context("start voters and workers")?;
        Ok(Self { cluster, _origin: origin, origin_endpoint, keys, _dir: dir })
    }

    /// Kills a worker without warning.
    pub(super) fn kill(&mut self, worker: usize) -> anyhow::Result<()> {
        self.cluster.workers[worker].kill_9().context("kill a worker")
    }

    /// Starts a killed worker again on what is left of its cache.
    pub(super) async fn start_again(&mut self, worker: usize) -> anyhow::Result<()> {
        self.cluster.workers[worker].start().await.context("start a worker again")
    }

    /// What a worker has on its disks.
    pub(super) async fn held_bytes(&self, worker: usize) -> anyhow::Result<u64> {
        let status = self.cluster.workers[worker].status().await.context("ask a worker")?;
        status["disks"][0]["used_bytes"].as_u64().context("read what a worker holds")
    }

    /// A client of the origin itself.
    pub(super) fn origin(&self) -> anyhow::Result<Reader> {
        Ok(Reader::new(&self.origin_endpoint)?.signed_by(&self.keys.origin))
    }

    /// A client of all workers, with connections of its own.
    pub(super) fn forebay(&self) -> anyhow::Result<AnyOf> {
        let reader =
            |worker: &Member| Ok(Reader::new(&worker.endpoint())?.signed_by(&self.keys.client));
        let readers = self.cluster.workers.iter().map(reader);
        Ok(AnyOf::new(readers.collect::<anyhow::Result<_>>()?))
    }

    /// What the origin has counted so far.
    pub(super) async fn counts(&self) -> anyhow::Result<OriginCounts> {
        let stats: Stats = self.ask_origin("stats").await?;
        let keys: std::collections::BTreeMap<String, KeyCounts> = self.ask_origin("keys").await?;
        let requests = |(key, counts): (String, KeyCounts)| (key, counts.gets + counts.heads);
        Ok(OriginCounts {
            requests: stats.counts.requests,
            bytes: stats.counts.bytes_sent,
            by_key: keys.into_iter().map(requests).collect(),
        })
    }

    /// What to type to try it by hand.
    pub(super) fn invitation(&self) -> String {
        let endpoints: Vec<_> = self.cluster.workers.iter().map(Member::endpoint).collect();
        let (s3, admin) = (&endpoints[0], self.cluster.workers[0].admin());
        let AccessKey { id, secret } = &self.keys.client;
        format!(
            "endpoints {}   bucket {BUCKET}   metrics {admin}/metrics\n\
             export AWS_ENDPOINT_URL_S3={s3} AWS_REGION={REGION} AWS_ACCESS_KEY_ID={id} \
             AWS_SECRET_ACCESS_KEY={secret}\n\
             aws s3 cp s3://{BUCKET}/shards/00000000 - | wc -c\n\
             python3 -c \"import boto3; print(boto3.client('s3').get_object(Bucket='{BUCKET}', \
             Key='images/00000000')['ContentLength'])\"\n\
             forebay status --endpoint {admin}\n\
             forebay ring show {}",
            endpoints.join(" "),
            self.cluster.control_args().join(" ")
        )
    }

    async fn ask_origin<T: DeserializeOwned>(&self, what: &str) -> anyhow::Result<T> {
        let ask = Ask::new(http::Method::GET, "_fo", what);
        let body = self.origin()?.request(ask).await?.success().await;
        let body = body.with_context(|| format!("ask the demo's origin for its {what}"))?;
        serde_json::from_slice(&body).with_context(|| format!("read the origin's {what}"))
    }
}

async fn start_origin(dataset: &Dataset, key: &AccessKey) -> anyhow::Result<(Process, String)> {
    let config = OriginConfig {
        patterns: dataset.patterns(),
        access_keys: vec![key.clone()],
        shape: Shape::distant(FIRST_BYTE, STREAM_BYTES_PER_SECOND),
        exit_with_stdin: true,
        ..OriginConfig::default()
    };
    let config = serde_json::to_string(&config).context("describe the origin")?;
    let binary = std::env::current_exe().context("find this binary")?;
    let launch = Launch::new(binary).arg("demo-origin").arg("--config").arg(config);
    let mut origin = Process::start(&launch).context("start the demo's origin")?;
    let endpoint = origin.announced(READY_PREFIX, START_LIMIT).await?;
    Ok((origin, endpoint))
}

fn new_key(id: &str) -> AccessKey {
    // A key for the minute that the demo lasts, on loopback.
    let half = || format!("{:016x}", SystemRng.next_u64());
    AccessKey::new(id, &format!("{}{}", half(), half()))
}
