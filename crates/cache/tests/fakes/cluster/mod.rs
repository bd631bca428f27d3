//! A cluster in one thread: workers whose caches call each other through messages that take
//! time, get lost and come twice, one origin, and voters who say who owns what.

pub mod checks;
pub mod clock;
pub mod net;
pub mod origin;
pub mod process;
pub mod voters;
pub mod wire;

use std::sync::Arc;
use std::time::Duration;

use forebay_cache::{Answer, Cache, CacheConfig, CacheParts, OpenAsk, ReadError, Source};
use forebay_rt::{Clock, SeededRng};
use forebay_types::{BlockIndex, ByteRange, ErrorCode};
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use http_body_util::{BodyExt, Empty};
use parking_lot::Mutex;

use self::clock::SimClock;
use self::net::{Net, Node, Pace};
use self::origin::SharedOrigin;
use self::process::{Disk, Process};
use self::voters::{Broken, Lease, Voters};
use super::{ask, ctx, name, pattern, version_of};

/// A process, and the cache in it.
pub type Running = (Arc<Process>, Arc<Cache>);

/// What every process of a cluster can reach.
pub struct Shared {
    pub net: Net,
    pub origin: Arc<SharedOrigin>,
    pub voters: Voters,
    pub broken: Broken,
    /// What becomes of bodies between workers.
    pub garble: Mutex<Option<Garble>>,
    /// How many names each message told to forget.
    pub told: Mutex<Vec<usize>>,
    pub workers: Mutex<Vec<Option<Running>>>,
}

impl Shared {
    /// A worker that is running.
    pub fn worker(&self, worker: usize) -> Option<Running> {
        self.workers.lock()[worker].clone()
    }
}

/// What becomes of a write between the worker and the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteFault {
    #[default]
    None,
    /// 200 and a body, which ends when everything is done.
    AnswerWithBody,
    /// Applied, and answered with 500.
    ErrorAfterCommit,
    /// Applied, and not answered.
    NoAnswer,
    /// Given up, and applied later.
    LateCommit,
    /// Not applied.
    Refused,
}

/// A body that is not what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Garble {
    /// It ends early, and does not say so.
    Short,
    /// It has more bytes than were asked for.
    Long,
    /// It is of other bytes, and says so.
    Elsewhere,
}

/// What a reader got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Got {
    /// All bytes asked, of this version.
    Version(u64, Source),
    /// 404.
    Absent,
    /// The object changed while it was read: an error, or a body that was cut.
    Moved,
    /// The worker that was asked died.
    Died,
    /// Bytes of another version or offset than promised, or too few or too many.
    Wrong(String),
    Failed(String),
}

/// What a writer got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrote {
    /// Acknowledged: this is the version now, or a later one.
    Acknowledged(u64),
    NotAcknowledged(String),
}

pub struct Cluster {
    pub shared: Arc<Shared>,
    pub clock: SimClock,
    disks: Vec<Arc<Disk>>,
}

pub struct ClusterConfig {
    pub workers: usize,
    pub seed: u64,
    pub pace: Pace,
    pub broken: Broken,
}

impl Cluster {
    /// All workers in the ring, and known to the voters for a long time.
    pub fn start(clock: &SimClock, config: &ClusterConfig) -> Self {
        let members: Vec<usize> = (0..config.workers).collect();
        let shared = Arc::new(Shared {
            net: Net::new(clock.clone(), config.seed, config.pace),
            origin: Arc::default(),
            voters: Voters::new(clock.now(), members.clone()),
            broken: config.broken,
            garble: Mutex::default(),
            told: Mutex::default(),
            workers: Mutex::new(members.iter().map(|_| None).collect()),
        });
        let disks = members.iter().map(|_| Arc::default()).collect();
        let cluster = Self { shared, clock: clock.clone(), disks };
        for worker in members {
            let lease = Lease::seasoned(cluster.shared.voters.view(), clock.now());
            cluster.launch(worker, lease);
        }
        cluster
    }

    fn launch(&self, worker: usize, lease: Lease) {
        let process = Process::start(worker, &self.shared, self.disks[worker].clone(), lease);
        let cache = Cache::new(CacheParts {
            local: process.clone(),
            versions: process.clone(),
            origin: process.clone(),
            forward: process.clone(),
            placement: process.clone(),
            peers: process.clone(),
            previous: process.clone(),
            fence: process.clone(),
            clock: Arc::new(self.clock.clone()),
            rng: Arc::new(SeededRng::new(worker as u64)),
            config: CacheConfig {
                read_ahead_blocks: 4,
                fill_budget_bytes: 512 << 20,
                versions_in_memory: 1_000,
            },
        });
        self.shared.workers.lock()[worker] = Some((process, cache));
    }

    pub fn kill(&self, worker: usize) {
        if let Some((process, _)) = self.shared.workers.lock()[worker].take() {
            process.kill();
        }
    }

    /// A new process on the same disks, which knows the ring and nothing else.
    pub fn restart(&self, worker: usize) {
        self.kill(worker);
        self.launch(worker, Lease::new(self.shared.voters.view()));
    }

    pub fn is_running(&self, worker: usize) -> bool {
        self.shared.worker(worker).is_some()
    }

    pub fn cache(&self, worker: usize) -> Arc<Cache> {
        self.shared.worker(worker).expect("a worker that runs").1
    }

    /// Begins an epoch with other members.
    pub fn change_ring(&self, members: Vec<usize>) {
        let voters = &self.shared.voters;
        assert!(voters.begin(self.clock.now(), voters.view().epoch, Some(members)));
    }

    /// Workers in the order in which the present ring names them for a block.
    pub fn owners(&self, key: &str, block: u64) -> Vec<usize> {
        self.shared.voters.view().owners(&name(key), BlockIndex(block))
    }

    /// A key whose block is owned by `owner`.
    pub fn key_of(&self, owner: usize, block: u64) -> String {
        let mut keys = (0..).map(|n| format!("key-{n}"));
        keys.find(|key| self.owners(key, block)[0] == owner).expect("a key")
    }

    pub async fn pass(&self, time: Duration) {
        self.clock.sleep(time).await;
    }

    /// Reads through a worker, as a client does, and checks every byte.
    pub async fn read(&self, worker: usize, ask: OpenAsk) -> Got {
        let Some((process, cache)) = self.shared.worker(worker) else { return Got::Died };
        let reading = std::pin::pin!(read_all(cache, ask));
        match select(reading, std::pin::pin!(process.died())).await {
            Either::Left((got, _)) => got,
            Either::Right(_) => Got::Died,
        }
    }

    /// Writes (or, without a size, deletes) through a worker.
    pub async fn write(
        &self,
        worker: usize,
        key: &str,
        size: Option<u64>,
        fault: WriteFault,
    ) -> Wrote {
        let not = |why: &str| Wrote::NotAcknowledged(why.into());
        let Some((process, cache)) = self.shared.worker(worker) else { return not("gone") };
        let writing = std::pin::pin!(write_all(cache, key, size, fault));
        match select(writing, std::pin::pin!(process.died())).await {
            Either::Left((wrote, _)) => wrote,
            Either::Right(_) => not("the worker died"),
        }
    }

    /// Ends the cluster: its parts know each other and would never be freed.
    pub fn end(&self) {
        for worker in 0..self.disks.len() {
            self.kill(worker);
        }
    }

    pub fn cut(&self, one: usize, two: usize) {
        self.shared.net.cut_both(Node::Worker(one), Node::Worker(two));
    }

    pub fn mend(&self, one: usize, two: usize) {
        self.shared.net.mend_both(Node::Worker(one), Node::Worker(two));
    }

    pub fn cut_from(&self, worker: usize, node: Node) {
        self.shared.net.cut_both(Node::Worker(worker), node);
    }

    pub fn mend_to(&self, worker: usize, node: Node) {
        self.shared.net.mend_both(Node::Worker(worker), node);
    }
}

async fn read_all(cache: Arc<Cache>, ask: OpenAsk) -> Got {
    let asked = ask.range;
    let opened = match cache.open(&ctx(), ask).await {
        Ok(opened) => opened,
        Err(error) => return got_error(&error),
    };
    let version = version_of(&opened.head);
    let (Answer::Whole(reader) | Answer::Part { reader, .. }) = opened.answer else {
        return Got::Failed(format!("{:?}", opened.answer));
    };
    let range = match asked.resolve(opened.head.stamp.size) {
        forebay_types::range::Resolved::Whole(range) => range,
        forebay_types::range::Resolved::Part(range) => Some(range),
        forebay_types::range::Resolved::Unsatisfiable => None,
    };
    let mut at = range.map_or(0, ByteRange::start);
    if let Some(mut reader) = reader {
        while let Some(chunk) = reader.next().await {
            match chunk {
                Ok(chunk) if pattern::is_of(version, at, &chunk) => at += chunk.len() as u64,
                Ok(chunk) => {
                    return Got::Wrong(format!("{} bytes at {at} of v{version}", chunk.len()));
                }
                Err(error) => return got_error(&error),
            }
        }
        if Some(at) != range.map(ByteRange::end) {
            return Got::Wrong(format!("the body of v{version} ends at {at}, not {range:?}"));
        }
    }
    Got::Version(version, opened.source)
}

fn got_error(error: &ReadError) -> Got {
    match error {
        ReadError::Refused(reply) if reply.status == 404 => Got::Absent,
        ReadError::Failed { code: ErrorCode::VersionMoved, .. } => Got::Moved,
        error => Got::Failed(error.to_string()),
    }
}

async fn write_all(cache: Arc<Cache>, key: &str, size: Option<u64>, fault: WriteFault) -> Wrote {
    let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
    let mut request = http::Request::put(format!("/{key}")).body(body).unwrap();
    if let Some(size) = size {
        request.headers_mut().insert("x-size", size.into());
    }
    request.extensions_mut().insert(fault);
    let answer = match cache.forward(&ctx(), None, request, vec![name(key)]).await {
        Ok(answer) => answer,
        Err(error) => return Wrote::NotAcknowledged(error.to_string()),
    };
    let (head, body) = answer.into_parts();
    let body = match body.collect().await {
        Ok(body) if head.status.is_success() => body.to_bytes(),
        Ok(_) => return Wrote::NotAcknowledged(head.status.to_string()),
        Err(error) => return Wrote::NotAcknowledged(error.to_string()),
    };
    let version = head.headers.get("x-version").map_or(&body[..], http::HeaderValue::as_bytes);
    Wrote::Acknowledged(std::str::from_utf8(version).unwrap().trim().parse().unwrap())
}

/// Opens without a body.
pub fn head(key: &str, freshness: forebay_types::Freshness) -> OpenAsk {
    OpenAsk { body: false, ..ask(key, freshness, forebay_types::RangeAsk::Whole) }
}
