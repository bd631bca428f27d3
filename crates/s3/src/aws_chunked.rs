//! Unwraps `aws-chunked` bodies where nobody checks their signatures: on an open endpoint, and
//! where a caller that does not sign may write.
//!
//! Elsewhere `s3s` does both. Chunk signatures are read over; the length that the client declared
//! for the unwrapped body is enforced. Trailers come out as those of the body.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use forebay_cache::{BoxError, ForwardBody};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::code::Code;
use crate::error::S3Error;
use crate::received::Received;
use crate::sigv4::CONTENT_SHA256;

/// The header that declares the length of the unwrapped body.
pub(crate) const DECODED_LENGTH: &str = "x-amz-decoded-content-length";

/// Longest line: a chunk's size with its signature, or a trailer.
const MAX_LINE_BYTES: usize = 4 << 10;

/// Lines that may follow the last chunk.
const MAX_TRAILERS: usize = 32;

/// Whether a request says that its body is `aws-chunked`.
pub(crate) fn is_chunked(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_SHA256).is_some_and(|value| value.as_bytes().starts_with(b"STREAMING-"))
}

/// Whether a request says that the chunks of its body are signed.
pub(crate) fn is_signed(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_SHA256).is_some_and(|value| value.as_bytes().starts_with(b"STREAMING-AWS4"))
}

/// Whether a request says that trailers follow its body.
pub(crate) fn has_trailer(headers: &HeaderMap) -> bool {
    is_chunked(headers)
        && headers.get(CONTENT_SHA256).is_some_and(|value| value.as_bytes().ends_with(b"-TRAILER"))
}

/// The length of the body once it is unwrapped.
pub(crate) fn decoded_length(headers: &HeaderMap) -> Result<u64, S3Error> {
    let value = headers.get(DECODED_LENGTH).and_then(|value| value.to_str().ok());
    value.and_then(|digits| digits.parse().ok()).ok_or_else(|| {
        S3Error::new(Code::MissingContentLength, "You must provide x-amz-decoded-content-length.")
    })
}

/// Unwraps the body of a request if it is wrapped.
pub(crate) fn unwrap(mut request: Received) -> Result<Received, S3Error> {
    if is_chunked(&request.parts.headers) {
        let left_bytes = decoded_length(&request.parts.headers)?;
        request.body = request.body.map(|wrapped| {
            let state = State::Size;
            let trailers = HeaderMap::new();
            Unwrap { wrapped, buffer: BytesMut::new(), state, left_bytes, trailers }.boxed_unsync()
        });
    }
    Ok(request)
}

struct Unwrap {
    wrapped: ForwardBody,
    buffer: BytesMut,
    state: State,
    /// Of the whole body, what is still to come.
    left_bytes: u64,
    trailers: HeaderMap,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A line with the size of the next chunk comes next.
    Size,
    /// This many bytes of the present chunk come next.
    Data(u64),
    /// The line break after a chunk comes next.
    Break,
    /// Trailers come next; so many have been seen.
    Trailers(usize),
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum BadChunks {
    #[error("aws-chunked body: a line is no chunk header and no trailer, or too long")]
    Line,
    #[error("aws-chunked body: it is not as long as x-amz-decoded-content-length says")]
    Length,
    #[error("aws-chunked body: it ends within a chunk")]
    Cut,
}

/// What a look at the buffer gave.
enum Step {
    Data(Bytes),
    More,
    End,
}

impl Unwrap {
    fn step(&mut self) -> Result<Step, BadChunks> {
        loop {
            self.state = match self.state {
                State::Size => match self.line()? {
                    None => return Ok(Step::More),
                    Some(line) => match chunk_size(&line)? {
                        0 => State::Trailers(0),
                        size => State::Data(size),
                    },
                },
                State::Data(0) => State::Break,
                State::Data(_) if self.buffer.is_empty() => return Ok(Step::More),
                State::Data(size) => return self.data(size).map(Step::Data),
                State::Break => match self.line()? {
                    None => return Ok(Step::More),
                    Some(line) if line.is_empty() => State::Size,
                    Some(_) => return Err(BadChunks::Line),
                },
                State::Trailers(seen) => match self.line()? {
                    None => return Ok(Step::More),
                    Some(line) if line.is_empty() => State::Done,
                    Some(_) if seen == MAX_TRAILERS => return Err(BadChunks::Line),
                    Some(line) => {
                        self.keep_trailer(&line)?;
                        State::Trailers(seen + 1)
                    }
                },
                State::Done if self.left_bytes > 0 => return Err(BadChunks::Length),
                State::Done => return Ok(Step::End),
            };
        }
    }

    fn data(&mut self, size: u64) -> Result<Bytes, BadChunks> {
        let len = usize::try_from(size).unwrap_or(usize::MAX).min(self.buffer.len());
        self.left_bytes = self.left_bytes.checked_sub(len as u64).ok_or(BadChunks::Length)?;
        self.state = State::Data(size - len as u64);
        Ok(self.buffer.split_to(len).freeze())
    }

    fn line(&mut self) -> Result<Option<Bytes>, BadChunks> {
        let end = self.buffer.windows(2).take(MAX_LINE_BYTES).position(|pair| pair == b"\r\n");
        match end {
            Some(end) => {
                let line = self.buffer.split_to(end).freeze();
                self.buffer.advance(2);
                Ok(Some(line))
            }
            None if self.buffer.len() > MAX_LINE_BYTES => Err(BadChunks::Line),
            None => Ok(None),
        }
    }

    fn keep_trailer(&mut self, line: &[u8]) -> Result<(), BadChunks> {
        let colon = line.iter().position(|b| *b == b':').ok_or(BadChunks::Line)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let name = HeaderName::from_bytes(name).map_err(|_| BadChunks::Line)?;
        let value = HeaderValue::from_bytes(value).map_err(|_| BadChunks::Line)?;
        self.trailers.append(name, value);
        Ok(())
    }

    /// What is left to say when all data has been: the trailers, once.
    fn end(&mut self) -> Option<Result<Frame<Bytes>, BoxError>> {
        let trailers = std::mem::take(&mut self.trailers);
        (!trailers.is_empty()).then_some(Ok(Frame::trailers(trailers)))
    }

    /// The body ended where nothing more was needed, or too early. Some clients leave out the
    /// last line break.
    fn at_end_of_input(&mut self) -> Option<Result<Frame<Bytes>, BoxError>> {
        match self.state {
            State::Done | State::Trailers(_) if self.left_bytes == 0 => {
                self.keep_last_line().err().map(Err).or_else(|| self.end())
            }
            _ => Some(Err(BadChunks::Cut.into())),
        }
    }

    /// A trailer whose line break was left out.
    fn keep_last_line(&mut self) -> Result<(), BoxError> {
        let line = self.buffer.split().freeze();
        if !line.trim_ascii().is_empty() {
            self.keep_trailer(&line)?;
        }
        self.state = State::Done;
        Ok(())
    }
}

impl Body for Unwrap {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            match self.step() {
                Ok(Step::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(Step::End) => return Poll::Ready(self.end()),
                Ok(Step::More) => {}
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
            match ready!(Pin::new(&mut self.wrapped).poll_frame(cx)) {
                None => return Poll::Ready(self.at_end_of_input()),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left_bytes)
    }
}

/// Reads `size-in-hex[;chunk-signature=...]`.
fn chunk_size(line: &[u8]) -> Result<u64, BadChunks> {
    let digits = line.split(|b| *b == b';').next().unwrap_or_default();
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_number).ok_or(BadChunks::Line)?;
    u64::from_str_radix(digits, 16).map_err(|_| BadChunks::Line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;
    use http_body_util::StreamBody;
    use proptest::prelude::*;

    async fn unwrapped(body: &[u8], pieces_of: usize, declared: u64) -> Result<Vec<u8>, BoxError> {
        let frames: Vec<Result<_, BoxError>> = body
            .chunks(pieces_of)
            .map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece))))
            .collect();
        let stream = StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync();
        let (parts, ()) = Request::put("/b/k")
            .header(CONTENT_SHA256, "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
            .header(DECODED_LENGTH, declared)
            .body(())
            .unwrap()
            .into_parts();
        let (query, body, pass) = (crate::query::Query::default(), Some(stream), None);
        let request = Received { parts, query, body, pass };
        let body = unwrap(request).unwrap().take_body();
        Ok(body.collect().await?.to_bytes().to_vec())
    }

    #[tokio::test]
    async fn a_body_comes_out_whole_however_it_was_cut() {
        let body = b"5;chunk-signature=ab\r\nhello\r\n6\r\n world\r\n0\r\nx-amz-checksum-crc32:AA==\r\n\r\n";
        for pieces_of in 1..body.len() {
            assert_eq!(
                unwrapped(body, pieces_of, 11).await.unwrap(),
                b"hello world",
                "{pieces_of}"
            );
        }
        assert_eq!(unwrapped(b"0\r\n\r\n", 9, 0).await.unwrap(), b"");
    }

    #[tokio::test]
    async fn a_body_of_another_length_is_an_error() {
        for (body, declared) in [
            (&b"5\r\nhello\r\n0\r\n\r\n"[..], 4),
            (b"5\r\nhello\r\n0\r\n\r\n", 6),
            (b"5\r\nhel", 5),
            (b"5\r\nhello\r\n", 5),
            (b"5\r\nhelloX\r\n0\r\n\r\n", 5),
            (b"x\r\nhello\r\n0\r\n\r\n", 5),
            (b"ffffffffffffffffff\r\nhello", 5),
        ] {
            assert!(unwrapped(body, 64, declared).await.is_err(), "{body:?}");
        }
        assert!(unwrapped(&vec![b'1'; 2 * MAX_LINE_BYTES], 512, 5).await.is_err());
    }

    proptest! {
        #[test]
        fn no_body_makes_the_decoder_panic(body in "([0-9a-f]|;|\r\n|[a-z]){0,60}", declared in 0u64..40) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            if let Ok(decoded) = runtime.block_on(unwrapped(body.as_bytes(), 7, declared)) {
                prop_assert_eq!(decoded.len() as u64, declared);
            }
        }
    }
}
