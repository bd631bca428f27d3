//! From an ask to its answer.
//!
//! Asks come from peers, which hold the cluster secret, but perhaps of another release: what
//! cannot be read is answered with 400, and a panic in a handler with 500.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use forebay_rt::{Clock, timeout};
use forebay_types::ByteRange;
use forebay_wire::WireError;
use forebay_wire::limits::BODY_BYTES_MAX;
use forebay_wire::peer::{Failure, ForgetAsk, InHeader, Message, OpenAsk, PeekAsk, ReadAsk};
use forebay_wire::view::encode_view;
use futures_util::FutureExt;
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use super::body::AnswerBody;
use crate::Frames;
use crate::limits::ASK_BODY_TIME_MAX;
use crate::protocol::{ANSWER, ASK, EPOCH, Op, status_of};
use crate::service::{OwnerService, ShelfService};

/// What asks are answered from.
pub(super) struct Services {
    pub(super) owner: Arc<dyn OwnerService>,
    pub(super) shelf: Arc<dyn ShelfService>,
}

impl Services {
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        clock: &dyn Clock,
    ) -> Response<AnswerBody> {
        let handled = AssertUnwindSafe(self.handle(request, clock)).catch_unwind().await;
        let handled = handled.unwrap_or_else(|_| {
            let failure = Failure::Internal("the handler of the ask panicked".into());
            Err(Refused { status: StatusCode::INTERNAL_SERVER_ERROR, failure })
        });
        let mut response = handled.unwrap_or_else(Refused::into_response);
        let epoch = HeaderValue::from(self.owner.view().ring.epoch.0);
        response.headers_mut().insert(EPOCH, epoch);
        response
    }

    async fn handle(
        &self,
        request: Request<Incoming>,
        clock: &dyn Clock,
    ) -> Result<Response<AnswerBody>, Refused> {
        let (head, body) = request.into_parts();
        let op = Op::of(&head.method, head.uri.path()).ok_or_else(|| {
            Refused::unreadable(format!("no operation {} {}", head.method, head.uri.path()))
        })?;
        match op {
            Op::Open => self.open(ask(&head)?).await,
            Op::Read => self.read(ask(&head)?).await,
            Op::Peek => self.peek(ask(&head)?).await,
            Op::Recall => streamed(&self.shelf.recall(ask(&head)?).await, None),
            Op::Warm => {
                self.owner.warm(ask(&head)?).await?;
                Ok(Response::new(AnswerBody::empty()))
            }
            Op::Forget => {
                let ask = ForgetAsk::decode(&collect(body, clock).await?)?;
                Ok(whole(self.owner.forget(ask).await.encode().into()))
            }
            Op::View => Ok(whole(encode_view(&self.owner.view()).into())),
            Op::Ping => Ok(Response::new(AnswerBody::empty())),
        }
    }

    async fn open(&self, ask: OpenAsk) -> Result<Response<AnswerBody>, Refused> {
        let reply = self.owner.open(ask).await?;
        streamed(&reply.answer, paired(reply.answer.range, reply.frames)?)
    }

    async fn read(&self, ask: ReadAsk) -> Result<Response<AnswerBody>, Refused> {
        let range = ask.range;
        let reply = self.owner.read(ask).await?;
        streamed(&reply.answer, Some((range, reply.frames)))
    }

    async fn peek(&self, ask: PeekAsk) -> Result<Response<AnswerBody>, Refused> {
        let reply = self.shelf.peek(ask).await;
        streamed(&reply.answer, paired(reply.answer.range, reply.frames)?)
    }
}

/// Why an ask is not answered as it wishes.
struct Refused {
    status: StatusCode,
    failure: Failure,
}

impl Refused {
    fn unreadable(why: String) -> Self {
        Self { status: StatusCode::BAD_REQUEST, failure: Failure::Internal(why) }
    }

    fn into_response(self) -> Response<AnswerBody> {
        let mut response = Response::new(AnswerBody::empty());
        *response.status_mut() = self.status;
        // Its texts are cut to what fits, so there always is a header.
        if let Ok(failure) = self.failure.to_header() {
            response.headers_mut().insert(ANSWER, failure);
        }
        response
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self { status: status_of(&failure), failure }
    }
}

impl From<WireError> for Refused {
    fn from(error: WireError) -> Self {
        Self::unreadable(error.to_string())
    }
}

fn ask<A: InHeader>(head: &Parts) -> Result<A, Refused> {
    let header = head.headers.get(ASK).ok_or_else(|| Refused::unreadable("no ask".into()))?;
    Ok(A::from_header(header)?)
}

async fn collect(body: Incoming, clock: &dyn Clock) -> Result<Bytes, Refused> {
    let all = Limited::new(body, BODY_BYTES_MAX).collect();
    match timeout(clock, ASK_BODY_TIME_MAX, all).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) => Err(Refused::unreadable(error.to_string())),
        Err(_) => Err(Refused::unreadable("the body of the ask did not come".into())),
    }
}

/// A range that is announced and the bytes that are it: both or neither.
fn paired(
    range: Option<ByteRange>,
    frames: Option<Frames>,
) -> Result<Option<(ByteRange, Frames)>, Failure> {
    match (range, frames) {
        (Some(range), Some(frames)) => Ok(Some((range, frames))),
        (None, None) => Ok(None),
        _ => Err(Failure::Internal("an answer announces other bytes than it has".into())),
    }
}

fn streamed(
    answer: &impl InHeader,
    bytes: Option<(ByteRange, Frames)>,
) -> Result<Response<AnswerBody>, Refused> {
    let answer = answer.to_header().map_err(|error| Failure::Internal(error.to_string()))?;
    let body = bytes.map_or_else(AnswerBody::empty, |(range, frames)| AnswerBody::Frames {
        frames,
        left_bytes: range.len(),
    });
    let mut response = Response::new(body);
    response.headers_mut().insert(ANSWER, answer);
    Ok(response)
}

fn whole(bytes: Bytes) -> Response<AnswerBody> {
    Response::new(AnswerBody::Whole(bytes))
}
