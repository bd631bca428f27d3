//! The connection that hyper reads and writes.
//!
//! Owns a TCP stream, and between hyper and the socket does four things: sends tokens without
//! reading them, waits where their bytes have to be checked anew, lets other connections have
//! their turn, and cuts a client that has stalled. It never copies a body and knows nothing of
//! HTTP.
//!
//! hyper must queue chunks rather than flatten them into its own buffer, which would read
//! through the tokens: that is its choice for a transport that writes vectored, as long as
//! `pipeline_flush` stays off and `writev` is not forbidden.
#![allow(unsafe_code, reason = "hyper's read cursor can only be filled through unsafe calls")]

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use forebay_rt::SharedClock;
use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use crate::pipe::PipePass;
use crate::send::{Sent, send};
use crate::stall::{STALL_LIMIT, StallGuard};
use crate::trust::Trust;

/// Bytes that a connection sends before others on its thread have their turn. A client that
/// reads as fast as we send would otherwise keep the thread for a whole object.
const TURN_BYTES: usize = 4 << 20;

/// A plaintext TCP connection that sends tokens of a [`FileWindow`](crate::FileWindow) by
/// `sendfile(2)`.
#[derive(Debug)]
pub struct Transport {
    stream: TcpStream,
    stall: StallGuard,
    trust: Trust,
    turn_left_bytes: usize,
}

impl Transport {
    /// Takes over a connection, with [`STALL_LIMIT`] as the limit for clients that take nothing.
    pub fn new(stream: TcpStream, clock: SharedClock) -> Self {
        Self::with_stall_limit(stream, clock, STALL_LIMIT)
    }

    /// Takes over a connection.
    pub fn with_stall_limit(stream: TcpStream, clock: SharedClock, limit: Duration) -> Self {
        let trust = Trust::new(clock.clone());
        let stall = StallGuard::new(clock, limit);
        Self { stream, stall, trust, turn_left_bytes: TURN_BYTES }
    }

    /// Says that this connection sends what [`receive`](crate::receive) takes.
    pub fn pipe_pass(&self) -> PipePass {
        PipePass(())
    }

    /// The client's address.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.turn_left_bytes == 0 {
            self.turn_left_bytes = TURN_BYTES;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            ready!(self.trust.poll(cx))?;
            if self.stream.poll_write_ready(cx)?.is_pending() {
                self.turn_left_bytes = TURN_BYTES;
                return self.stall.poll_cut(cx, &self.stream).map(Err);
            }
            let attempt = || send(&self.stream, slices, self.turn_left_bytes, &self.trust);
            match self.stream.try_io(Interest::WRITABLE, attempt) {
                Ok(Sent::Bytes(sent)) => {
                    self.stall.moved();
                    self.trust.sent(sent);
                    self.turn_left_bytes = self.turn_left_bytes.saturating_sub(sent);
                    return Poll::Ready(Ok(sent));
                }
                Ok(Sent::Unsure(piece)) => {
                    // It is not the client that keeps us waiting.
                    self.stall.moved();
                    self.trust.recheck(&piece)?;
                }
                // The readiness was stale, and is now cleared: ask again, to be woken.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl Read for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut cursor: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // SAFETY: tokio's buffer never makes initialised bytes uninitialised.
        let mut buffer = ReadBuf::uninit(unsafe { cursor.as_mut() });
        ready!(Pin::new(&mut self.get_mut().stream).poll_read(cx, &mut buffer))?;
        let filled = buffer.filled().len();
        // SAFETY: the stream has just initialised that many bytes from the cursor's start.
        unsafe { cursor.advance(filled) };
        Poll::Ready(Ok(()))
    }
}

impl Write for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slice: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_send(cx, &[IoSlice::new(slice)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_send(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::task::noop_waker_ref;
    use tokio::net::TcpListener;

    use super::*;
    use crate::tests::{Segment, clock};

    async fn transport() -> (Transport, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let stream = listener.accept().await.unwrap().0;
        stream.writable().await.unwrap();
        (Transport::new(stream, clock()), client)
    }

    fn write(transport: &mut Transport, slice: &[u8]) -> Poll<io::Result<usize>> {
        let cx = &mut Context::from_waker(noop_waker_ref());
        Pin::new(transport).poll_write(cx, slice)
    }

    #[tokio::test]
    async fn a_connection_that_has_had_its_turn_gives_way_once() {
        let (mut transport, _client) = transport().await;
        let window = Segment::random(90, 10_000).window;
        let token = window.token(0..10_000, ());
        transport.turn_left_bytes = 7_000;
        assert!(matches!(write(&mut transport, &token), Poll::Ready(Ok(7_000))));
        assert!(write(&mut transport, &token[7_000..]).is_pending());
        assert!(matches!(write(&mut transport, &token[7_000..]), Poll::Ready(Ok(3_000))));
    }

    #[tokio::test]
    async fn a_plain_write_of_a_token_does_not_read_it() {
        let (mut transport, _client) = transport().await;
        let window = Segment::random(91, 10_000).window;
        let token = window.token(0..10_000, ());
        // What is no longer in the file could be read by nobody; its page is still in memory.
        window.file().set_len(9_000).unwrap();
        let rest = &token[9_000..];
        let Poll::Ready(Err(error)) = write(&mut transport, rest) else { panic!("no error") };
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{error}");
    }
}
