//! A client's body on its way: given up when its sender stops, and what went wrong with it.
//!
//! Towards the origin a body that fails is only a request that ends too early. Its sender is told
//! what it was: a checksum, a signature, a length.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use forebay_cache::{BoxError, ForwardBody};
use forebay_rt::SharedClock;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use parking_lot::Mutex;

use crate::code::Code;
use crate::error::S3Error;
use crate::limits::BODY_STALL_LIMIT;
use crate::sigv4::MISMATCH;

/// A body that fails when nothing of it comes for [`BODY_STALL_LIMIT`] while it is waited for.
pub(crate) fn patient(body: ForwardBody, clock: SharedClock) -> ForwardBody {
    Patient { body, clock, over: None }.boxed_unsync()
}

struct Patient {
    body: ForwardBody,
    clock: SharedClock,
    /// Ends when patience does; absent while nobody waits.
    over: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Body for Patient {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.over = None;
            return Poll::Ready(frame);
        }
        let this = &mut *self;
        let over = this.over.get_or_insert_with(|| this.clock.sleep(BODY_STALL_LIMIT));
        ready!(over.as_mut().poll(cx));
        self.over = None;
        Poll::Ready(Some(Err(S3Error::new(Code::RequestTimeout, STALLED).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

const STALLED: &str = "Your socket connection to the server was not read from or written to within \
                       the timeout period.";

/// The first thing that went wrong with a body, as its sender is to read it.
#[derive(Clone, Default)]
pub(crate) struct Fault(Arc<Mutex<Option<S3Error>>>);

impl Fault {
    /// What went wrong, if anything did.
    pub(crate) fn take(&self) -> Option<S3Error> {
        self.0.lock().take()
    }
}

/// A body whose failure is noted.
pub(crate) fn noted(body: ForwardBody) -> (ForwardBody, Fault) {
    let fault = Fault::default();
    (Noted { body, fault: fault.clone() }.boxed_unsync(), fault)
}

struct Noted {
    body: ForwardBody,
    fault: Fault,
}

impl Body for Noted {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Err(error))) = &polled {
            self.fault.0.lock().get_or_insert_with(|| meaning(error));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// `s3s` does not export the types of its errors, so they are told apart by their names, which a
/// test holds to the pinned version. All else is a connection that ended.
pub(crate) fn meaning(error: &BoxError) -> S3Error {
    if let Some(ours) = error.downcast_ref::<S3Error>() {
        return ours.clone();
    }
    let text = error.to_string();
    let names = |name: &str| text.contains(name);
    if names("Sha256Mismatch") {
        let why = "The provided 'x-amz-content-sha256' header does not match what was computed.";
        return S3Error::new(Code::XAmzContentSha256Mismatch, why);
    }
    if names(Code::RequestTimeout.as_str()) {
        return S3Error::new(Code::RequestTimeout, STALLED);
    }
    if names("SignatureMismatch") {
        return S3Error::new(Code::SignatureDoesNotMatch, MISMATCH);
    }
    if names("FormatError") || names("TooLarge") || names("TooMany") {
        return S3Error::new(Code::InvalidRequest, "The aws-chunked body cannot be read.");
    }
    let why =
        "You did not provide the number of bytes specified by the Content-Length HTTP header.";
    S3Error::new(Code::IncompleteBody, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_rt::ManualClock;
    use futures_util::FutureExt;
    use http_body_util::StreamBody;
    use std::time::Duration;
    use tokio::sync::mpsc;

    #[tokio::test]
    async fn a_sender_that_stops_is_given_up_and_one_that_is_slow_is_not() {
        let clock = ManualClock::new();
        let (sender, mut pieces) = mpsc::channel::<&'static str>(1);
        let frames = futures_util::stream::poll_fn(move |cx| pieces.poll_recv(cx));
        let frames = futures_util::StreamExt::map(frames, |piece| Ok(Frame::data(piece.into())));
        let body = patient(StreamBody::new(frames).boxed_unsync(), Arc::new(clock.clone()));
        let (mut body, fault) = noted(body);
        let almost = BODY_STALL_LIMIT.saturating_sub(Duration::from_secs(1));
        for _ in 0..3 {
            assert!(body.frame().now_or_never().is_none());
            clock.advance(almost);
            assert!(body.frame().now_or_never().is_none());
            sender.send("slow").await.unwrap();
            assert!(body.frame().await.unwrap().is_ok());
            clock.advance(almost);
        }
        assert!(body.frame().now_or_never().is_none());
        clock.advance(BODY_STALL_LIMIT);
        assert!(body.frame().await.unwrap().is_err());
        assert_eq!(fault.take().unwrap().code(), "RequestTimeout");
    }
}
