//! The fault origin: an S3 server on loopback that serves pattern and written objects, checks
//! signatures, counts everything, can be as slow as a distant origin, and lies on request.
//!
//! It is the oracle that caches are judged by, so it shares no code with them; where S3
//! servers differ, AWS' documented answer decides. Path style only; no versions, no ACLs, no
//! checksums, no TLS. In-process by [`FaultOrigin`], as a process of its own by
//! [`run_process`], driven from outside under [`CONTROL_PREFIX`].

mod auth;
mod child;
mod chunked;
mod conditions;
mod config;
mod control;
mod error;
mod fault;
mod http;
mod list;
mod log;
mod objects;
mod op;
mod read;
mod reply;
mod send;
mod serve;
mod uploads;
mod write;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use forebay_rt::{SharedClock, Shutdown, SystemClock, spawn};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

pub use self::child::{READY_PREFIX, run_process};
pub use self::config::{
    DEFAULT_WRITTEN_LIMIT_BYTES, MAX_SET_OBJECTS, OriginConfig, PatternSet, Shape,
};
pub use self::control::{PREFIX as CONTROL_PREFIX, Stats};
pub use self::fault::{Evidence, Fault, FaultRule, MAX_RULES};
pub use self::log::{Counts, KeyCounts, MAX_COUNTED_KEYS, MAX_RECORDS, Record, RequestLog};
pub use self::op::Op;
use self::serve::Site;
use crate::socket;

/// Most connections at a time; more wait to be accepted.
const MAX_CONNECTIONS: usize = 20_000;
/// How long accepting rests after an error.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A fault origin that runs until it is dropped.
#[derive(Debug)]
pub struct FaultOrigin {
    address: SocketAddr,
    site: Arc<Site>,
    shutdown: Shutdown,
    reachable: watch::Sender<bool>,
}

impl FaultOrigin {
    /// Starts an origin on the machine's clock.
    pub async fn start(config: OriginConfig) -> io::Result<Self> {
        Self::start_at(config, Arc::new(SystemClock)).await
    }

    /// Starts an origin on a clock of the caller's.
    pub async fn start_at(config: OriginConfig, clock: SharedClock) -> io::Result<Self> {
        let listener = socket::listen(config.listen).await?;
        let address = listener.local_addr()?;
        let site = Arc::new(Site::new(&config, clock));
        let shutdown = Shutdown::new();
        let reachable = watch::Sender::new(true);
        spawn(accept(listener, Arc::clone(&site), shutdown.clone(), reachable.subscribe()));
        Ok(Self { address, site, shutdown, reachable })
    }

    /// The endpoint, as S3 clients take it.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was asked and what was sent.
    pub fn log(&self) -> &RequestLog {
        &self.site.log
    }

    /// Adds a fault rule, or replaces the one of that name. False when there is no room.
    pub fn fault(&self, rule: FaultRule) -> bool {
        self.site.faults.add(rule)
    }

    /// Removes all fault rules and their counts.
    pub fn clear_faults(&self) {
        self.site.faults.clear();
    }

    /// How often each rule was met.
    pub fn evidence(&self) -> Vec<Evidence> {
        self.site.faults.evidence()
    }

    /// How often the rule of this name has fired.
    pub fn fired(&self, rule: &str) -> u64 {
        self.evidence().iter().find(|e| e.name == rule).map_or(0, |e| e.fired)
    }

    /// Counts and evidence together.
    pub fn stats(&self) -> Stats {
        self.site.stats()
    }

    /// Changes how slow it is, from the next request on.
    pub fn set_shape(&self, shape: Shape) {
        *self.site.shape.lock() = shape;
    }

    /// While false, connections are cut and new ones closed as soon as they are made.
    pub fn set_reachable(&self, reachable: bool) {
        self.reachable.send_replace(reachable);
    }

    /// Adds a set of pattern objects.
    pub fn declare(&self, set: PatternSet) {
        self.site.store.lock().objects.declare(set);
    }

    /// Adds one pattern object, or its next version; returns the version.
    pub fn put_pattern(&self, bucket: &str, key: &str, size_bytes: u64) -> u64 {
        self.site.store.lock().objects.put_pattern(bucket, key, size_bytes)
    }

    /// Makes the next version of a pattern object: new bytes, ETag and Last-Modified, same
    /// size. `None` where the key never was one.
    pub fn overwrite(&self, bucket: &str, key: &str) -> Option<u64> {
        self.site.store.lock().objects.overwrite(bucket, key)
    }

    /// Deletes an object.
    pub fn delete(&self, bucket: &str, key: &str) {
        self.site.store.lock().objects.delete(bucket, key);
    }
}

impl Drop for FaultOrigin {
    fn drop(&mut self) {
        self.shutdown.begin();
    }
}

async fn accept(
    listener: TcpListener,
    site: Arc<Site>,
    shutdown: Shutdown,
    reachable: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = shutdown.begun() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // Out of file handles, most likely: trying at once would only spin.
            site.clock.sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (site, shutdown, reachable) = (Arc::clone(&site), shutdown.clone(), reachable.clone());
        spawn(async move {
            let _place = place;
            serve_while_reachable(&site, stream, &shutdown, reachable).await;
        });
    }
}

async fn serve_while_reachable(
    site: &Site,
    stream: TcpStream,
    shutdown: &Shutdown,
    mut reachable: watch::Receiver<bool>,
) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    tokio::select! {
        biased;
        () = shutdown.begun() => {}
        _ = reachable.wait_for(|reachable| !reachable) => {}
        () = site.serve(stream) => {}
    }
}
