//! The listener: accepts connections, bounds them, and serves HTTP/1.1 on each.
//!
//! Parsing, keep-alive, chunked bodies, `100-continue` and the limits of a head are hyper's.
//! A head with both Content-Length and Transfer-Encoding hyper reads as chunked and closes
//! after; two different lengths it refuses. Nothing of a head goes to an origin as it came.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use forebay_rt::{Clock, Shutdown, spawn};
use forebay_zerocopy::Transport;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioTimer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::edge::Edge;

/// How long a client may take for the head of a request. hyper begins to count when the answer
/// before it has ended, so this is also how long a connection may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Headers of a request.
const MAX_HEADERS: usize = 100;

/// Bytes of a request's head. S3 allows 8 KiB of headers; the longest key is 3 KiB escaped.
const MAX_HEAD_BYTES: usize = 32 << 10;

/// Bytes that hyper buffers for a connection in each direction.
const MAX_BUFFER_BYTES: usize = 256 << 10;

/// How long to wait after the system had no file handle or memory for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const _: () = assert!(MAX_HEAD_BYTES < MAX_BUFFER_BYTES);

/// Serves until shutdown begins, then stops accepting. Connections finish what they have
/// begun, and count as busy until then.
pub async fn serve(listener: TcpListener, edge: Arc<Edge>, shutdown: Shutdown) {
    let room = Arc::new(Semaphore::new(edge.max_connections));
    loop {
        let accepted = async {
            let place = room.clone().acquire_owned().await.ok()?;
            Some((accept(&listener, &*edge.clock).await, place))
        };
        let (stream, place) = tokio::select! {
            accepted = accepted => match accepted {
                Some(accepted) => accepted,
                None => return,
            },
            () = shutdown.begun() => return,
        };
        let (edge, shutdown) = (edge.clone(), shutdown.clone());
        spawn(async move {
            let _busy = shutdown.busy();
            connection(stream, edge, &shutdown).await;
            drop(place);
        });
    }
}

/// The next connection, however long the system is short of something.
async fn accept(listener: &TcpListener, clock: &dyn Clock) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections: waiting");
                clock.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Whether an error of accept is only about the connection that would have been accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}

async fn connection(stream: TcpStream, edge: Arc<Edge>, shutdown: &Shutdown) {
    let _connected = edge.metrics.connected();
    if forebay_zerocopy::prepare(&stream).is_err() {
        return; // It is gone already.
    }
    let transport = Transport::new(stream, edge.clock.clone());
    let service = service_fn(move |request| {
        let edge = edge.clone();
        async move { Ok::<_, Infallible>(edge.answer(request).await) }
    });
    let mut connection = pin!(http().serve_connection(transport, service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.begun() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended with an error");
    }
}

fn http() -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(MAX_HEADERS)
        .max_header_size(MAX_HEAD_BYTES)
        .max_buf_size(MAX_BUFFER_BYTES)
        .half_close(true)
        .writev(true);
    http
}
