//! The demo's two processes: a distant origin, and a worker in front of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use forebay_rt::{Rng, SystemRng};
use forebay_testkit::origin::{KeyCounts, READY_PREFIX, Stats};
use forebay_testkit::process::Launch;
use forebay_testkit::reader::{Ask, Reader};
use forebay_testkit::{AccessKey, OriginConfig, Process, Shape};
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use super::dataset::{BUCKET, Dataset};
use super::place;

/// How far away the origin is: a bucket in the same region.
pub(super) const FIRST_BYTE: Duration = Duration::from_millis(15);
pub(super) const STREAM_BYTES_PER_SECOND: u64 = 90_000_000;

const START_LIMIT: Duration = Duration::from_secs(20);
const LISTENING_PREFIX: &str = "forebay listening ";
const MIN_CAPACITY_BYTES: u64 = 4 << 30;
const REGION: &str = "us-east-1";

/// Both processes, their keys and the cache directory. All end when it is dropped.
#[derive(Debug)]
pub(super) struct World {
    // Before the directory, so that nobody writes into it when it goes.
    worker: Process,
    _origin: Process,
    origin_endpoint: String,
    addresses: Addresses,
    keys: Keys,
    capacity_bytes: u64,
    dir: TempDir,
}

/// Where the worker listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) s3: String,
    pub(super) admin: String,
}

#[derive(Debug)]
struct Keys {
    origin: AccessKey,
    client: AccessKey,
}

/// What the origin was asked, and what it sent.
#[derive(Debug, Clone, Default)]
pub(super) struct OriginCounts {
    pub(super) requests: u64,
    pub(super) bytes: u64,
    /// Requests by key, as `bucket/key`.
    pub(super) by_key: BTreeMap<String, u64>,
}

impl World {
    /// Starts both.
    pub(super) async fn start(dir: Option<&Path>, dataset: &Dataset) -> anyhow::Result<Self> {
        let set_bytes = dataset.epoch(1).bytes();
        let dir = place::make(dir)?;
        place::check_room(dir.path(), set_bytes)?;
        let keys = Keys { origin: new_key("demo-origin"), client: new_key("demo-client") };
        let (origin, origin_endpoint) = start_origin(dataset, &keys.origin).await?;
        let capacity_bytes = MIN_CAPACITY_BYTES.max(2 * set_bytes);
        let launch =
            Launcher { origin: &origin_endpoint, keys: &keys, dir: dir.path(), capacity_bytes };
        let (worker, addresses) = launch.worker("127.0.0.1:0", "127.0.0.1:0").await?;
        Ok(Self { worker, _origin: origin, origin_endpoint, addresses, keys, capacity_bytes, dir })
    }

    /// Kills the worker without warning and starts it again on what is left of its cache.
    pub(super) async fn kill_and_restart_worker(&mut self) -> anyhow::Result<()> {
        self.worker.kill_9().context("kill the worker")?;
        let launch = Launcher {
            origin: &self.origin_endpoint,
            keys: &self.keys,
            dir: self.dir.path(),
            capacity_bytes: self.capacity_bytes,
        };
        let (s3, admin) = (authority(&self.addresses.s3), authority(&self.addresses.admin));
        (self.worker, self.addresses) = launch.worker(s3, admin).await?;
        Ok(())
    }

    /// A client of the origin itself.
    pub(super) fn origin(&self) -> anyhow::Result<Reader> {
        Ok(Reader::new(&self.origin_endpoint)?.signed_by(&self.keys.origin))
    }

    /// A client of Forebay, with connections of its own.
    pub(super) fn forebay(&self) -> anyhow::Result<Reader> {
        Ok(Reader::new(&self.addresses.s3)?.signed_by(&self.keys.client))
    }

    /// What the origin has counted so far.
    pub(super) async fn counts(&self) -> anyhow::Result<OriginCounts> {
        let stats: Stats = self.ask_origin("stats").await?;
        let keys: BTreeMap<String, KeyCounts> = self.ask_origin("keys").await?;
        let requests = |(key, counts): (String, KeyCounts)| (key, counts.gets + counts.heads);
        Ok(OriginCounts {
            requests: stats.counts.requests,
            bytes: stats.counts.bytes_sent,
            by_key: keys.into_iter().map(requests).collect(),
        })
    }

    /// What to type to try it by hand.
    pub(super) fn invitation(&self) -> String {
        let Addresses { s3, admin } = &self.addresses;
        let AccessKey { id, secret } = &self.keys.client;
        format!(
            "endpoint {s3}   bucket {BUCKET}   metrics {admin}/metrics\n\
             export AWS_ENDPOINT_URL_S3={s3} AWS_REGION={REGION} AWS_ACCESS_KEY_ID={id} \
             AWS_SECRET_ACCESS_KEY={secret}\n\
             aws s3 cp s3://{BUCKET}/shards/00000000 - | wc -c\n\
             python3 -c \"import boto3; print(boto3.client('s3').get_object(Bucket='{BUCKET}', \
             Key='images/00000000')['ContentLength'])\"\n\
             forebay status --endpoint {admin}"
        )
    }

    async fn ask_origin<T: DeserializeOwned>(&self, what: &str) -> anyhow::Result<T> {
        let ask = Ask::new(http::Method::GET, "_fo", what);
        let body = self.origin()?.request(ask).await?.success().await;
        let body = body.with_context(|| format!("ask the demo's origin for its {what}"))?;
        serde_json::from_slice(&body).with_context(|| format!("read the origin's {what}"))
    }
}

impl OriginCounts {
    /// What was counted between `earlier` and now.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let before = |key: &String| earlier.by_key.get(key).copied().unwrap_or(0);
        let by_key = self.by_key.iter().map(|(key, now)| (key.clone(), now - before(key)));
        Self {
            requests: self.requests - earlier.requests,
            bytes: self.bytes - earlier.bytes,
            by_key: by_key.collect(),
        }
    }

    /// Both together.
    pub(super) fn plus(mut self, other: &Self) -> Self {
        self.requests += other.requests;
        self.bytes += other.bytes;
        for (key, more) in &other.by_key {
            *self.by_key.entry(key.clone()).or_default() += more;
        }
        self
    }

    /// Keys that begin with `prefix` and were asked for more than once.
    pub(super) fn asked_again(&self, prefix: &str) -> u64 {
        let prefix = format!("{BUCKET}/{prefix}");
        let again = |(key, requests): &(&String, &u64)| key.starts_with(&prefix) && **requests > 1;
        self.by_key.iter().filter(again).count() as u64
    }
}

impl Addresses {
    /// Reads the line that a worker prints when it listens.
    fn parse(line: &str) -> Option<Self> {
        let field = |name: &str| {
            line.split_ascii_whitespace().find_map(|word| word.strip_prefix(name)).map(Into::into)
        };
        Some(Self { s3: field("s3=")?, admin: field("admin=")? })
    }
}

/// What each start of the worker has in common.
struct Launcher<'a> {
    origin: &'a str,
    keys: &'a Keys,
    dir: &'a Path,
    capacity_bytes: u64,
}

impl Launcher<'_> {
    async fn worker(&self, s3: &str, admin: &str) -> anyhow::Result<(Process, Addresses)> {
        let args = [
            ("--listen", s3.to_owned()),
            ("--admin-listen", admin.to_owned()),
            ("--origin", self.origin.to_owned()),
            ("--bucket", BUCKET.to_owned()),
            ("--region", REGION.to_owned()),
            ("--freshness", "immutable".to_owned()),
            ("--cache-dir", self.dir.join("cache").display().to_string()),
            ("--capacity", self.capacity_bytes.to_string()),
            ("--auth", "keys".to_owned()),
        ];
        let Keys { origin, client } = self.keys;
        let env = [
            ("AWS_ACCESS_KEY_ID", origin.id.as_str()),
            ("AWS_SECRET_ACCESS_KEY", &origin.secret),
            ("AWS_SESSION_TOKEN", ""),
            ("FOREBAY_ACCESS_KEY_ID", &client.id),
            ("FOREBAY_SECRET_ACCESS_KEY", &client.secret),
            ("FOREBAY_CONFIG", ""),
        ];
        let launch = this_binary()?.arg("serve").arg("--exit-with-stdin");
        let launch =
            args.into_iter().fold(launch, |launch, (flag, value)| launch.arg(flag).arg(value));
        let launch = env.into_iter().fold(launch, |launch, (name, value)| launch.env(name, value));
        let mut worker = Process::start(&launch).context("start the worker")?;
        let line = worker.announced(LISTENING_PREFIX, START_LIMIT).await?;
        let addresses = Addresses::parse(&line);
        Ok((worker, addresses.with_context(|| format!("read the worker's addresses in {line:?}"))?))
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
    let launch = this_binary()?.arg("demo-origin").arg("--config").arg(config);
    let mut origin = Process::start(&launch).context("start the demo's origin")?;
    let endpoint = origin.announced(READY_PREFIX, START_LIMIT).await?;
    Ok((origin, endpoint))
}

fn this_binary() -> anyhow::Result<Launch> {
    Ok(Launch::new(std::env::current_exe().context("find this binary")?))
}

fn new_key(id: &str) -> AccessKey {
    // A key for the minute that the demo lasts, on loopback.
    let half = || format!("{:016x}", SystemRng.next_u64());
    AccessKey::new(id, &format!("{}{}", half(), half()))
}

fn authority(endpoint: &str) -> &str {
    endpoint.trim_start_matches("http://")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(requests: u64, bytes: u64, keys: &[(&str, u64)]) -> OriginCounts {
        let by_key = keys.iter().map(|(key, count)| ((*key).to_owned(), *count)).collect();
        OriginCounts { requests, bytes, by_key }
    }

    #[test]
    fn only_what_was_counted_between_is_counted() {
        let before = counts(3, 30, &[("demo/images/1", 1), ("demo/shards/1", 2)]);
        let after =
            counts(7, 90, &[("demo/images/1", 2), ("demo/images/2", 1), ("demo/shards/1", 9)]);
        let between = after.since(&before);
        assert_eq!((between.requests, between.bytes), (4, 60));
        assert_eq!(between.asked_again("images/"), 0);
        assert_eq!(between.plus(&before).asked_again("images/"), 1);
    }

    #[test]
    fn the_line_of_a_worker_tells_where_it_listens() {
        let line = "s3=http://127.0.0.1:1 admin=http://127.0.0.1:2";
        let found = Addresses::parse(line).unwrap();
        assert_eq!(
            (found.s3.as_str(), found.admin.as_str()),
            ("http://127.0.0.1:1", "http://127.0.0.1:2")
        );
        assert_eq!(Addresses::parse("s3=http://127.0.0.1:1"), None);
    }
}
