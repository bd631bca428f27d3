//! What the core promises of a cluster: several caches in one thread, and time that moves when
//! nobody has anything else to do.

#![allow(unreachable_pub, reason = "a test target has no outside")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../fakes/mod.rs"]
mod fakes;

mod failing;
mod parts;
mod reading;
mod writing;

use std::sync::Arc;
use std::time::Duration;

use forebay_cache::{OpenAsk, Source};
use forebay_types::{ByteRange, Freshness, RangeAsk};

use fakes::ask;
use fakes::cluster::clock::SimClock;
use fakes::cluster::net::Pace;
use fakes::cluster::voters::Broken;
use fakes::cluster::{Cluster, ClusterConfig, Got, WriteFault, Wrote};

const BOUND: Freshness = Freshness::Bounded(Duration::from_secs(60));
const MIB: u64 = 1 << 20;

fn in_cluster<F: Future>(workers: usize, test: impl FnOnce(Arc<Cluster>) -> F) {
    let clock = SimClock::new();
    clock.run(async {
        let config =
            ClusterConfig { workers, seed: 1, pace: Pace::STEADY, broken: Broken::Nothing };
        let cluster = Arc::new(Cluster::start(&clock, &config));
        test(cluster.clone()).await;
        cluster.end();
    });
}

fn put(cluster: &Cluster, key: &str, size: u64) {
    cluster.shared.origin.change(key, Some(size), cluster.clock.passed());
}

fn whole(key: &str, freshness: Freshness) -> OpenAsk {
    ask(key, freshness, RangeAsk::Whole)
}

fn version(got: Got) -> u64 {
    match got {
        Got::Version(version, _) => version,
        got => panic!("{got:?}"),
    }
}

fn source(got: Got) -> Source {
    match got {
        Got::Version(_, source) => source,
        got => panic!("{got:?}"),
    }
}

fn bytes(start: u64, end: u64) -> ByteRange {
    ByteRange::new(start, end).unwrap()
}

/// A key whose first block is worker 1's, and whose second is worker 2's.
fn key_apart(cluster: &Cluster, prefix: &str) -> String {
    let mut keys = (0..).map(|n| format!("{prefix}-{n}"));
    let owners = |key: &String| [0, 1].map(|block| cluster.owners(key, block)[0]);
    keys.find(|key| owners(key) == [1, 2]).expect("a key")
}

async fn write(cluster: &Cluster, worker: usize, key: &str) -> Wrote {
    cluster.write(worker, key, Some(MIB), WriteFault::None).await
}
