//! Telling a slow client from one that has stopped.
//!
//! A client that takes no byte keeps a chunk pinned. It is given [`STALL_LIMIT`] from its last
//! sign of life and then cut. How fast a client must read is deliberately not asked here.
#![allow(unsafe_code, reason = "asks the kernel how much of the send queue is unacknowledged")]

use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use forebay_rt::SharedClock;
use socket2::SockRef;
use tokio::net::TcpStream;

/// How long a client may take nothing while bytes for it are queued, unless set otherwise.
pub const STALL_LIMIT: Duration = Duration::from_mins(1);

/// Watches one connection's queue while it does not move.
pub(crate) struct StallGuard {
    clock: SharedClock,
    limit: Duration,
    watch: Option<Watch>,
}

struct Watch {
    unacked_bytes: usize,
    over: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl StallGuard {
    pub(crate) fn new(clock: SharedClock, limit: Duration) -> Self {
        Self { clock, limit, watch: None }
    }

    /// The socket took bytes.
    pub(crate) fn moved(&mut self) {
        self.watch = None;
    }

    /// The socket takes no bytes. Pending while that may still change; ready with an error, and
    /// the socket set to be reset when it is closed, once the limit has passed.
    ///
    /// A socket becomes writable only when a third of its buffer is free, which for a slow
    /// client can take longer than the limit. So what counts is whether the client has
    /// acknowledged anything.
    pub(crate) fn poll_cut(&mut self, cx: &mut Context<'_>, stream: &TcpStream) -> Poll<io::Error> {
        loop {
            let watch = match &mut self.watch {
                Some(watch) => watch,
                watch => watch.insert(Watch {
                    unacked_bytes: unacked_bytes(stream),
                    over: self.clock.sleep(self.limit),
                }),
            };
            ready!(watch.over.as_mut().poll(cx));
            if unacked_bytes(stream) >= watch.unacked_bytes {
                return Poll::Ready(self.cut(stream));
            }
            self.watch = None;
        }
    }

    fn cut(&self, stream: &TcpStream) -> io::Error {
        // Without this the kernel would go on offering its part of the queue to a dead client.
        // It can only fail if the socket is already gone.
        let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        io::Error::new(
            io::ErrorKind::TimedOut,
            format!("client took no byte for {} ms: connection cut", self.limit.as_millis()),
        )
    }
}

impl fmt::Debug for StallGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StallGuard")
            .field("limit", &self.limit)
            .field("watching", &self.watch.is_some())
            .finish_non_exhaustive()
    }
}

/// Bytes in the send queue that the client has not acknowledged; 0 if the socket cannot tell.
fn unacked_bytes(stream: &TcpStream) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open, and the request writes one int.
    let code = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if code == 0 { usize::try_from(bytes).unwrap_or(0) } else { 0 }
}
