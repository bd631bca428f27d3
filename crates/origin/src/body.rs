//! The body of a ranged GET: exactly the bytes of its range, or an error in place of the rest.
//!
//! Nothing is retried here: whoever reads knows the offset, and resumes there with a pin.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use forebay_telemetry::metrics::Counter;
use forebay_types::{ByteRange, ObjectHead};
use futures_util::stream::{BoxStream, Stream, StreamExt};
use http_body::Body;

use crate::error::OriginError;
use crate::limit::InFlight;
use crate::metrics::Tally;
use crate::sdk_error::detail;
use crate::watchdog::{TooSlow, Watchdog};

/// A body on its way from the origin.
pub struct OriginBody {
    /// The version that it is of.
    pub head: ObjectHead,
    /// The bytes that it holds.
    pub range: ByteRange,
    /// The bytes as they arrive, uncopied: exactly `range.len()` of them, or an error where the
    /// first missing one would be. The request counts as in flight until it has ended.
    pub frames: BoxStream<'static, Result<Bytes, OriginError>>,
}

impl fmt::Debug for OriginBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OriginBody")
            .field("head", &self.head)
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

/// A part as the origin sends it, with what watches over it.
pub(crate) struct Part {
    pub(crate) head: ObjectHead,
    pub(crate) range: ByteRange,
    pub(crate) body: SdkBody,
    pub(crate) tally: Tally,
}

impl Part {
    pub(crate) fn into_body(self, watchdog: Watchdog, in_flight: InFlight) -> OriginBody {
        let bytes = self.tally.bytes();
        let arriving =
            Arriving { body: self.body, watchdog, tally: self.tally, bytes, _in_flight: in_flight };
        let exact = Exact { arriving: Some(arriving), expected: self.range.len(), received: 0 };
        OriginBody { head: self.head, range: self.range, frames: exact.boxed() }
    }
}

/// Counts frames against what was promised. Dropping `arriving`, at the last byte already, ends
/// the request: nobody has to read on to learn that there is no more.
struct Exact {
    arriving: Option<Arriving>,
    expected: u64,
    received: u64,
}

struct Arriving {
    body: SdkBody,
    watchdog: Watchdog,
    tally: Tally,
    bytes: Counter,
    _in_flight: InFlight,
}

impl Stream for Exact {
    type Item = Result<Bytes, OriginError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(arriving) = self.arriving.as_mut() else { return Poll::Ready(None) };
        let taken = match ready!(arriving.poll_data(cx)) {
            Ok(data) => self.admit(data),
            Err((outcome, how)) => Err((outcome, self.after(&how))),
        };
        Poll::Ready(Some(taken.map_err(|(outcome, detail)| {
            self.end(outcome);
            OriginError::Unavailable(detail)
        })))
    }
}

impl Exact {
    fn admit(&mut self, data: Bytes) -> Result<Bytes, (&'static str, String)> {
        self.received += data.len() as u64;
        if self.received > self.expected {
            return Err(("mismatch", format!("body is longer than {} bytes", self.expected)));
        }
        if self.received == self.expected {
            self.end("ok");
        }
        Ok(data)
    }

    fn after(&self, how: &str) -> String {
        format!("{how} after {} of {} bytes", self.received, self.expected)
    }

    fn end(&mut self, outcome: &'static str) {
        if let Some(arriving) = self.arriving.take() {
            arriving.tally.done(outcome);
        }
    }
}

impl Arriving {
    /// The next bytes; else the outcome, and what happened to the body.
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, (&'static str, String)>> {
        let slow = |TooSlow(how): TooSlow| ("timeout", format!("body is too slow: {how}"));
        loop {
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
                return self.watchdog.poll_silence(cx).map(|silence| Err(slow(silence)));
            };
            let data = match frame {
                Some(Ok(frame)) => frame.into_data(),
                Some(Err(error)) => {
                    let how = format!("body broke ({})", detail(error.as_ref()));
                    return Poll::Ready(Err(("truncated", how)));
                }
                None => return Poll::Ready(Err(("truncated", "body ended".into()))),
            };
            // What is no data is trailers, which say nothing about our bytes.
            if let Ok(data) = data
                && !data.is_empty()
            {
                self.bytes.increment(data.len() as u64);
                return Poll::Ready(self.watchdog.moved(data.len()).map(|()| data).map_err(slow));
            }
        }
    }
}
