//! The side that connects.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use forebay_rt::{Clock, timeout};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, lookup_host};
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

use crate::handshake::{Handshake, Purpose};
use crate::limits::{CONNECT_TIME_MAX, KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIME_MAX, LOOKUP_TIME_MAX};

/// A channel to the control port at `addr` (`host:port`). Connects with the first request, and
/// again with the next one after the connection broke; the name is looked up each time. Knows no
/// proxy. Requests have no time limit of their own.
pub fn channel(addr: &str, handshake: Handshake) -> Channel {
    let addr: Arc<str> = addr.into();
    let connect = service_fn(move |_: Uri| connect(addr.clone(), handshake.clone()));
    // Only names the authority in requests, which no server of ours looks at.
    Endpoint::from_static("http://forebay")
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIME_MAX)
        .keep_alive_while_idle(true)
        .connect_with_connector_lazy(connect)
}

async fn connect(addr: Arc<str>, handshake: Handshake) -> io::Result<TokioIo<TcpStream>> {
    let mut stream = connect_tcp(&addr, handshake.clock()).await?;
    stream.set_nodelay(true)?;
    handshake.offer(&mut stream, Purpose::Control).await.map_err(io::Error::other)?;
    Ok(TokioIo::new(stream))
}

/// Tries each address of the name, in the resolver's order.
async fn connect_tcp(addr: &str, clock: &dyn Clock) -> io::Result<TcpStream> {
    let mut last = io::ErrorKind::NotFound.into();
    for addr in in_time(clock, LOOKUP_TIME_MAX, lookup_host(addr)).await? {
        match in_time(clock, CONNECT_TIME_MAX, TcpStream::connect(addr)).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn in_time<T>(
    clock: &dyn Clock,
    limit: Duration,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    timeout(clock, limit, work).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
