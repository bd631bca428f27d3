//! Readers and writers, and the judgement of what they get.

use std::sync::Arc;
use std::time::Duration;

use forebay_cache::OpenAsk;
use forebay_rt::{Clock, Task, timeout};
use forebay_types::{BLOCK_BYTES, Freshness, PAGE_BYTES, RangeAsk};
use futures_util::future::{Either, select};

use super::{Class, Key, Schedule};
use crate::fakes::ask;
use crate::fakes::cluster::checks::Observed;
use crate::fakes::cluster::net::Node;
use crate::fakes::cluster::{Got, WriteFault, Wrote};

/// No read and no write takes longer, whatever happens.
const LONGEST: Duration = Duration::from_secs(180);

/// For how long an origin has to have been there for a read to be sure of success.
const SETTLED: Duration = Duration::from_secs(30);

impl Schedule {
    pub(super) async fn read_any(self: Arc<Self>) {
        let key = &self.keys[self.any_key()];
        let freshness = match self.below(8) {
            0 => Freshness::Immutable,
            1 | 2 => Freshness::Strict,
            3 => Freshness::Bounded(Duration::from_secs(2)),
            _ => Freshness::Bounded(Duration::from_secs(60)),
        };
        let revalidate = self.below(10) == 0;
        let ask = OpenAsk { revalidate, ..ask(&key.name, freshness, self.any_range(key)) };
        self.read(key, ask).await;
    }

    /// Somebody has read; a write; and others read while it is under way and after it.
    pub(super) async fn write_and_read(self: Arc<Self>) {
        let at = self.any_key();
        self.read_trusting(at).await;
        let mut readers = Vec::new();
        if self.class == Class::Wild {
            readers.push(self.read_later(at, Duration::from_secs(3)));
        }
        if self.write(at).await {
            let within = [0, 1, 8, 15].map(Duration::from_secs);
            readers.extend(within.map(|within| self.read_later(at, within)));
        }
        self.all(readers).await;
    }

    pub(super) fn read_later(self: &Arc<Self>, at: usize, within: Duration) -> Task<()> {
        self.later(within, move |me| async move { me.read_trusting(at).await })
    }

    /// Asks for what is answered from memory wherever that is allowed.
    pub(super) async fn read_trusting(&self, at: usize) {
        let key = &self.keys[at];
        let freshness = Freshness::Bounded(Duration::from_secs(60));
        self.read(key, ask(&key.name, freshness, self.any_range(key))).await;
    }

    fn any_range(&self, key: &Key) -> RangeAsk {
        let around = |at: u64| RangeAsk::FromTo {
            first: at.saturating_sub(self.below(PAGE_BYTES)),
            last: at + self.below(PAGE_BYTES),
        };
        match self.below(40) {
            _ if key.size < BLOCK_BYTES => RangeAsk::Whole,
            0 => RangeAsk::Whole,
            1..=20 => around(BLOCK_BYTES),
            21..=30 => around(0),
            _ => RangeAsk::Suffix { len: 1 + self.below(PAGE_BYTES) },
        }
    }

    /// Reads through any worker and judges what comes of it.
    async fn read(&self, key: &Key, ask: OpenAsk) {
        let _quiet = match self.class {
            Class::Wild => None,
            Class::Calm | Class::OneFailure => Some(key.quiet.read().await),
        };
        let worker = self.any_worker();
        let Some((process, _)) = self.cluster.shared.worker(worker) else { return };
        let start = self.clock.passed();
        let freshness = if ask.revalidate { Freshness::Strict } else { ask.freshness };
        let what = format!("{} {:?} {:?} of {}", worker, ask.freshness, ask.range, key.name);
        let Ok(got) = timeout(&self.clock, LONGEST, self.cluster.read(worker, ask)).await else {
            return self.wrong(&format!("a read through {what} hangs"));
        };
        let net = &self.cluster.shared.net;
        let settled_since = start.saturating_sub(SETTLED);
        let observed = Observed {
            key: &key.name,
            freshness,
            start,
            had_origin: !process.is_dead()
                && net.was_up_since(Node::Worker(worker), Node::Origin, settled_since),
        };
        let origin = &self.cluster.shared.origin;
        if let Some(why) = observed.judge(&got, origin, &self.acknowledged) {
            self.wrong(&format!("read from {start:?} on through {what}: {got:?}: {why}"));
        }
        let mut outcome = self.outcome.lock();
        outcome.reads += 1;
        outcome.reads_refused += u64::from(matches!(got, Got::Moved | Got::Died | Got::Failed(_)));
    }

    /// Writes through any worker; returns whether that was acknowledged.
    pub(super) async fn write(&self, at: usize) -> bool {
        let key = &self.keys[at];
        let _quiet = match self.class {
            Class::Wild => None,
            Class::Calm | Class::OneFailure => Some(key.quiet.write().await),
        };
        let worker = self.any_worker();
        let size = (self.below(6) > 0).then_some(key.size);
        let hangs_up = self.class == Class::Wild && self.below(6) == 0;
        let patience = if hangs_up { self.up_to(Duration::from_millis(300)) } else { LONGEST };
        let writing = self.cluster.write(worker, &key.name, size, self.any_fault());
        let wrote = match select(std::pin::pin!(writing), self.clock.sleep(patience)).await {
            Either::Left((wrote, _)) => wrote,
            Either::Right(_) => {
                // What was asked for goes on without the client.
                if !hangs_up {
                    self.wrong(&format!("a write through {worker} hangs"));
                }
                return false;
            }
        };
        let mut outcome = self.outcome.lock();
        outcome.writes += 1;
        if let Wrote::Acknowledged(version) = wrote {
            self.acknowledged.note(&key.name, version, self.clock.passed());
            return true;
        }
        outcome.writes_refused += 1;
        false
    }

    pub(super) async fn write_unseen(&self, at: usize) {
        self.write(at).await;
    }

    fn any_fault(&self) -> WriteFault {
        match self.below(12) {
            _ if self.class != Class::Wild => WriteFault::None,
            0 | 1 => WriteFault::AnswerWithBody,
            2 => WriteFault::ErrorAfterCommit,
            3 => WriteFault::NoAnswer,
            4 => WriteFault::LateCommit,
            5 => WriteFault::Refused,
            _ => WriteFault::None,
        }
    }
}
