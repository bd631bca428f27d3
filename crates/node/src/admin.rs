//! The admin port: metrics, health, status. Never objects.
//!
//! It answers from start to the last moment of a drain, so that an orchestrator sees why the
//! S3 port does not.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::state::Shared;

/// A scraper or two, a probe, a person: more than this is a mistake or an attack.
const MAX_CONNECTIONS: usize = 64;
/// For a request's head, and for the next one on an idle connection.
const HEAD_LIMIT: Duration = Duration::from_secs(15);
/// After a failed accept (no file handle left), others get a chance to end first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves the admin port for as long as the task lives.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // Never closed, so always granted.
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let shared = shared.clone();
                forebay_rt::spawn(async move {
                    serve_connection(stream, shared).await;
                    drop(slot);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accept on the admin port");
                shared.clock().sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve_connection(stream: TcpStream, shared: Arc<Shared>) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let response = answer(&request, &shared);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .serve_connection(TokioIo::new(stream), answer);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "admin connection");
    }
}

fn answer(request: &Request<Incoming>, shared: &Shared) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    }
    match request.uri().path() {
        "/metrics" => page("text/plain; version=0.0.4; charset=utf-8", shared.metrics_page()),
        "/status" => match serde_json::to_string(&shared.status()) {
            Ok(json) => page("application/json", json),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
        },
        "/healthz" => text(StatusCode::OK, "ok\n"),
        "/readyz" if shared.is_ready() => text(StatusCode::OK, "ready\n"),
        "/readyz" => text(StatusCode::SERVICE_UNAVAILABLE, &format!("{}\n", shared.state())),
        _ => text(StatusCode::NOT_FOUND, "try /metrics, /status, /healthz or /readyz\n"),
    }
}

fn text(status: StatusCode, body: &str) -> Response<Full<Bytes>> {
    let mut response = page("text/plain; charset=utf-8", body.to_owned());
    *response.status_mut() = status;
    response
}

fn page(content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}
