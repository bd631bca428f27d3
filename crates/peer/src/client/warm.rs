//! Hints for a peer: nobody waits for them, and too many are dropped.

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_rt::spawn;
use parking_lot::Mutex;

use super::peer::{Ask, Peer};
use crate::metrics::Outcome;

/// Hints that have not been sent yet.
#[derive(Default)]
pub(super) struct Warms(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    asks: VecDeque<Ask>,
    has_sender: bool,
}

impl Warms {
    /// The next hint; without one, the sender is dismissed.
    fn next(&self) -> Option<Ask> {
        let mut queue = self.0.lock();
        let next = queue.asks.pop_front();
        queue.has_sender = next.is_some();
        next
    }
}

impl Peer {
    /// Sends a hint when its turn comes, one at a time.
    pub(super) fn warm(self: &Arc<Self>, ask: Ask) {
        let mut queue = self.warms.0.lock();
        if self.life.is_down() || queue.asks.len() >= self.shared.limits.warms {
            self.shared.metrics.warm_dropped();
            return;
        }
        queue.asks.push_back(ask);
        if !std::mem::replace(&mut queue.has_sender, true) {
            spawn(send(self.clone()));
        }
    }
}

async fn send(peer: Arc<Peer>) {
    while let Some(ask) = peer.warms.next() {
        match peer.ask_counted(&ask).await {
            Ok((answer, tally)) => {
                answer.held.finish();
                tally.done(Outcome::Ok);
            }
            Err(error) => tracing::debug!(worker = %peer.id, %error, "a hint is lost"),
        }
    }
}
