//! What was asked and what was sent: what "the origin was asked once" is counted against.
//!
//! Counts are exact and run ahead of the client: a request counts when it has been read, a
//! byte when it is handed to the socket, so whoever has the last byte finds it counted.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use forebay_rt::SharedClock;
use http::header::{RANGE, USER_AGENT};
use http::{HeaderMap, HeaderName};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::op::{Call, Op};

/// Requests that are kept in full; older ones remain in the counts.
pub const MAX_RECORDS: usize = 65_536;
/// Keys that are counted one by one; further ones are counted together under the empty name.
pub const MAX_COUNTED_KEYS: usize = 262_144;

/// One request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Since the origin started.
    pub at_ms: u64,
    /// The operation.
    pub op: Op,
    /// The bucket; may be empty.
    pub bucket: String,
    /// The key; may be empty.
    pub key: String,
    /// The Range header.
    pub range: Option<String>,
    /// The User-Agent header.
    pub user_agent: Option<String>,
    /// The status that was sent; `None` when the connection ended before.
    pub status: Option<u16>,
    /// Bytes of the body that were sent.
    pub bytes_sent: u64,
    /// The fault rule that fired.
    pub fault: Option<String>,
}

/// Exact counts since the start or the last reset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// All requests.
    pub requests: u64,
    /// Requests by operation.
    pub by_op: BTreeMap<Op, u64>,
    /// Answers by status.
    pub by_status: BTreeMap<u16, u64>,
    /// Bytes of bodies that were sent.
    pub bytes_sent: u64,
}

/// Exact counts of one key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyCounts {
    /// GETs.
    pub gets: u64,
    /// HEADs.
    pub heads: u64,
    /// Bytes of bodies that were sent.
    pub bytes_sent: u64,
}

/// The log of an origin.
#[derive(Debug)]
pub struct RequestLog {
    clock: SharedClock,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Resets so far: what an older request still sends is not counted in the new counts.
    resets: u64,
    records: VecDeque<Record>,
    /// Number of the request at the front of `records`.
    front: u64,
    counts: Counts,
    keys: BTreeMap<String, KeyCounts>,
}

/// The place in the log of a request that is being answered.
#[derive(Debug)]
pub(super) struct Entry {
    log: Arc<RequestLog>,
    resets: u64,
    number: u64,
    key: String,
}

impl RequestLog {
    pub(super) fn new(clock: SharedClock) -> Self {
        let started = clock.now();
        Self { clock, started, state: Mutex::default() }
    }

    /// The counts of everything.
    pub fn counts(&self) -> Counts {
        self.state.lock().counts.clone()
    }

    /// Requests of one operation.
    pub fn requests(&self, op: Op) -> u64 {
        self.state.lock().counts.by_op.get(&op).copied().unwrap_or(0)
    }

    /// The counts of one key.
    pub fn key(&self, bucket: &str, key: &str) -> KeyCounts {
        self.state.lock().keys.get(&format!("{bucket}/{key}")).copied().unwrap_or_default()
    }

    /// The counts of every key, by `bucket/key`.
    pub fn keys(&self) -> BTreeMap<String, KeyCounts> {
        self.state.lock().keys.clone()
    }

    /// The last [`MAX_RECORDS`] requests, oldest first.
    pub fn records(&self) -> Vec<Record> {
        self.state.lock().records.iter().cloned().collect()
    }

    /// Forgets everything, what requests in flight have yet to send included.
    pub fn reset(&self) {
        let mut state = self.state.lock();
        *state = State { resets: state.resets + 1, ..State::default() };
    }

    pub(super) fn begin(self: &Arc<Self>, call: &Call, headers: &HeaderMap) -> Entry {
        let text = |name: HeaderName| Some(headers.get(name)?.to_str().ok()?.to_owned());
        let record = Record {
            at_ms: self.clock.now().duration_since(self.started).as_millis() as u64,
            op: call.op,
            bucket: call.bucket.clone(),
            key: call.key.clone(),
            range: text(RANGE),
            user_agent: text(USER_AGENT),
            status: None,
            bytes_sent: 0,
            fault: None,
        };
        let mut state = self.state.lock();
        let key = state.counted_key(&call.bucket, &call.key);
        let number = state.push(record);
        state.counts.requests += 1;
        *state.counts.by_op.entry(call.op).or_default() += 1;
        match call.op {
            Op::GetObject => state.keys.entry(key.clone()).or_default().gets += 1,
            Op::HeadObject => state.keys.entry(key.clone()).or_default().heads += 1,
            _ => {}
        }
        Entry { log: Arc::clone(self), resets: state.resets, number, key }
    }
}

impl State {
    fn counted_key(&self, bucket: &str, key: &str) -> String {
        let name = format!("{bucket}/{key}");
        let fits = self.keys.len() < MAX_COUNTED_KEYS || self.keys.contains_key(&name);
        if fits { name } else { String::new() }
    }

    fn push(&mut self, record: Record) -> u64 {
        if self.records.len() == MAX_RECORDS {
            self.records.pop_front();
            self.front += 1;
        }
        self.records.push_back(record);
        self.front + self.records.len() as u64 - 1
    }

    fn record(&mut self, number: u64) -> Option<&mut Record> {
        let at = number.checked_sub(self.front)?;
        self.records.get_mut(usize::try_from(at).ok()?)
    }
}

impl Entry {
    pub(super) fn status(&self, status: u16) {
        self.update(|state| {
            *state.counts.by_status.entry(status).or_default() += 1;
            if let Some(record) = state.record(self.number) {
                record.status = Some(status);
            }
        });
    }

    pub(super) fn fault(&self, name: &str) {
        self.update(|state| {
            if let Some(record) = state.record(self.number) {
                record.fault = Some(name.into());
            }
        });
    }

    /// Counts bytes that are about to be handed to the socket.
    pub(super) fn sending(&self, bytes: u64) {
        self.count(|sent| sent + bytes);
    }

    /// Takes back bytes that the socket did not take.
    pub(super) fn unsent(&self, bytes: u64) {
        self.count(|sent| sent.saturating_sub(bytes));
    }

    fn count(&self, change: impl Fn(u64) -> u64) {
        self.update(|state| {
            state.counts.bytes_sent = change(state.counts.bytes_sent);
            let key = state.keys.entry(self.key.clone()).or_default();
            key.bytes_sent = change(key.bytes_sent);
            if let Some(record) = state.record(self.number) {
                record.bytes_sent = change(record.bytes_sent);
            }
        });
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.log.state.lock();
        if state.resets == self.resets {
            change(&mut state);
        }
    }
}
