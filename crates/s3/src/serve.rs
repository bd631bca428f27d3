//! The listeners: accept connections, bound them, and serve HTTP/1.1 on each, plain or encrypted.
//!
//! Parsing, keep-alive, chunked bodies, `100-continue` and the limits of a head are hyper's.
//! A head with both Content-Length and Transfer-Encoding hyper reads as chunked and closes
//! after; two different lengths it refuses. Nothing of a head goes to an origin as it came.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use forebay_rt::{Shutdown, spawn, timeout};
use forebay_zerocopy::{PipePass, Transport, accept};
use http::Request;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioTimer;
use tokio::net::{TcpListener, TcpStream};

use crate::edge::Edge;
use crate::limits::{
    HANDSHAKE_TIMEOUT, HEAD_TIMEOUT, MAX_BUFFER_BYTES, MAX_HEAD_BYTES, MAX_HEADERS,
};
use crate::tls::TlsServer;

/// Serves plain HTTP until shutdown begins, then stops accepting. Connections finish what they
/// have begun, and count as busy until then.
pub async fn serve(listener: TcpListener, edge: Arc<Edge>, shutdown: Shutdown) {
    accept_all(listener, None, edge, shutdown).await;
}

/// As [`serve`], over TLS. The two share the bound of connections.
pub async fn serve_tls(listener: TcpListener, tls: TlsServer, edge: Arc<Edge>, shutdown: Shutdown) {
    accept_all(listener, Some(tls), edge, shutdown).await;
}

async fn accept_all(
    listener: TcpListener,
    tls: Option<TlsServer>,
    edge: Arc<Edge>,
    shutdown: Shutdown,
) {
    loop {
        let accepted = async {
            let place = edge.room.clone().acquire_owned().await.ok()?;
            let (stream, _) = accept(&listener, &*edge.clock).await;
            Some((stream, place))
        };
        let (stream, place) = tokio::select! {
            accepted = accepted => match accepted {
                Some(accepted) => accepted,
                None => return,
            },
            () = shutdown.begun() => return,
        };
        let (tls, edge, shutdown) = (tls.clone(), edge.clone(), shutdown.clone());
        spawn(async move {
            let _busy = shutdown.busy();
            connection(stream, tls, edge, &shutdown).await;
            drop(place);
        });
    }
}

async fn connection(
    stream: TcpStream,
    tls: Option<TlsServer>,
    edge: Arc<Edge>,
    shutdown: &Shutdown,
) {
    let _connected = edge.metrics.connected();
    if forebay_zerocopy::prepare(&stream).is_err() {
        return; // It is gone already.
    }
    let transport = Transport::new(stream, edge.clock.clone());
    let Some(tls) = tls else {
        let pass = transport.pipe_pass();
        return requests(transport, edge, Some(pass), shutdown).await;
    };
    let handshake = timeout(&*edge.clock, HANDSHAKE_TIMEOUT, tls.accept(transport));
    let encrypted = tokio::select! {
        encrypted = handshake => encrypted,
        () = shutdown.begun() => return,
    };
    match encrypted {
        Ok(Ok(encrypted)) => requests(encrypted, edge, None, shutdown).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

/// Answers the requests of a connection until it ends.
async fn requests<Io>(io: Io, edge: Arc<Edge>, pass: Option<PipePass>, shutdown: &Shutdown)
where
    Io: Read + Write + Unpin,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let edge = edge.clone();
        async move { Ok::<_, Infallible>(edge.answer(request, pass).await) }
    });
    let mut connection = pin!(http().serve_connection(io, service));
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
