//! The body of an answer, as hyper polls it.
//!
//! Chunks are handed on as they are, uncopied unless the connection is encrypted: their addresses
//! mean something to the transport. An error in mid-body is returned as one, which makes hyper
//! cut the connection before the declared length; a short body would be taken for a whole one.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use forebay_cache::{BoxError, ForwardBody, Reader};
use futures_util::Stream;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

use crate::metrics::InFlight;

/// The body of an answer.
pub struct S3Body {
    kind: Kind,
    /// Held by a body whose chunks are copied, for as long as it lasts.
    copied: Option<OwnedSemaphorePermit>,
    in_flight: Option<InFlight>,
}

#[expect(clippy::large_enum_variant, reason = "a box would be an allocation on every hit")]
enum Kind {
    Empty,
    Text(Bytes),
    Read(Reader),
    Forwarded(ForwardBody),
}

impl S3Body {
    /// No body.
    pub(crate) fn empty() -> Self {
        Kind::Empty.into()
    }

    /// A body that is there already.
    pub(crate) fn text(text: impl Into<Bytes>) -> Self {
        Kind::Text(text.into()).into()
    }

    /// Bytes of an object.
    pub(crate) fn read(reader: Option<Reader>) -> Self {
        reader.map_or(Kind::Empty, Kind::Read).into()
    }

    /// What the origin sends.
    pub(crate) fn forwarded(body: ForwardBody) -> Self {
        Kind::Forwarded(body).into()
    }

    /// With a place for copies: chunks are copied into memory as they come, for a connection to
    /// which their addresses mean nothing. A chunk is handed out when its bytes are in memory and
    /// right, and is copied in that moment; the file is not looked at again afterwards.
    pub(crate) fn copied(self, place: Option<OwnedSemaphorePermit>) -> Self {
        Self { copied: place, ..self }
    }

    /// Ends the request's count when the body ends.
    pub(crate) fn watched(mut self, mut in_flight: InFlight) -> Self {
        if self.is_end_stream() {
            in_flight.complete();
        } else {
            self.in_flight = Some(in_flight);
        }
        self
    }

    fn poll_kind(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.kind {
            Kind::Empty => Poll::Ready(None),
            Kind::Text(text) => {
                let text = std::mem::take(text);
                self.kind = Kind::Empty;
                Poll::Ready(Some(Ok(Frame::data(text))))
            }
            Kind::Read(reader) => Pin::new(reader).poll_next(cx).map(|item| {
                item.map(|chunk| match chunk {
                    Ok(bytes) if self.copied.is_some() => {
                        Ok(Frame::data(Bytes::copy_from_slice(&bytes)))
                    }
                    Ok(bytes) => Ok(Frame::data(bytes)),
                    Err(error) => Err(error.into()),
                })
            }),
            Kind::Forwarded(body) => Pin::new(body).poll_frame(cx),
        }
    }
}

impl From<Kind> for S3Body {
    fn from(kind: Kind) -> Self {
        Self { kind, copied: None, in_flight: None }
    }
}

impl Body for S3Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(self.poll_kind(cx));
        if let Some(Err(error)) = &frame {
            tracing::warn!(%error, "a body breaks off: the connection is cut");
        }
        // A cut of our own is not the client's doing.
        let over = matches!(&frame, None | Some(Err(_))) || self.is_end_stream();
        if over && let Some(mut in_flight) = self.in_flight.take() {
            in_flight.complete();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Empty => true,
            Kind::Text(text) => text.is_empty(),
            Kind::Read(reader) => reader.remaining() == 0,
            Kind::Forwarded(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Text(text) => SizeHint::with_exact(text.len() as u64),
            Kind::Read(reader) => SizeHint::with_exact(reader.remaining()),
            Kind::Forwarded(body) => body.size_hint(),
        }
    }
}
