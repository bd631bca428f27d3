//! The world of a cluster test: origin in this process, voters and workers in theirs.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use forebay_testkit::cluster::{Cluster, ClusterPlan, Namespaces, Network};
use forebay_testkit::reader::{AnyOf, UpTo};
use forebay_testkit::{AccessKey, FaultOrigin, OriginConfig, PatternSet, Reader, Shape};
use forebay_types::ByteRange;
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};

use crate::world::{BUCKET, CLIENT, MAX_VERSIONS, ORIGIN, forebay_binary, pages_asked};

/// How a cluster differs from the usual one.
#[derive(Debug, Clone)]
pub struct ClusterSetup {
    /// Workers at first.
    pub workers: usize,
    /// Voters.
    pub voters: usize,
    /// Freshness of the bucket.
    pub freshness: &'static str,
    /// Seconds of a `bounded` one.
    pub bound_seconds: Option<u64>,
    /// Blocks fetched ahead.
    pub read_ahead_blocks: u64,
    /// How slow the origin is.
    pub shape: Shape,
    /// Where the processes run; the origin is reached at its address for this process.
    pub network: Network,
}

impl Default for ClusterSetup {
    fn default() -> Self {
        Self {
            workers: 3,
            voters: 3,
            freshness: "immutable",
            bound_seconds: None,
            read_ahead_blocks: 8,
            shape: Shape::default(),
            network: Network::loopback(),
        }
    }
}

/// Origin and cluster. A process has one at a time.
#[derive(Debug)]
pub struct ClusterWorld {
    /// The origin.
    pub origin: FaultOrigin,
    /// Voters and workers.
    pub cluster: Cluster,
    _folder: TempDir,
    _turn: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::const_new(());

impl ClusterWorld {
    /// Starts all of it; returns when every worker is in the ring.
    pub async fn start(setup: ClusterSetup, patterns: &[&PatternSet]) -> Result<Self> {
        let turn = TURN.lock().await;
        let ip = match &setup.network {
            Network::Loopback(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Network::Namespaces(_) => Namespaces::own_ip(),
        };
        let origin = FaultOrigin::start(OriginConfig {
            listen: SocketAddr::new(ip, 0),
            buckets: vec![BUCKET.into()],
            patterns: patterns.iter().copied().cloned().collect(),
            access_keys: vec![AccessKey::new(ORIGIN.0, ORIGIN.1)],
            shape: setup.shape,
            ..OriginConfig::default()
        })
        .await
        .context("start the origin")?;
        let folder = TempDir::with_prefix("forebay-cluster-").context("make a folder")?;
        let usual = ClusterPlan::new(&forebay_binary()?, folder.path(), &origin.endpoint(), BUCKET);
        let plan = ClusterPlan {
            network: setup.network,
            voters: setup.voters,
            workers: setup.workers,
            freshness: setup.freshness.into(),
            bound_seconds: setup.bound_seconds,
            read_ahead_blocks: setup.read_ahead_blocks,
            origin_key: AccessKey::new(ORIGIN.0, ORIGIN.1),
            client_key: AccessKey::new(CLIENT.0, CLIENT.1),
            ..usual
        };
        let cluster = Cluster::start(plan).await?;
        Ok(Self { origin, cluster, _folder: folder, _turn: turn })
    }

    /// A signing client of one worker.
    pub fn reader(&self, worker: usize) -> Result<Reader> {
        let endpoint = self.cluster.workers[worker].endpoint();
        Ok(Reader::new(&endpoint)?.signed_by(&AccessKey::new(CLIENT.0, CLIENT.1)))
    }

    /// A client of all workers, which asks another one when one fails.
    pub fn any_reader(&self) -> Result<AnyOf> {
        let readers = (0..self.cluster.workers.len()).map(|worker| self.reader(worker));
        Ok(AnyOf::new(readers.collect::<Result<_>>()?))
    }

    /// How often each page of a key was asked for at the origin.
    pub fn pages_asked(&self, key: &str) -> BTreeMap<u64, u64> {
        pages_asked(&self.origin, key)
    }

    /// Reads every object of a set once, by turns through all workers, and checks every byte.
    pub async fn read_all(&self, set: &PatternSet) -> Result<u64> {
        let readers = self.any_reader()?;
        let mut bytes = 0;
        for index in 0..set.count {
            let key = set.key(index);
            let read = readers
                .verify_get(index as usize, (BUCKET, &key), None, &UpTo(MAX_VERSIONS))
                .await
                .with_context(|| format!("read {key}"))?;
            bytes += read.bytes;
        }
        Ok(bytes)
    }

    /// Readers that go on reading a set, each through a worker of its own and another one when
    /// that fails, until they are told to stop.
    pub fn load(&self, set: &PatternSet, readers: usize) -> Result<RunningLoad> {
        RunningLoad::start(&self.any_reader()?, set, readers)
    }
}

/// Reads that go on in the background.
#[derive(Debug)]
pub struct RunningLoad {
    stop: Arc<AtomicBool>,
    tasks: tokio::task::JoinSet<Load>,
}

/// What readers saw.
#[derive(Debug, Default)]
pub struct Load {
    /// Reads that were right.
    pub right: u64,
    /// Honest failures, after asking every worker.
    pub failed: Vec<String>,
    /// Lies.
    pub wrong: Vec<String>,
    /// When each read ended, from the start of the load, and how long it took.
    pub took: Vec<(Duration, Duration)>,
}

impl RunningLoad {
    fn start(any: &AnyOf, set: &PatternSet, readers: usize) -> Result<Self> {
        ensure!(readers > 0, "a load needs readers");
        let stop = Arc::new(AtomicBool::new(false));
        let begun = tokio::time::Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for first in 0..readers {
            let (any, set, stop) = (any.clone(), set.clone(), stop.clone());
            let start = first as u64 * set.count / readers as u64;
            tasks.spawn(async move { read_on(&any, &set, (first, start), &stop, begun).await });
        }
        Ok(Self { stop, tasks })
    }

    /// Stops the readers and adds up what they saw.
    pub async fn stop(mut self) -> Result<Load> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Load::default();
        while let Some(load) = self.tasks.join_next().await {
            let load = load.context("a reader ended")?;
            all.right += load.right;
            all.failed.extend(load.failed);
            all.wrong.extend(load.wrong);
            all.took.extend(load.took);
        }
        all.took.sort_unstable();
        Ok(all)
    }
}

impl Load {
    /// Every read was right, and there were some.
    ///
    /// # Panics
    /// Where one failed or was wrong, with the first of them.
    #[expect(clippy::print_stderr, reason = "a proof prints its figures")]
    pub fn assert_untouched(&self) {
        let Self { right, failed, wrong, .. } = self;
        eprintln!("{right} reads right, {} failed, {} wrong", failed.len(), wrong.len());
        assert!(wrong.is_empty(), "{:?}", wrong.first());
        assert!(failed.is_empty(), "{} failed: {:?}", failed.len(), failed.first());
        assert!(*right > 0);
    }

    /// The 99th percentile of what reads took that ended in this window.
    pub fn p99(&self, from: Duration, until: Duration) -> Option<Duration> {
        let ended = self.took.iter().filter(|(at, _)| (from..until).contains(at));
        let mut took: Vec<_> = ended.map(|(_, took)| *took).collect();
        took.sort_unstable();
        took.get((took.len() * 99 / 100).min(took.len().checked_sub(1)?)).copied()
    }
}

/// Reads a set in a circle from `start` on, through worker `first` first: readers that began at one
/// key would wait for each miss together, and be one reader.
async fn read_on(
    any: &AnyOf,
    set: &PatternSet,
    (first, start): (usize, u64),
    stop: &AtomicBool,
    begun: tokio::time::Instant,
) -> Load {
    let mut load = Load::default();
    let mut index = start;
    while !stop.load(Ordering::Relaxed) {
        let key = set.key(index % set.count);
        let asked = tokio::time::Instant::now();
        let range: Option<ByteRange> = None;
        match any.verify_get(first, (BUCKET, &key), range, &UpTo(MAX_VERSIONS)).await {
            Ok(_) => load.right += 1,
            Err(error) if error.is_wrong() => load.wrong.push(format!("{key}: {error}")),
            Err(error) => load.failed.push(format!("{key}: {error}")),
        }
        load.took.push((begun.elapsed(), asked.elapsed()));
        index += 1;
    }
    load
}

/// Runs a test in a network namespace of its own: the test of this name is started again there,
/// alone. True in that second process, which then does the test's work.
pub fn in_private_network(test: &str) -> Result<bool> {
    if Namespaces::are_private() {
        return Ok(true);
    }
    // Its cluster is another process's, and takes its turn all the same.
    let _turn = TURN.blocking_lock();
    let program = std::env::current_exe().context("find this test")?;
    let mut again = Namespaces::in_private_network(&program);
    let status = again.args(["--exact", test, "--nocapture"]).status();
    let status = status.context("run unshare, a part of util-linux")?;
    ensure!(status.success(), "{test} failed in its network namespace (which needs root)");
    Ok(false)
}
