//! What is under way to one peer.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use forebay_zerocopy::PipePass;
use parking_lot::Mutex;

use super::error::PeerError;
use super::exchange::{Cut, Exchange};
use super::head::Head;
use super::peer::Peer;

#[derive(Default)]
pub(super) struct Exchanges(Mutex<Table>);

#[derive(Default)]
struct Table {
    next: u64,
    under_way: HashMap<u64, Arc<Exchange>>,
}

impl Exchanges {
    fn add(&self, exchange: Arc<Exchange>) -> u64 {
        let mut table = self.0.lock();
        table.next += 1;
        let id = table.next;
        table.under_way.insert(id, exchange);
        id
    }

    fn remove(&self, id: u64) {
        self.0.lock().under_way.remove(&id);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().under_way.is_empty()
    }

    /// Whether a reader has been waiting for so long.
    pub(super) fn anyone_waits(&self, at_least: Duration, now_ms: u64) -> bool {
        let table = self.0.lock();
        let mut waiting = table.under_way.values().filter_map(|one| one.waiting_for(now_ms));
        waiting.any(|waiting| waiting >= at_least)
    }

    /// Takes their connections from up to `most` that have gone unread for so long, longest
    /// first; returns how many it were.
    pub(super) fn take(&self, most: usize, unread_for: Duration, now_ms: u64) -> usize {
        let mut unread: Vec<(Duration, Arc<Exchange>)> = {
            let table = self.0.lock();
            let due = table.under_way.values().filter_map(|one| {
                Some((one.unread_for(now_ms)?, one)).filter(|(unread, _)| *unread >= unread_for)
            });
            due.map(|(unread, one)| (unread, one.clone())).collect()
        };
        unread.sort_unstable_by_key(|(unread, _)| std::cmp::Reverse(*unread));
        let due = unread.iter().filter(|(_, one)| one.take(unread_for, now_ms));
        due.take(most).count()
    }

    /// Gives up on the peer.
    pub(super) fn lose(&self, why: &PeerError) {
        let all: Vec<_> = self.0.lock().under_way.values().cloned().collect();
        for exchange in all {
            exchange.lose(why.clone());
        }
    }
}

/// An exchange, for whoever awaits its answer. Dropped before the answer is complete, it closes
/// the connection.
pub(super) struct Held {
    peer: Arc<Peer>,
    exchange: Arc<Exchange>,
    id: u64,
}

impl Held {
    pub(super) fn new(peer: Arc<Peer>, exchange: Arc<Exchange>) -> Self {
        let id = peer.exchanges.add(exchange.clone());
        // The peer may have been given up between the question whether it is and this moment.
        if let Some(why) = peer.life.down().filter(|why| *why != PeerError::Gone) {
            exchange.lose(why);
        }
        Self { peer, exchange, id }
    }

    pub(super) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    pub(super) async fn head(&self) -> Result<Head, Cut> {
        std::future::poll_fn(|cx| self.exchange.poll_head(cx)).await
    }

    pub(super) fn poll_bytes(
        &self,
        pass: Option<PipePass>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Cut>> {
        self.exchange.poll_bytes(pass, cx)
    }

    /// The answer is complete: its connection is good for the next.
    pub(super) fn finish(self) {
        if let Some(call) = self.exchange.end() {
            self.peer.give_back(call);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.peer.exchanges.remove(self.id);
        drop(self.exchange.end());
    }
}
