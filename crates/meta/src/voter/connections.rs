//! A bound on a port's connections: one more waits in the listener's backlog until one ends.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::stream::{Stream, StreamExt, unfold};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::transport::server::Connected;

/// A connection that counts for as long as it lives.
pub(super) struct Counted<C> {
    connection: C,
    _place: OwnedSemaphorePermit,
}

/// Those of `incoming`, no more than `max` at once.
pub(super) fn at_most<C>(
    max: usize,
    incoming: impl Stream<Item = io::Result<C>> + Send + 'static,
) -> impl Stream<Item = io::Result<Counted<C>>> {
    let state = (Box::pin(incoming), Arc::new(Semaphore::new(max)));
    unfold(state, |(mut incoming, places)| async {
        let place = places.clone().acquire_owned().await.ok()?;
        let counted =
            incoming.next().await?.map(|connection| Counted { connection, _place: place });
        Some((counted, (incoming, places)))
    })
}

impl<C: Connected> Connected for Counted<C> {
    type ConnectInfo = C::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.connection.connect_info()
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Counted<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_read(cx, buf)
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Counted<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use futures_util::stream::iter;

    #[tokio::test]
    async fn one_connection_too_many_waits_for_another_to_end() {
        let mut counted = std::pin::pin!(at_most(2, iter((0..3).map(Ok))));
        let first = counted.next().await.unwrap().unwrap();
        let _second = counted.next().await.unwrap().unwrap();
        assert!(counted.next().now_or_never().is_none());
        drop(first);
        assert_eq!(counted.next().await.unwrap().unwrap().connection, 2);
    }
}
