//! The body of an answer: exactly as many bytes as its head says, or a cut connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::Frames;

pub(super) enum AnswerBody {
    /// What is there already.
    Whole(Bytes),
    /// Bytes of an object. They are handed on as they are: their addresses mean something to
    /// the transport.
    Frames { frames: Frames, left_bytes: u64 },
}

impl AnswerBody {
    pub(super) fn empty() -> Self {
        Self::Whole(Bytes::new())
    }

    fn left_bytes(&self) -> u64 {
        match self {
            Self::Whole(bytes) => bytes.len() as u64,
            Self::Frames { left_bytes, .. } => *left_bytes,
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.left_bytes() == 0 {
            return Poll::Ready(None);
        }
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Frames { frames, left_bytes } => {
                let frame = ready!(frames.as_mut().poll_next(cx));
                Poll::Ready(Some(count(frame, left_bytes).inspect_err(|error| {
                    tracing::debug!(%error, "an answer breaks off: the connection is cut");
                })))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left_bytes() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left_bytes())
    }
}

fn count(
    frame: Option<io::Result<Bytes>>,
    left_bytes: &mut u64,
) -> Result<Frame<Bytes>, io::Error> {
    let frame = frame.unwrap_or_else(|| {
        let why = format!("the bytes end {left_bytes} before their promised length");
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, why))
    })?;
    *left_bytes = left_bytes.checked_sub(frame.len() as u64).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "more bytes than their promised length")
    })?;
    Ok(Frame::data(frame))
}
