//! Whether a peer shows signs of life.
//!
//! The origin may take long to answer the owner of a cold block, so no answer has a deadline.
//! But a peer that somebody waits for, and from which nothing at all has come for a while, is
//! asked for a sign of life on a connection of its own. Without one it is down: all who wait for
//! it fail at once, and so does who comes later, until it answers a probe.
//!
//! A peer that refuses connections is down as well, but what it still sends is waited for: it
//! may be finishing what it has begun before it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use forebay_rt::{spawn, timeout};
use http::StatusCode;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::error::PeerError;
use super::link::Link;
use super::peer::{Ask, Peer};
use super::shared::Shared;
use crate::limits::PROBE_PATIENCE;
use crate::protocol::Op;

pub(super) struct Life {
    heard_ms: AtomicU64,
    /// Why the peer is not asked, while it is not.
    down: watch::Sender<Option<PeerError>>,
    is_pinged: AtomicBool,
    /// The connection for pings, while it is not used, and when it was.
    line: Mutex<Option<(Link, u64)>>,
}

impl Life {
    /// A peer of which nothing is known.
    pub(super) fn new() -> Self {
        Self {
            heard_ms: AtomicU64::new(0),
            down: watch::Sender::new(None),
            is_pinged: AtomicBool::new(false),
            line: Mutex::default(),
        }
    }

    /// Why the peer is not to be asked.
    pub(super) fn down(&self) -> Option<PeerError> {
        self.down.borrow().clone()
    }

    pub(super) fn is_down(&self) -> bool {
        self.down.borrow().is_some()
    }

    /// Something has come from the peer.
    pub(super) fn heard(&self, now_ms: u64) {
        self.heard_ms.store(now_ms, Ordering::Relaxed);
    }

    pub(super) fn is_silent(&self, shared: &Shared) -> bool {
        let since_ms = shared.now_ms().saturating_sub(self.heard_ms.load(Ordering::Relaxed));
        Duration::from_millis(since_ms) >= shared.limits.silence
    }

    /// Closes the connection for pings if it has been idle since before.
    pub(super) fn close_idle_since(&self, before_ms: u64) {
        let mut line = self.line.lock();
        if line.as_ref().is_some_and(|(_, used_ms)| *used_ms < before_ms) {
            line.take();
        }
    }
}

impl Peer {
    /// Does something that takes time, but not on a peer that is down.
    pub(super) async fn unless_down<T>(
        &self,
        work: impl Future<Output = Result<T, PeerError>>,
    ) -> Result<T, PeerError> {
        let mut down = self.life.down.subscribe();
        let goes_down = async {
            let why = down.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
            why.unwrap_or(PeerError::Gone)
        };
        tokio::select! {
            biased;
            done = work => done,
            why = goes_down => Err(why),
        }
    }

    /// Asks for a sign of life, unless somebody does already. The peer is down without one.
    pub(super) fn look_for_life(self: &Arc<Self>) {
        if self.life.is_pinged.swap(true, Ordering::AcqRel) {
            return;
        }
        let peer = self.clone();
        spawn(async move {
            let pinged = peer.ping().await;
            peer.life.is_pinged.store(false, Ordering::Release);
            if let Err(why) = pinged {
                peer.failed(&why);
            }
        });
    }

    /// No answer to a ping, or no connection. The peer is down if that is all there is.
    pub(super) fn failed(self: &Arc<Self>, why: &PeerError) {
        if *why == PeerError::Gone || self.life.is_silent(&self.shared) {
            self.fall(why);
        }
    }

    fn fall(self: &Arc<Self>, why: &PeerError) {
        let falls = self.life.down.send_if_modified(|down| {
            let falls = down.is_none();
            if falls {
                *down = Some(why.clone());
            }
            falls
        });
        if !falls {
            return;
        }
        tracing::warn!(worker = %self.id, addr = self.addr, %why, "a worker is down");
        self.pool.close_idle();
        self.give_up(why);
        self.probe();
    }

    /// Nothing more is to be expected from a peer that is silent, unlike from one that is gone:
    /// of that one the kernel tells where a connection ends.
    fn give_up(&self, why: &PeerError) {
        if *why != PeerError::Gone {
            self.exchanges.lose(why);
        }
    }

    /// Asks every now and then, until the peer answers or is not in the view any more.
    fn probe(self: &Arc<Self>) {
        let (peer, shared) = (Arc::downgrade(self), self.shared.clone());
        spawn(async move {
            let since = shared.clock.now();
            loop {
                let down_for = shared.clock.now().saturating_duration_since(since);
                shared.clock.sleep(pause(&shared, down_for)).await;
                let Some(peer) = peer.upgrade() else { return };
                match peer.ping().await {
                    Ok(()) => return peer.rise(),
                    Err(why) => peer.stay_down(&why),
                }
            }
        });
    }

    fn stay_down(&self, why: &PeerError) {
        self.life.down.send_replace(Some(why.clone()));
        self.give_up(why);
    }

    fn rise(&self) {
        self.life.down.send_replace(None);
        tracing::info!(worker = %self.id, addr = self.addr, "a worker is back");
    }

    async fn ping(&self) -> Result<(), PeerError> {
        let limit = self.shared.limits.ping;
        let pinged = timeout(&*self.shared.clock, limit, self.ping_patiently()).await;
        pinged.unwrap_or_else(|_| {
            Err(PeerError::Unreachable(format!("no sign of life in {} ms", limit.as_millis())))
        })
    }

    async fn ping_patiently(&self) -> Result<(), PeerError> {
        let kept = self.life.line.lock().take();
        if let Some((link, _)) = kept
            && link.is_ready()
            && self.ping_over(link).await.is_ok()
        {
            return Ok(());
        }
        let link = Link::connect(&self.addr, &self.shared).await?;
        self.ping_over(link).await
    }

    async fn ping_over(&self, mut link: Link) -> Result<(), PeerError> {
        link.ask(&Ask::bare(Op::Ping));
        let head = std::future::poll_fn(|cx| link.poll_head(cx)).await;
        let head = head.map_err(|error| PeerError::Unreachable(error.to_string()))?;
        if head.status != StatusCode::OK || head.body_bytes > 0 {
            return Err(PeerError::Unreachable(format!("a ping is answered {}", head.status)));
        }
        self.note(&head.headers);
        *self.life.line.lock() = Some((link, self.shared.now_ms()));
        Ok(())
    }
}

/// Longer for a peer that has been down for long, and not the same for all who probe it.
fn pause(shared: &Shared, down_for: Duration) -> Duration {
    let limits = &shared.limits;
    let pause = (down_for / PROBE_PATIENCE).clamp(limits.probe_pause, limits.probe_pause_max);
    pause.mul_f64(0.75 + shared.rng.unit() / 4.0)
}
