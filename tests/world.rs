//! The world of a test: origin in this process, worker in another, cache in a directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use forebay_testkit::process::Launch;
use forebay_testkit::reader::{UpTo, Verified, VerifyError};
use forebay_testkit::{
    AccessKey, FaultOrigin, Op, OriginConfig, PatternSet, Process, Reader, Shape,
};
use forebay_types::{ByteRange, PAGE_BYTES};
use tempfile::TempDir;

/// The bucket of every test.
pub const BUCKET: &str = "train";
/// What clients sign with: key id and secret.
pub const CLIENT: (&str, &str) = ("CLIENTKEY", "client-secret-canary");
/// What the worker signs with at the origin.
pub const ORIGIN: (&str, &str) = ("ORIGINKEY", "origin-secret-canary");

const START_LIMIT: Duration = Duration::from_secs(20);
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// Versions of one key that a reader believes in.
pub(crate) const MAX_VERSIONS: u64 = 10_000;

/// Whether the long forms were asked for: `FOREBAY_LONG=1`.
pub fn is_long() -> bool {
    std::env::var_os("FOREBAY_LONG").is_some_and(|value| value == "1")
}

/// The binary under test, built beside this one. `cargo xtask test` builds it first.
pub fn forebay_binary() -> Result<PathBuf> {
    let here = std::env::current_exe().context("find this test")?;
    let profile = here.ancestors().nth(2).context("find the target folder")?;
    let binary = profile.join("forebay");
    anyhow::ensure!(
        binary.exists(),
        "{} is missing: run `cargo build --release -p forebay`, or `cargo xtask test`",
        binary.display()
    );
    Ok(binary)
}

/// How a world differs from the usual one.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Freshness of the bucket.
    pub freshness: &'static str,
    /// Seconds of a `bounded` one.
    pub bound_seconds: Option<u64>,
    /// Bytes that the cache may use.
    pub capacity: &'static str,
    /// Blocks fetched ahead.
    pub read_ahead_blocks: u64,
    /// How slow the origin is.
    pub shape: Shape,
    /// Where the cache lies, instead of a folder of its own.
    pub cache_dir: Option<PathBuf>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            freshness: "immutable",
            bound_seconds: None,
            capacity: "4GiB",
            read_ahead_blocks: 8,
            shape: Shape::default(),
            cache_dir: None,
        }
    }
}

/// Origin, cache folder and, most of the time, a running worker.
#[derive(Debug)]
pub struct World {
    /// The origin.
    pub origin: FaultOrigin,
    /// The worker.
    pub worker: Worker,
    setup: Setup,
    folder: TempDir,
}

impl World {
    /// Starts an origin with these objects and a worker in front of it.
    pub async fn start(setup: Setup, patterns: &[&PatternSet]) -> Result<Self> {
        let origin = FaultOrigin::start(OriginConfig {
            buckets: vec![BUCKET.into()],
            patterns: patterns.iter().copied().cloned().collect(),
            access_keys: vec![AccessKey::new(ORIGIN.0, ORIGIN.1)],
            shape: setup.shape,
            ..OriginConfig::default()
        })
        .await
        .context("start the origin")?;
        let folder = TempDir::with_prefix("forebay-test-").context("make a folder")?;
        let config = write_config(folder.path(), &setup, &origin.endpoint())?;
        let worker = Worker::start(&config).await?;
        Ok(Self { origin, worker, setup, folder })
    }

    /// Where the cache lies.
    pub fn cache_dir(&self) -> PathBuf {
        cache_dir(self.folder.path(), &self.setup)
    }

    /// Kills the worker with no warning and starts it again on the same cache.
    pub async fn kill_and_restart(&mut self) -> Result<()> {
        self.worker.process.kill_9()?;
        self.restart().await
    }

    /// Starts a worker where none runs any more.
    pub async fn restart(&mut self) -> Result<()> {
        self.worker = Worker::start(&self.folder.path().join("forebay.toml")).await?;
        Ok(())
    }

    /// A signing client of the worker. Each has connections of its own.
    pub fn reader(&self) -> Result<Reader> {
        Ok(Reader::new(&self.worker.endpoint)?.signed_by(&AccessKey::new(CLIENT.0, CLIENT.1)))
    }

    /// A client of the origin itself.
    pub fn direct(&self) -> Result<Reader> {
        let key = AccessKey::new(ORIGIN.0, ORIGIN.1);
        Ok(Reader::new(&self.origin.endpoint())?.signed_by(&key))
    }

    /// How often each page of a key was asked for at the origin.
    pub fn pages_asked(&self, key: &str) -> BTreeMap<u64, u64> {
        pages_asked(&self.origin, key)
    }

    /// Requests for objects at the origin since its log was reset.
    pub fn object_requests(&self) -> u64 {
        self.origin.log().requests(Op::GetObject) + self.origin.log().requests(Op::HeadObject)
    }
}

/// Reads and checks every byte.
pub async fn read(
    reader: &Reader,
    key: &str,
    range: Option<ByteRange>,
) -> Result<Verified, VerifyError> {
    reader.verify_get(BUCKET, key, range, &UpTo(MAX_VERSIONS)).await
}

/// A running worker.
#[derive(Debug)]
pub struct Worker {
    /// Its process.
    pub process: Process,
    /// Its S3 endpoint.
    pub endpoint: String,
    /// Its admin endpoint.
    pub admin: String,
    /// From the start of the process to the line that says that it listens.
    pub listening_after: Duration,
}

impl Worker {
    async fn start(config: &Path) -> Result<Self> {
        let launch = Launch::new(forebay_binary()?)
            .arg("serve")
            .arg("--config")
            .arg(config)
            .env("AWS_ACCESS_KEY_ID", ORIGIN.0)
            .env("AWS_SECRET_ACCESS_KEY", ORIGIN.1)
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("FOREBAY_ACCESS_KEY_ID", CLIENT.0)
            .env("FOREBAY_SECRET_ACCESS_KEY", CLIENT.1);
        let started = tokio::time::Instant::now();
        let mut process = Process::start(&launch)?;
        let line = process.announced("forebay listening ", START_LIMIT).await?;
        let listening_after = started.elapsed();
        let field = |name: &str| -> Result<String> {
            let found = line.split_whitespace().find_map(|word| word.strip_prefix(name));
            Ok(found.with_context(|| format!("no {name} in {line:?}"))?.to_owned())
        };
        let (endpoint, admin) = (field("s3=")?, field("admin=")?);
        Ok(Self { process, endpoint, admin, listening_after })
    }

    /// Asks it to end, and waits.
    pub async fn stop(&mut self) -> Result<std::process::ExitStatus> {
        Ok(self.process.terminate(STOP_LIMIT).await?)
    }

    /// One page of its admin port.
    pub async fn admin_page(&self, path: &str) -> Result<String> {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let address = self.admin.trim_start_matches("http://");
        let mut socket = tokio::net::TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no head")?;
        anyhow::ensure!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
        Ok(body.to_owned())
    }

    /// The sum of a metric over its labels.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        let page = self.admin_page("/metrics").await?;
        let of_name =
            |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']));
        let values = page.lines().filter(of_name).filter_map(|line| line.rsplit_once(' '));
        Ok(values.filter_map(|(_, value)| value.parse::<f64>().ok()).sum())
    }
}

fn cache_dir(folder: &Path, setup: &Setup) -> PathBuf {
    setup.cache_dir.clone().unwrap_or_else(|| folder.join("cache"))
}

fn write_config(folder: &Path, setup: &Setup, origin: &str) -> Result<PathBuf> {
    let Setup { freshness, capacity, read_ahead_blocks, .. } = setup;
    let bound = setup.bound_seconds.map(|s| format!("bound_seconds = {s}\n")).unwrap_or_default();
    let cache = cache_dir(folder, setup);
    let cache = cache.display();
    let text = format!(
        "[worker]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\n\
         [[disk]]\npath = \"{cache}\"\ncapacity = \"{capacity}\"\n\
         [cache]\nread_ahead_blocks = {read_ahead_blocks}\n\
         [[bucket]]\nname = \"{BUCKET}\"\norigin = \"{origin}\"\nfreshness = \"{freshness}\"\n{bound}"
    );
    let path = folder.join("forebay.toml");
    std::fs::write(&path, text).context("write the config file")?;
    Ok(path)
}

/// How often each page of a key was asked for at an origin.
pub fn pages_asked(origin: &FaultOrigin, key: &str) -> BTreeMap<u64, u64> {
    let mut pages = BTreeMap::new();
    for record in origin.log().records() {
        let ranged = record.op == Op::GetObject && record.key == key;
        let Some(range) = record.range.filter(|_| ranged) else { continue };
        let Some((first, last)) = parse_range(&range) else { continue };
        // What the origin did not have to send was asked of nobody.
        let last = last.min((first + record.bytes_sent).saturating_sub(1));
        for page in first / PAGE_BYTES..=last / PAGE_BYTES {
            *pages.entry(page).or_default() += 1;
        }
    }
    pages
}

fn parse_range(header: &str) -> Option<(u64, u64)> {
    let (first, last) = header.strip_prefix("bytes=")?.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}
