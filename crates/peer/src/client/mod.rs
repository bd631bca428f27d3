//! Asking other workers.

mod body;
mod directory;
mod error;
mod exchange;
mod exchanges;
mod head;
mod life;
mod link;
mod peer;
mod pool;
mod shared;
mod warm;

use std::sync::Arc;

use bytes::Bytes;
use forebay_rt::{SharedClock, SharedRng, spawn};
use forebay_types::range::Resolved;
use forebay_types::{ByteRange, View, WorkerId};
use forebay_wire::limits::BODY_BYTES_MAX;
use forebay_wire::peer::{
    ForgetAnswer, ForgetAsk, InHeader, Message, OpenAnswer, OpenAsk, PeekAnswer, PeekAsk,
    ReadAnswer, ReadAsk, RecallAnswer, RecallAsk, WarmAsk,
};
use forebay_wire::view::decode_view;
use forebay_wire::{ClusterSecret, Handshake};
use tokio::sync::{mpsc, watch};

use self::directory::Directory;
use self::peer::{Answer, Ask};
use self::shared::Shared;
use crate::limits::{NEWS_WAITING, PeerLimits, VIEW_BYTES_MAX};
use crate::metrics::{PeerMetrics, Tally};
use crate::protocol::Op;

pub use self::body::PeerBody;
pub use self::error::PeerError;
pub use self::shared::EpochNews;

/// What is needed to ask other workers.
#[derive(Debug, Clone)]
pub struct PeersConfig {
    /// What this worker proves that it holds.
    pub secret: ClusterSecret,
    /// Bounds.
    pub limits: PeerLimits,
    /// Time.
    pub clock: SharedClock,
    /// Chance. Nobody must be able to choose what it draws.
    pub rng: SharedRng,
    /// Where the other workers are, and the epoch that this worker is on.
    pub views: watch::Receiver<Arc<View>>,
}

/// All other workers. Each call is one round trip, is given up when that worker shows no sign of
/// life, and is not repeated.
///
/// Dropping a call, or a body before its end, closes the connection that it used.
#[derive(Clone)]
pub struct Peers(Arc<Directory>);

impl Peers {
    /// To be called within the tokio runtime, after the metrics recorder is there.
    pub fn new(config: PeersConfig) -> (Self, EpochNews) {
        let PeersConfig { secret, limits, clock, rng, views } = config;
        let (news, heard) = mpsc::channel(NEWS_WAITING);
        let shared = Arc::new(Shared {
            handshake: Handshake::new(secret, clock.clone(), rng.clone()),
            metrics: Arc::new(PeerMetrics::new()),
            started: clock.now(),
            limits,
            clock,
            rng,
            views,
            news,
        });
        let directory = Directory::new(shared.clone());
        spawn(Directory::care(Arc::downgrade(&directory), shared));
        (Self(directory), EpochNews(heard))
    }

    /// Asks the authority of a name which version is current, and for its first bytes.
    pub async fn open(
        &self,
        worker: WorkerId,
        ask: OpenAsk,
    ) -> Result<(OpenAnswer, Option<PeerBody>), PeerError> {
        let sent = Ask::with(Op::Open, &ask)?;
        let (answer, tally) = self.ask(worker, &sent).await?;
        let opened = message::<OpenAnswer>(&answer)?;
        check_opened(&ask, &opened)?;
        let body = body(answer, opened.range, tally, |range| {
            let stamp = opened.head.stamp.clone();
            Some(ReadAsk { epoch: ask.epoch, name: ask.name, stamp, range })
        })?;
        Ok((opened, body))
    }

    /// Asks the owner of a block for bytes of it.
    pub async fn read(
        &self,
        worker: WorkerId,
        ask: ReadAsk,
    ) -> Result<(ReadAnswer, PeerBody), PeerError> {
        let sent = Ask::with(Op::Read, &ask)?;
        let (answer, tally) = self.ask(worker, &sent).await?;
        let read = message::<ReadAnswer>(&answer)?;
        check_body(&answer, Some(ask.range))?;
        Ok((read, PeerBody::new(answer, Some(ask), tally)))
    }

    /// Asks a worker for bytes that are on its disks.
    pub async fn peek(
        &self,
        worker: WorkerId,
        ask: PeekAsk,
    ) -> Result<(PeekAnswer, Option<PeerBody>), PeerError> {
        let sent = Ask::with(Op::Peek, &ask)?;
        let (answer, tally) = self.ask(worker, &sent).await?;
        let peeked = message::<PeekAnswer>(&answer)?;
        if peeked.range.is_some_and(|range| !is_beginning(range, ask.range)) {
            return Err(other_bytes(format_args!("{:?} of {}", peeked.range, ask.range)));
        }
        let body = body(answer, peeked.range, tally, |_| None)?;
        Ok((peeked, body))
    }

    /// Asks an earlier authority of a name which version of it is remembered there.
    pub async fn recall(
        &self,
        worker: WorkerId,
        ask: RecallAsk,
    ) -> Result<RecallAnswer, PeerError> {
        let (answer, tally) = self.ask(worker, &Ask::with(Op::Recall, &ask)?).await?;
        let recalled: RecallAnswer = message(&answer)?;
        check_body(&answer, None)?;
        finish(answer, tally);
        Ok(recalled)
    }

    /// Tells the owner of a block that bytes of it will be wanted. Never waits; dropped where
    /// the worker is down, or too many wait to be sent.
    pub fn warm(&self, worker: WorkerId, mut ask: WarmAsk) {
        ask.wait = false;
        if let (Ok(peer), Ok(ask)) = (self.0.find(worker), Ask::with(Op::Warm, &ask)) {
            peer.warm(ask);
        }
    }

    /// The same, and returns when that worker has stored them.
    pub async fn warm_and_wait(&self, worker: WorkerId, mut ask: WarmAsk) -> Result<(), PeerError> {
        ask.wait = true;
        let (answer, tally) = self.ask(worker, &Ask::with(Op::Warm, &ask)?).await?;
        finish(answer, tally);
        Ok(())
    }

    /// Tells a worker that names may have got other bytes.
    pub async fn forget(
        &self,
        worker: WorkerId,
        ask: &ForgetAsk,
    ) -> Result<ForgetAnswer, PeerError> {
        let sent = Ask { op: Op::Forget, message: None, body: Bytes::from(ask.encode()) };
        let (answer, tally) = self.ask(worker, &sent).await?;
        let body = PeerBody::new(answer, None, tally).collect(BODY_BYTES_MAX as u64).await?;
        let forgotten = ForgetAnswer::decode(&body)?;
        if forgotten.vouching.len() != ask.names.len() {
            return Err(other_bytes(format_args!(
                "answers for {} names",
                forgotten.vouching.len()
            )));
        }
        Ok(forgotten)
    }

    /// Asks a worker what it knows of the cluster.
    pub async fn view(&self, worker: WorkerId) -> Result<View, PeerError> {
        let (answer, tally) = self.ask(worker, &Ask::bare(Op::View)).await?;
        let body = PeerBody::new(answer, None, tally).collect(VIEW_BYTES_MAX).await?;
        Ok(decode_view(&body)?)
    }

    /// Asks a worker for an answer, any answer.
    pub async fn ping(&self, worker: WorkerId) -> Result<(), PeerError> {
        let (answer, tally) = self.ask(worker, &Ask::bare(Op::Ping)).await?;
        finish(answer, tally);
        Ok(())
    }

    async fn ask(&self, worker: WorkerId, ask: &Ask) -> Result<(Answer, Tally), PeerError> {
        self.0.find(worker)?.ask_counted(ask).await
    }
}

impl std::fmt::Debug for Peers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Peers")
    }
}

fn message<A: InHeader>(answer: &Answer) -> Result<A, PeerError> {
    let message = answer.message.as_ref();
    let message = message.ok_or_else(|| other_bytes("there is no message in it"))?;
    Ok(A::from_header(message)?)
}

/// The body of an answer that announces `range`.
fn body(
    answer: Answer,
    range: Option<ByteRange>,
    tally: Tally,
    again: impl FnOnce(ByteRange) -> Option<ReadAsk>,
) -> Result<Option<PeerBody>, PeerError> {
    check_body(&answer, range)?;
    let Some(range) = range else {
        finish(answer, tally);
        return Ok(None);
    };
    Ok(Some(PeerBody::new(answer, again(range), tally)))
}

/// An answer without a body is complete.
fn finish(answer: Answer, tally: Tally) {
    drop(PeerBody::new(answer, None, tally));
}

fn check_body(answer: &Answer, range: Option<ByteRange>) -> Result<(), PeerError> {
    let announced = range.map_or(0, ByteRange::len);
    if answer.body_bytes == announced {
        return Ok(());
    }
    Err(other_bytes(format_args!("{} bytes where {announced} are announced", answer.body_bytes)))
}

/// An authority may give less than was wanted, but nothing else.
fn check_opened(ask: &OpenAsk, opened: &OpenAnswer) -> Result<(), PeerError> {
    let Some(given) = opened.range else { return Ok(()) };
    let wanted = match ask.range.map(|range| range.resolve(opened.head.stamp.size)) {
        Some(Resolved::Whole(wanted)) => wanted,
        Some(Resolved::Part(wanted)) => Some(wanted),
        Some(Resolved::Unsatisfiable) | None => None,
    };
    if wanted.is_some_and(|wanted| is_beginning(given, wanted)) {
        return Ok(());
    }
    Err(other_bytes(format_args!("{given} of {wanted:?}")))
}

fn is_beginning(given: ByteRange, wanted: ByteRange) -> bool {
    given.start() == wanted.start() && given.end() <= wanted.end()
}

fn other_bytes(what: impl std::fmt::Display) -> PeerError {
    PeerError::Unreachable(format!("its answer is not one to the ask: {what}"))
}
