//! One HTTP/1.1 connection to a peer.
//!
//! It has no task of its own: whoever asks, or reads an answer, drives it. So the reader of a
//! body holds the socket itself, nothing is buffered between the two, and to drop a link is to
//! close the connection at once. A reader that only passes bytes on gets them in a pipe: that is
//! why this speaks HTTP itself, over a socket of which it knows what has been read.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use forebay_rt::timeout;
use forebay_wire::{HandshakeError, Purpose};
use forebay_zerocopy::{PipePass, Received, receive};
use http::header::CONNECTION;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;

use super::error::PeerError;
use super::head::{self, Head, HeadError};
use super::peer::Ask;
use super::shared::Shared;
use crate::limits::{CLIENT_BUFFER_BYTES, HEAD_READ_BYTES, PIPE_FROM_BYTES};
use crate::metrics::PeerMetrics;

/// A connection that was admitted and is not broken as far as is known.
pub(super) struct Link {
    stream: TcpStream,
    /// What of an ask has not been sent.
    unsent: Bytes,
    /// What has been read of an answer and not been handed out.
    received: BytesMut,
    /// Bytes of the answer's body that have not been handed out.
    left_bytes: u64,
    /// Whether the peer closes after this answer.
    is_last: bool,
    metrics: Arc<PeerMetrics>,
}

/// Why a link is not what it should be.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Head(#[from] HeadError),
    #[error("the connection ended")]
    Ended,
}

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error("connect: {0}")]
    Connect(#[source] io::Error),
    #[error("connect: no answer in time")]
    ConnectTimedOut,
    #[error("handshake: {0}")]
    Handshake(#[from] HandshakeError),
}

impl From<ConnectError> for PeerError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Connect(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                Self::Gone
            }
            error => Self::Unreachable(error.to_string()),
        }
    }
}

impl Link {
    /// Connects and is admitted, in the time allowed for each.
    pub(super) async fn connect(addr: &str, shared: &Shared) -> Result<Self, ConnectError> {
        let (clock, limits) = (&*shared.clock, &shared.limits);
        let connected = timeout(clock, limits.connect, TcpStream::connect(addr)).await;
        let connected = connected.map_err(|_| ConnectError::ConnectTimedOut)?;
        let mut stream = connected.map_err(ConnectError::Connect)?;
        stream.set_nodelay(true).map_err(ConnectError::Connect)?;
        let admission = shared.handshake.offer(&mut stream, Purpose::Data);
        let admitted = timeout(clock, limits.handshake, admission).await;
        admitted.unwrap_or(Err(HandshakeError::TimedOut))?;
        let (unsent, received) = (Bytes::new(), BytesMut::new());
        let metrics = shared.metrics.clone();
        Ok(Self { stream, unsent, received, left_bytes: 0, is_last: false, metrics })
    }

    /// Whether an idle link can be asked over: not where the peer has closed it, as far as the
    /// kernel knows, nor where it still has something to say.
    pub(super) fn is_ready(&self) -> bool {
        let is_quiet = || {
            let tried = self.stream.try_read(&mut [0]);
            tried.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        };
        !self.is_last && self.left_bytes == 0 && self.received.is_empty() && is_quiet()
    }

    /// Sends nothing yet: that happens when the head of the answer is polled for.
    pub(super) fn ask(&mut self, ask: &Ask) {
        self.unsent = head::encode(ask);
    }

    pub(super) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Head, LinkError>> {
        ready!(self.poll_unsent(cx))?;
        loop {
            if let Some(head) = head::decode(&mut self.received)? {
                self.left_bytes = head.body_bytes;
                self.is_last = head.headers.get(CONNECTION).is_some_and(|word| word == "close");
                return Poll::Ready(Ok(head));
            }
            ready!(self.poll_read(HEAD_READ_BYTES, cx))?;
        }
    }

    /// The next bytes of the body; `None` where it ends. With a pass, they need not be read.
    pub(super) fn poll_bytes(
        &mut self,
        pass: Option<PipePass>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, LinkError>> {
        if self.left_bytes == 0 {
            return Poll::Ready(Ok(None));
        }
        if self.received.is_empty() {
            let pass = pass.filter(|_| self.left_bytes >= PIPE_FROM_BYTES);
            match pass.map(|pass| self.poll_pipe(pass, cx)) {
                Some(Poll::Ready(Ok(Received::NoPipe))) | None => {
                    let bytes = self.left_bytes.min(CLIENT_BUFFER_BYTES as u64) as usize;
                    ready!(self.poll_read(bytes, cx))?;
                }
                Some(Poll::Ready(Ok(Received::Token(token)))) => {
                    self.left_bytes -= token.len() as u64;
                    self.metrics.piped(token.len() as u64);
                    return Poll::Ready(Ok(Some(token)));
                }
                Some(Poll::Ready(Err(error))) => return Poll::Ready(Err(error)),
                Some(Poll::Pending) => return Poll::Pending,
            }
        }
        let here = self.received.len().min(usize::try_from(self.left_bytes).unwrap_or(usize::MAX));
        self.left_bytes -= here as u64;
        Poll::Ready(Ok(Some(self.received.split_to(here).freeze())))
    }

    fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkError>> {
        while !self.unsent.is_empty() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &self.unsent))? {
                0 => return Poll::Ready(Err(LinkError::Ended)),
                sent => self.unsent.advance(sent),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads what is there, at least one byte and at most so many.
    fn poll_read(&mut self, bytes: usize, cx: &mut Context<'_>) -> Poll<Result<(), LinkError>> {
        self.received.reserve(bytes);
        let mut room = (&mut self.received).limit(bytes);
        match ready!(pin!(self.stream.read_buf(&mut room)).poll(cx))? {
            0 => Poll::Ready(Err(LinkError::Ended)),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn poll_pipe(
        &mut self,
        pass: PipePass,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Received, LinkError>> {
        let max_bytes = usize::try_from(self.left_bytes).unwrap_or(usize::MAX);
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            match receive(pass, &self.stream, max_bytes) {
                Ok(received) => return Poll::Ready(Ok(received)),
                // The readiness was stale, and is now cleared: ask again, to be woken.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Poll::Ready(Err(LinkError::Ended));
                }
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}
