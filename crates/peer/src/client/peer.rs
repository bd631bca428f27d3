//! One other worker, as this one asks it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use forebay_rt::{Task, spawn};
use forebay_types::{Epoch, WorkerId};
use forebay_wire::peer::{Failure, InHeader};
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::sync::OwnedSemaphorePermit;

use super::error::PeerError;
use super::exchange::{Call, Cut, Exchange};
use super::exchanges::{Exchanges, Held};
use super::head::Head;
use super::life::Life;
use super::link::Link;
use super::pool::Pool;
use super::shared::Shared;
use super::warm::Warms;
use crate::limits::ASK_TRIES;
use crate::metrics::{Outcome, Tally};
use crate::protocol::{ANSWER, EPOCH, Op};

pub(super) struct Peer {
    pub(super) id: WorkerId,
    pub(super) addr: String,
    pub(super) shared: Arc<Shared>,
    pub(super) pool: Pool,
    pub(super) exchanges: Exchanges,
    pub(super) life: Life,
    pub(super) warms: Warms,
    told_news_ms: AtomicU64,
}

/// What is asked. Asking it twice does no harm.
#[derive(Clone)]
pub(super) struct Ask {
    pub(super) op: Op,
    pub(super) message: Option<HeaderValue>,
    pub(super) body: Bytes,
}

impl Ask {
    pub(super) const fn bare(op: Op) -> Self {
        Self { op, message: None, body: Bytes::new() }
    }

    /// An error where the message is too long to be asked of anybody.
    pub(super) fn with(op: Op, message: &impl InHeader) -> Result<Self, PeerError> {
        let message = message.to_header().map_err(|error| {
            PeerError::Unreachable(format!("it cannot be asked for this: {error}"))
        })?;
        Ok(Self { op, message: Some(message), body: Bytes::new() })
    }
}

/// An answer with status 200.
pub(super) struct Answer {
    pub(super) message: Option<HeaderValue>,
    pub(super) body_bytes: u64,
    pub(super) held: Held,
}

/// Why there is no answer.
enum NoAnswer {
    /// Its connection was one that the peer had closed, or was taken: ask again.
    Again(String),
    Final(PeerError),
}

impl From<PeerError> for NoAnswer {
    fn from(error: PeerError) -> Self {
        Self::Final(error)
    }
}

impl Peer {
    pub(super) fn new(id: WorkerId, addr: &str, shared: Arc<Shared>) -> Arc<Self> {
        let pool = Pool::new(shared.limits.connections);
        Arc::new(Self {
            id,
            addr: addr.to_owned(),
            shared,
            pool,
            exchanges: Exchanges::default(),
            life: Life::new(),
            warms: Warms::default(),
            told_news_ms: AtomicU64::new(0),
        })
    }

    /// [`Self::ask`], counted. The caller says how it ends.
    pub(super) async fn ask_counted(
        self: &Arc<Self>,
        ask: &Ask,
    ) -> Result<(Answer, Tally), PeerError> {
        let mut tally = Tally::begin(&self.shared.metrics, ask.op, &self.shared.clock);
        match self.ask(ask).await {
            Ok(answer) => {
                tally.answered(&self.shared.clock);
                Ok((answer, tally))
            }
            Err(error) => {
                tally.done(Outcome::from(&error));
                Err(error)
            }
        }
    }

    /// Asks, and returns when the head of the answer is there.
    pub(super) async fn ask(self: &Arc<Self>, ask: &Ask) -> Result<Answer, PeerError> {
        let mut last = String::new();
        for nth in 0..ASK_TRIES {
            if let Some(why) = self.life.down() {
                return Err(why);
            }
            let at_hand = if nth == 0 { self.link_at_hand() } else { None };
            let asked = match at_hand {
                Some((link, place)) => self.ask_over(link, place, ask, true).await,
                None => self.ask_in_a_task(ask.clone()).await,
            };
            match asked {
                Ok(answer) => return Ok(answer),
                Err(NoAnswer::Again(why)) => last = why,
                Err(NoAnswer::Final(error)) => return Err(error),
            }
        }
        Err(PeerError::Unreachable(last))
    }

    fn link_at_hand(&self) -> Option<(Link, OwnedSemaphorePermit)> {
        let place = self.pool.try_place()?;
        Some((self.pool.idle_link()?, place))
    }

    /// Waiting for a place, connecting, and every second try are a task's. A caller that is not
    /// polled for a while must not hold a place that nobody can take from it; and from a task,
    /// which is always polled, no connection is taken before the answer is there.
    async fn ask_in_a_task(self: &Arc<Self>, ask: Ask) -> Result<Answer, NoAnswer> {
        let peer = self.clone();
        let task = spawn(async move {
            let place = match peer.pool.try_place() {
                Some(place) => place,
                None => peer.unless_down(peer.pool.place(&peer.shared)).await?,
            };
            let (link, is_old) = match peer.pool.idle_link() {
                Some(link) => (link, true),
                None => (peer.connect().await?, false),
            };
            peer.ask_over(link, place, &ask, is_old).await
        });
        AbortOnDrop(task).join().await
    }

    async fn connect(self: &Arc<Self>) -> Result<Link, PeerError> {
        let connecting = async { Ok(Link::connect(&self.addr, &self.shared).await?) };
        let link = self.unless_down(connecting).await;
        link.inspect_err(|why| self.failed(why))
    }

    async fn ask_over(
        self: &Arc<Self>,
        link: Link,
        place: OwnedSemaphorePermit,
        ask: &Ask,
        is_old: bool,
    ) -> Result<Answer, NoAnswer> {
        let exchange = Exchange::begin(self.shared.clone(), link, place, ask);
        let held = Held::new(self.clone(), exchange);
        match held.head().await {
            Ok(head) => Ok(self.read_head(head, held)?),
            Err(Cut::Broken(why)) if is_old => {
                self.pool.close_idle();
                Err(NoAnswer::Again(why))
            }
            Err(Cut::Broken(why)) => Err(PeerError::Unreachable(why).into()),
            Err(Cut::Taken) => Err(NoAnswer::Again("its connection was needed".into())),
            Err(Cut::Lost(why)) => Err(why.into()),
        }
    }

    fn read_head(&self, head: Head, held: Held) -> Result<Answer, PeerError> {
        let Head { status, mut headers, body_bytes } = head;
        self.note(&headers);
        if status == StatusCode::OK {
            let message = headers.remove(ANSWER);
            return Ok(Answer { message, body_bytes, held });
        }
        let failure = failure(status, &headers);
        if body_bytes == 0 {
            held.finish();
        }
        Err(failure)
    }

    /// Takes note of a sign of life, and of the epoch that it speaks of.
    pub(super) fn note(&self, headers: &HeaderMap) {
        self.life.heard(self.shared.now_ms());
        let epoch = headers.get(EPOCH).and_then(|epoch| epoch.to_str().ok()?.parse().ok());
        let (Some(theirs), ours) = (epoch.map(Epoch), self.shared.epoch()) else { return };
        if theirs != ours {
            self.shared.metrics.epoch_mismatched();
        }
        if theirs > ours {
            self.tell_news();
        }
    }

    fn tell_news(&self) {
        let (now_ms, told_ms) = (self.shared.now_ms(), &self.told_news_ms);
        let last_ms = told_ms.load(Ordering::Relaxed);
        let since = Duration::from_millis(now_ms.saturating_sub(last_ms));
        let is_due = last_ms == 0 || since >= self.shared.limits.news_pause;
        let exchanged =
            || told_ms.compare_exchange(last_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed);
        if is_due && exchanged().is_ok() {
            // Where too many wait to be heard, or nobody listens, the next answer says it again.
            let _ = self.shared.news.try_send(self.id);
        }
    }

    /// Something of a body has come.
    pub(super) fn heard(&self) {
        self.life.heard(self.shared.now_ms());
    }

    pub(super) fn give_back(&self, call: Call) {
        self.pool.give_back(call, self.shared.now_ms());
    }

    /// What has to be done every now and then.
    pub(super) fn look_after(self: &Arc<Self>, now_ms: u64) {
        let limits = &self.shared.limits;
        if !self.life.is_down()
            && self.life.is_silent(&self.shared)
            && self.exchanges.anyone_waits(limits.silence, now_ms)
        {
            self.look_for_life();
        }
        let waiting = self.pool.waiting();
        let mut taken = self.exchanges.take(usize::MAX, limits.unread, now_ms);
        if waiting > 0 {
            taken += self.exchanges.take(waiting, limits.take_after, now_ms);
        }
        for _ in 0..taken {
            self.shared.metrics.connection_taken();
        }
        let idle_since_ms = now_ms.saturating_sub(limits.idle.as_millis() as u64);
        self.pool.close_idle_since(idle_since_ms);
        self.life.close_idle_since(idle_since_ms);
    }
}

/// What an answer with another status than 200 says.
fn failure(status: StatusCode, headers: &HeaderMap) -> PeerError {
    let Some(message) = headers.get(ANSWER) else {
        return PeerError::Unreachable(format!("it answers {status} without a reason"));
    };
    Failure::from_header(message).map_or_else(PeerError::from, PeerError::Failed)
}

/// A task that is not wanted any more when nobody waits for it.
struct AbortOnDrop<T>(Task<T>);

impl<T> AbortOnDrop<Result<T, NoAnswer>> {
    async fn join(mut self) -> Result<T, NoAnswer> {
        let joined = (&mut self.0).await;
        joined.unwrap_or_else(|error| Err(PeerError::Unreachable(error.to_string()).into()))
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
