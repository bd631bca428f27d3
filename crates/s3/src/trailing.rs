//! A body and the checksum that follows it, on their way to the origin: `aws-chunked` once more.
//!
//! The client's own framing ended with its signature. The origin gets frames of ours, of which
//! the lengths are known before the first byte, because S3 wants a Content-Length.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use forebay_cache::{BoxError, ForwardBody};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::checksum::Announced;

/// Bytes in a frame, but for the last.
const FRAME_BYTES: u64 = 1 << 20;

/// A body of `body_bytes` with its trailers behind it, in frames.
pub(crate) fn framed(body: ForwardBody, body_bytes: u64, trailers: &[Announced]) -> ForwardBody {
    let left_bytes = framed_len(body_bytes, trailers);
    let state = State::Between { body_bytes };
    Framed { body, state, rest: Bytes::new(), trailers: HeaderMap::new(), left_bytes }
        .boxed_unsync()
}

/// The length of that.
pub(crate) fn framed_len(body_bytes: u64, trailers: &[Announced]) -> u64 {
    let frame = |bytes: u64| line(bytes).len() as u64 + bytes + END.len() as u64;
    let last = body_bytes % FRAME_BYTES;
    let frames =
        body_bytes / FRAME_BYTES * frame(FRAME_BYTES) + if last > 0 { frame(last) } else { 0 };
    let trailers = trailers.iter().map(|trailer| trailer.line_len() + END.len());
    frames + (line(0).len() + trailers.sum::<usize>() + END.len()) as u64
}

/// A body whose trailers are of no use any more.
pub(crate) fn dropped(body: ForwardBody) -> ForwardBody {
    Dropped(body).boxed_unsync()
}

const END: &[u8] = b"\r\n";

/// The line before a frame.
fn line(bytes: u64) -> Bytes {
    format!("{bytes:x}\r\n").into()
}

struct Framed {
    body: ForwardBody,
    state: State,
    /// What came of the body and has not been sent on.
    rest: Bytes,
    trailers: HeaderMap,
    left_bytes: u64,
}

/// What comes next.
#[derive(Clone, Copy)]
enum State {
    /// The line before a frame, or before the trailers if no byte is to come.
    Between {
        body_bytes: u64,
    },
    /// Bytes of a frame.
    Within {
        frame_bytes: u64,
        body_bytes: u64,
    },
    /// The trailers.
    Trailers,
    Over,
}

impl Framed {
    /// The next piece, if it takes nothing more of the body.
    fn piece(&mut self) -> Option<Bytes> {
        match self.state {
            State::Between { body_bytes: 0 } => {
                self.state = State::Trailers;
                Some(line(0))
            }
            State::Between { body_bytes } => {
                let frame_bytes = body_bytes.min(FRAME_BYTES);
                self.state = State::Within { frame_bytes, body_bytes: body_bytes - frame_bytes };
                Some(line(frame_bytes))
            }
            State::Within { frame_bytes: 0, body_bytes } => {
                self.state = State::Between { body_bytes };
                Some(END.into())
            }
            State::Within { frame_bytes, body_bytes } if self.rest.has_remaining() => {
                let len = frame_bytes.min(self.rest.len() as u64);
                self.state = State::Within { frame_bytes: frame_bytes - len, body_bytes };
                Some(self.rest.split_to(len as usize))
            }
            State::Within { .. } | State::Trailers | State::Over => None,
        }
    }

    /// What came next of the body.
    fn take(&mut self, frame: Option<Frame<Bytes>>) -> Result<Option<Bytes>, BoxError> {
        match (self.state, frame.map(Frame::into_data)) {
            (State::Within { .. }, Some(Ok(data))) => {
                self.rest = data;
                Ok(None)
            }
            (State::Trailers, Some(Ok(data))) if data.is_empty() => Ok(None),
            (State::Trailers, Some(Err(frame))) => {
                self.trailers.extend(frame.into_trailers().unwrap_or_default());
                Ok(None)
            }
            (State::Trailers, None) if self.rest.is_empty() => {
                self.state = State::Over;
                Ok(Some(self.trailer_lines()))
            }
            _ => Err("the body is not as long as it was declared".into()),
        }
    }

    fn trailer_lines(&self) -> Bytes {
        let mut lines = Vec::new();
        for (name, value) in &self.trailers {
            for part in [name.as_str().as_bytes(), b":", value.as_bytes(), END] {
                lines.extend_from_slice(part);
            }
        }
        lines.extend_from_slice(END);
        lines.into()
    }
}

impl Body for Framed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            let piece = match self.piece() {
                Some(piece) => Some(piece),
                None if matches!(self.state, State::Over) => return Poll::Ready(None),
                None => {
                    let frame = ready!(Pin::new(&mut self.body).poll_frame(cx)).transpose()?;
                    self.take(frame)?
                }
            };
            if let Some(piece) = piece {
                self.left_bytes = self.left_bytes.saturating_sub(piece.len() as u64);
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left_bytes)
    }
}

struct Dropped(ForwardBody);

impl Body for Dropped {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            match ready!(Pin::new(&mut self.0).poll_frame(cx)) {
                Some(Ok(frame)) if frame.is_trailers() => {}
                other => return Poll::Ready(other),
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::{TRAILER, announced};
    use http_body_util::StreamBody;

    const NAME: &str = "x-amz-checksum-crc32";

    async fn through(len: usize, pieces_of: usize) -> (Vec<u8>, u64) {
        let bytes: Vec<u8> = (0..len).map(|i| (i >> 8) as u8 ^ i as u8).collect();
        let trailers = HeaderMap::from_iter([(NAME.parse().unwrap(), "NhCmhg==".parse().unwrap())]);
        let pieces =
            bytes.chunks(pieces_of).map(|piece| Frame::data(Bytes::copy_from_slice(piece)));
        let frames: Vec<Result<_, BoxError>> =
            pieces.chain([Frame::trailers(trailers)]).map(Ok).collect();
        let body = StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync();
        let headers = HeaderMap::from_iter([(TRAILER.parse().unwrap(), NAME.parse().unwrap())]);
        let announced = announced(&headers).unwrap();
        let declared = framed_len(len as u64, &announced);
        let out = framed(body, len as u64, &announced).collect().await.unwrap().to_bytes();
        (out.to_vec(), declared)
    }

    #[tokio::test]
    async fn a_small_body_is_one_frame_and_its_trailer() {
        let (framed, declared) = through(3, 2).await;
        assert_eq!(framed, b"3\r\n\x00\x01\x02\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n");
        assert_eq!(declared, framed.len() as u64);
        let (empty, declared) = through(0, 1).await;
        assert_eq!(empty, b"0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n");
        assert_eq!(declared, empty.len() as u64);
    }

    #[tokio::test]
    async fn the_length_is_right_however_the_pieces_fall() {
        let frame = FRAME_BYTES as usize;
        for len in [1, 15, 16, frame - 1, frame, frame + 1, 3 * frame, 3 * frame + 17] {
            for pieces_of in [frame / 3, frame, 5 * frame] {
                let (framed, declared) = through(len, pieces_of).await;
                assert_eq!(framed.len() as u64, declared, "{len} in pieces of {pieces_of}");
            }
        }
    }

    #[tokio::test]
    async fn a_body_of_another_length_never_becomes_a_whole_one() {
        for (body, declared) in [("ab", 3), ("abcd", 3)] {
            let frames = [Ok::<_, BoxError>(Frame::data(Bytes::from(body)))];
            let body = StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync();
            assert!(framed(body, declared, &[]).collect().await.is_err());
        }
    }
}
