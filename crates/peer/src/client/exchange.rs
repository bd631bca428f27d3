//! One ask and its answer on a connection, from the first byte to the last.
//!
//! The connection belongs to whoever awaits the answer, and yet can be taken away: from a reader
//! who does not read while others wait for a connection, and from all who wait for a peer that
//! shows no sign of life. Both need to know what the reader is doing, so an exchange is also the
//! waker of its connection: it sees when there is something to read that nobody comes for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use forebay_zerocopy::PipePass;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;

use super::error::PeerError;
use super::head::Head;
use super::link::{Link, LinkError};
use super::peer::Ask;
use super::shared::Shared;

/// Why an exchange ends before its answer does.
#[derive(Debug, Clone)]
pub(super) enum Cut {
    /// Nobody read from its connection, and others needed it.
    Taken,
    /// The peer is given up.
    Lost(PeerError),
    /// The connection broke.
    Broken(String),
}

pub(super) struct Exchange {
    shared: Arc<Shared>,
    state: Mutex<State>,
    reader: AtomicWaker,
    /// When the connection first woke the reader since the reader last came; 0 for not.
    woken_ms: AtomicU64,
}

struct State {
    call: Option<Call>,
    cut: Option<Cut>,
    last: Last,
}

/// A connection in use. Fields in the order in which they are let go of.
pub(super) struct Call {
    pub(super) link: Link,
    pub(super) place: OwnedSemaphorePermit,
}

/// How the reader left, and since when it is so.
#[derive(Clone, Copy)]
enum Last {
    /// With nothing: it waits for the peer.
    Waiting { since_ms: u64 },
    /// With bytes: it may come again.
    Served { since_ms: u64 },
}

impl Exchange {
    pub(super) fn begin(
        shared: Arc<Shared>,
        mut link: Link,
        place: OwnedSemaphorePermit,
        ask: &Ask,
    ) -> Arc<Self> {
        link.ask(ask);
        let last = Last::Waiting { since_ms: shared.now_ms() };
        let state = State { call: Some(Call { link, place }), cut: None, last };
        Arc::new(Self {
            shared,
            state: Mutex::new(state),
            reader: AtomicWaker::new(),
            woken_ms: AtomicU64::new(0),
        })
    }

    pub(super) fn poll_head(self: &Arc<Self>, cx: &mut Context<'_>) -> Poll<Result<Head, Cut>> {
        self.poll(cx, |call, cx| call.link.poll_head(cx))
    }

    /// The next bytes of the body; ready with `None` where it ends.
    pub(super) fn poll_bytes(
        self: &Arc<Self>,
        pass: Option<PipePass>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Cut>> {
        self.poll(cx, |call, cx| call.link.poll_bytes(pass, cx))
    }

    fn poll<T>(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        step: impl FnOnce(&mut Call, &mut Context<'_>) -> Poll<Result<T, LinkError>>,
    ) -> Poll<Result<T, Cut>> {
        self.reader.register(cx.waker());
        self.woken_ms.store(0, Ordering::Relaxed);
        let mut state = self.state.lock();
        let Some(call) = &mut state.call else {
            let ended = || Cut::Broken("the answer has ended".into());
            return Poll::Ready(Err(state.cut.clone().unwrap_or_else(ended)));
        };
        let waker = Waker::from(self.clone());
        let polled = step(call, &mut Context::from_waker(&waker));
        state.last = match (&polled, state.last) {
            (Poll::Pending, waiting @ Last::Waiting { .. }) => waiting,
            (Poll::Pending, Last::Served { .. }) => {
                Last::Waiting { since_ms: self.shared.now_ms() }
            }
            (Poll::Ready(_), _) => Last::Served { since_ms: self.shared.now_ms() },
        };
        polled.map_err(|error| {
            let cut = Cut::Broken(error.to_string());
            state.cut(cut.clone());
            cut
        })
    }

    /// Ends the exchange. Gives its connection back, if nobody has taken it.
    pub(super) fn end(&self) -> Option<Call> {
        self.reader.take();
        self.state.lock().call.take()
    }

    /// How long the reader has been waiting for the peer.
    pub(super) fn waiting_for(&self, now_ms: u64) -> Option<Duration> {
        let state = self.state.try_lock()?; // Else it is being polled at this moment.
        match state.last {
            Last::Waiting { since_ms } if self.woken_ms.load(Ordering::Relaxed) == 0 => {
                Some(elapsed(since_ms, now_ms))
            }
            _ => None,
        }
    }

    /// How long the reader has not come, though it was served or could be.
    pub(super) fn unread_for(&self, now_ms: u64) -> Option<Duration> {
        self.state.try_lock()?.unread_for(&self.woken_ms, now_ms)
    }

    /// Takes the connection away if it has been unread for so long. Says whether it did.
    pub(super) fn take(&self, unread_for: Duration, now_ms: u64) -> bool {
        let Some(mut state) = self.state.try_lock() else { return false };
        let is_due = state
            .unread_for(&self.woken_ms, now_ms)
            .is_some_and(|unread| unread >= unread_for && state.call.is_some());
        if is_due {
            state.cut(Cut::Taken);
        }
        is_due
    }

    /// Gives up on the peer.
    pub(super) fn lose(&self, why: PeerError) {
        self.state.lock().cut(Cut::Lost(why));
        self.reader.wake();
    }
}

impl State {
    fn cut(&mut self, cut: Cut) {
        if self.call.take().is_some() {
            self.cut = Some(cut);
        }
    }

    fn unread_for(&self, woken_ms: &AtomicU64, now_ms: u64) -> Option<Duration> {
        match (self.last, woken_ms.load(Ordering::Relaxed)) {
            (Last::Served { since_ms }, _) => Some(elapsed(since_ms, now_ms)),
            (Last::Waiting { .. }, 0) => None,
            (Last::Waiting { .. }, woken_ms) => Some(elapsed(woken_ms, now_ms)),
        }
    }
}

impl Wake for Exchange {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let now_ms = self.shared.now_ms();
        // Only the first wake-up counts: from then on the reader has kept the connection waiting.
        let _ = self.woken_ms.compare_exchange(0, now_ms, Ordering::Relaxed, Ordering::Relaxed);
        self.reader.wake();
    }
}

fn elapsed(since_ms: u64, now_ms: u64) -> Duration {
    Duration::from_millis(now_ms.saturating_sub(since_ms))
}
