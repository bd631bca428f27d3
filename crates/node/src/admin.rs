//! The admin port: metrics, health, status. Never objects.
//!
//! It answers from start to the last moment of a drain, so that an orchestrator sees why the
//! S3 port does not.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_rt::Clock;
use forebay_zerocopy::accept;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::status::State;

/// A scraper or two, a probe, a person: more than this is a mistake or an attack.
const MAX_CONNECTIONS: usize = 64;
/// For a request's head, and for the next one on an idle connection.
const HEAD_LIMIT: Duration = Duration::from_secs(15);

/// What the admin port of a process tells.
pub(crate) trait Pages: Send + Sync + 'static {
    fn clock(&self) -> &dyn Clock;
    /// In the text format of Prometheus.
    fn metrics(&self) -> String;
    /// As JSON.
    fn status(&self) -> serde_json::Result<String>;
    /// Where the process is in its life.
    fn state(&self) -> State;
}

/// Serves the admin port for as long as the task lives.
pub(crate) async fn serve(listener: TcpListener, pages: Arc<dyn Pages>) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // Never closed, so always granted.
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let (stream, _) = accept(&listener, pages.clock()).await;
        let pages = pages.clone();
        forebay_rt::spawn(async move {
            serve_connection(stream, pages).await;
            drop(slot);
        });
    }
}

async fn serve_connection(stream: TcpStream, pages: Arc<dyn Pages>) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let response = answer(&request, &*pages);
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

fn answer(request: &Request<Incoming>, pages: &dyn Pages) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    }
    match request.uri().path() {
        "/metrics" => page("text/plain; version=0.0.4; charset=utf-8", pages.metrics()),
        "/status" => match pages.status() {
            Ok(json) => page("application/json", json),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
        },
        "/healthz" => text(StatusCode::OK, "ok\n"),
        "/readyz" if pages.state() == State::Ready => text(StatusCode::OK, "ready\n"),
        "/readyz" => text(StatusCode::SERVICE_UNAVAILABLE, &format!("{}\n", pages.state())),
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
