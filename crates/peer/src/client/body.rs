//! The bytes of an answer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use forebay_types::ByteRange;
use forebay_wire::peer::ReadAsk;
use forebay_zerocopy::PipePass;
use futures_util::future::BoxFuture;
use futures_util::{Stream, StreamExt};

use super::error::PeerError;
use super::exchange::Cut;
use super::exchanges::Held;
use super::peer::{Answer, Ask, Peer};
use crate::metrics::{Outcome, Tally};
use crate::protocol::Op;

/// Bytes on their way from another worker: exactly as many as announced, or an error at the end.
///
/// It holds a connection until the last byte has been read from it. A body that has not been
/// polled for a while may lose its connection to requests that wait for one, because a slow S3
/// client must not keep a whole peer from others. When it is polled again, it asks the same peer
/// for the rest, which is of the same version or fails. A peeked body cannot: it ends with an
/// error then, as a peek may.
pub struct PeerBody {
    stage: Stage,
    left_bytes: u64,
    /// Where it goes, if nobody reads it.
    pass: Option<PipePass>,
    /// How to ask for what is left.
    again: Option<Box<ReadAsk>>,
    tally: Option<Tally>,
}

enum Stage {
    Reading(Held),
    Asking(BoxFuture<'static, Result<Held, PeerError>>),
    Over,
}

impl PeerBody {
    /// The body of `answer`; `again` asks for the bytes that it holds.
    pub(super) fn new(answer: Answer, again: Option<ReadAsk>, mut tally: Tally) -> Self {
        tally.accepted();
        let Answer { body_bytes, held, .. } = answer;
        let again = again.map(Box::new);
        let (stage, tally) = (Stage::Reading(held), Some(tally));
        let mut body = Self { stage, left_bytes: body_bytes, pass: None, again, tally };
        body.end_if_complete();
        body
    }

    /// From now on bytes may come as tokens of what is in a pipe.
    pub fn pass_on(&mut self, pass: PipePass) {
        self.pass = Some(pass);
    }

    /// Bytes that have not been read yet.
    pub fn left_bytes(&self) -> u64 {
        self.left_bytes
    }

    /// All of it, if that is not more than a message may have.
    pub(super) async fn collect(mut self, max_bytes: u64) -> Result<Bytes, PeerError> {
        if self.left_bytes > max_bytes {
            return Err(broken(format!("a message of {} bytes", self.left_bytes)));
        }
        let mut all = BytesMut::with_capacity(self.left_bytes as usize);
        while let Some(bytes) = self.next().await {
            all.extend_from_slice(&bytes?);
        }
        Ok(all.freeze())
    }

    fn count(&mut self, bytes: Bytes) -> Result<Bytes, PeerError> {
        let left_bytes = self.left_bytes.checked_sub(bytes.len() as u64);
        self.left_bytes = left_bytes.ok_or_else(|| broken("more bytes than announced"))?;
        self.end_if_complete();
        Ok(bytes)
    }

    fn end_if_complete(&mut self) {
        if self.left_bytes > 0 {
            return;
        }
        if let Stage::Reading(held) = std::mem::replace(&mut self.stage, Stage::Over) {
            held.finish();
        }
        if let Some(tally) = self.tally.take() {
            tally.done(Outcome::Ok);
        }
    }

    fn fail(&mut self, error: PeerError) -> PeerError {
        self.stage = Stage::Over;
        if let Some(tally) = self.tally.take() {
            tally.done(Outcome::Broken);
        }
        error
    }

    /// What to do without a connection.
    fn cut(&mut self, cut: Cut) -> Result<(), PeerError> {
        match (cut, &self.stage, &self.again) {
            (Cut::Taken, Stage::Reading(held), Some(ask)) => {
                let rest = rest(ask, self.left_bytes)?;
                self.stage = Stage::Asking(Box::pin(ask_again(held.peer().clone(), rest)));
                Ok(())
            }
            (Cut::Taken, ..) => Err(broken("nobody read from it, and others needed it")),
            (Cut::Lost(why), ..) => Err(why),
            (Cut::Broken(why), ..) => Err(broken(why)),
        }
    }
}

impl Stream for PeerBody {
    type Item = Result<Bytes, PeerError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            let step = match &mut this.stage {
                Stage::Over => return Poll::Ready(None),
                Stage::Asking(asking) => {
                    ready!(asking.as_mut().poll(cx)).map(|held| this.stage = Stage::Reading(held))
                }
                Stage::Reading(held) => match ready!(held.poll_bytes(this.pass, cx)) {
                    Ok(Some(bytes)) => {
                        held.peer().heard();
                        let counted = this.count(bytes).map_err(|error| this.fail(error));
                        return Poll::Ready(Some(counted));
                    }
                    Ok(None) => Err(broken(format!("{} bytes are missing", this.left_bytes))),
                    Err(cut) => this.cut(cut),
                },
            };
            if let Err(error) = step {
                return Poll::Ready(Some(Err(this.fail(error))));
            }
        }
    }
}

impl std::fmt::Debug for PeerBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeerBody").field("left_bytes", &self.left_bytes).finish_non_exhaustive()
    }
}

/// Asks for the last `left_bytes` of what `ask` asked for.
fn rest(ask: &ReadAsk, left_bytes: u64) -> Result<ReadAsk, PeerError> {
    let start = ask.range.end().saturating_sub(left_bytes);
    let range = ByteRange::new(start, ask.range.end());
    let range = range.ok_or_else(|| broken("nothing is left to ask for"))?;
    Ok(ReadAsk { range, ..ask.clone() })
}

async fn ask_again(peer: Arc<Peer>, rest: ReadAsk) -> Result<Held, PeerError> {
    let answer = peer.ask(&Ask::with(Op::Read, &rest)?).await?;
    if answer.body_bytes != rest.range.len() {
        return Err(broken(format!("{} bytes for {}", answer.body_bytes, rest.range)));
    }
    Ok(answer.held)
}

fn broken(why: impl Into<String>) -> PeerError {
    PeerError::Unreachable(why.into())
}
