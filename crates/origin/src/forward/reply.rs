//! The origin's answer on its way back to the client.

use std::pin::Pin;
use std::task::{Context, Poll};

use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use forebay_telemetry::metrics::Counter;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

use super::{BoxError, ForwardBody};
use crate::answer::strip_hop_by_hop;
use crate::limit::InFlight;
use crate::metrics::Tally;
use crate::watchdog::{TooSlow, Watchdog};

/// An answer whose head has come.
pub(crate) struct Reply {
    pub(super) response: http::Response<SdkBody>,
    pub(super) tally: Tally,
}

impl Reply {
    /// The answer, verbatim but for headers of the connection. It counts as in flight until its
    /// body has ended or is dropped.
    pub(crate) fn into_response(
        self,
        watchdog: Watchdog,
        in_flight: InFlight,
    ) -> http::Response<ForwardBody> {
        let outcome = outcome_of(self.response.status());
        let bytes = self.tally.bytes();
        let mut response = self.response.map(|body| {
            let running = Some(Running { tally: self.tally, _in_flight: in_flight });
            Streaming { body, watchdog, outcome, running, bytes }.boxed_unsync()
        });
        strip_hop_by_hop(response.headers_mut());
        response
    }
}

fn outcome_of(status: http::StatusCode) -> &'static str {
    match status.as_u16() {
        429 | 503 => "503",
        400..500 => "4xx",
        500.. => "5xx",
        _ => "ok",
    }
}

struct Streaming {
    body: SdkBody,
    watchdog: Watchdog,
    outcome: &'static str,
    running: Option<Running>,
    bytes: Counter,
}

/// Goes when the body has ended, however long it is kept after that.
struct Running {
    tally: Tally,
    _in_flight: InFlight,
}

impl Body for Streaming {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            return self.watchdog.poll_silence(cx).map(|TooSlow(how)| Some(Err(self.cut(&how))));
        };
        Poll::Ready(match frame {
            Some(Ok(frame)) => Some(self.passed(frame)),
            Some(Err(error)) => {
                self.end("truncated");
                Some(Err(error))
            }
            None => {
                let outcome = self.outcome;
                self.end(outcome);
                None
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        Body::is_end_stream(&self.body)
    }

    fn size_hint(&self) -> SizeHint {
        Body::size_hint(&self.body)
    }
}

impl Streaming {
    fn passed(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, BoxError> {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        self.bytes.increment(bytes as u64);
        self.watchdog.moved(bytes).map_err(|TooSlow(how)| self.cut(&how))?;
        Ok(frame)
    }

    fn cut(&mut self, how: &str) -> BoxError {
        self.end("timeout");
        format!("the origin's answer is too slow: {how}").into()
    }

    fn end(&mut self, outcome: &'static str) {
        if let Some(running) = self.running.take() {
            running.tally.done(outcome);
        }
    }
}

impl Drop for Streaming {
    /// A body with nothing left in it is not always polled to its end.
    fn drop(&mut self) {
        if Body::is_end_stream(&self.body) {
            self.end(self.outcome);
        }
    }
}
