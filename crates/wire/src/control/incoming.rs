//! The side that accepts.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::{Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tonic::transport::Server;
use tonic::transport::server::{Connected, TcpConnectInfo};

use super::admission::admissions;
use crate::handshake::Handshake;
use crate::limits::{KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIME_MAX};

/// A control connection whose other side holds the cluster secret.
#[derive(Debug)]
pub struct Admitted(TcpStream);

/// A gRPC server that finds out when the other side of a connection has vanished.
pub fn server() -> Server {
    Server::builder()
        .http2_keepalive_interval(Some(KEEP_ALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEP_ALIVE_TIME_MAX))
}

/// The connections of a control port, for [`server`] and its `serve_with_incoming`. Never ends
/// and never fails: strangers are logged and dropped.
pub fn incoming(
    listener: TcpListener,
    handshake: Handshake,
) -> impl Stream<Item = io::Result<Admitted>> + Send + 'static {
    admissions(listener, handshake).map(|(stream, _)| Ok(Admitted(stream)))
}

impl Connected for Admitted {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.0.connect_info()
    }
}

impl AsyncRead for Admitted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Admitted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
