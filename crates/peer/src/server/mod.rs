//! The data port: accepts connections, admits peers, and serves HTTP/1.1 on each.
//!
//! The same transport as the S3 port: bytes that are tokens of a file leave by `sendfile`.

mod answer;
mod body;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use forebay_rt::{SharedClock, SharedRng, Shutdown, spawn, timeout};
use forebay_wire::gate::{Gate, Turn};
use forebay_wire::{ClusterSecret, Handshake, HandshakeError, Purpose};
use forebay_zerocopy::{Transport, accept};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioTimer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use self::answer::Services;
use crate::limits::{HEAD_BYTES_MAX, HEADERS_MAX, SERVER_BUFFER_BYTES, ServerLimits};
use crate::metrics::{Refusal, ServerMetrics};
use crate::service::{OwnerService, ShelfService};

/// What the data port needs to know.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// What peers prove that they hold.
    pub secret: ClusterSecret,
    /// Its bounds.
    pub limits: ServerLimits,
    /// Time.
    pub clock: SharedClock,
    /// Chance. Nobody must be able to choose what it draws.
    pub rng: SharedRng,
}

/// Serves until shutdown begins, then stops accepting. Connections finish what they have
/// begun, and count as busy until then. The metrics recorder has to be there before.
pub async fn serve(
    listener: TcpListener,
    config: ServerConfig,
    owner: Arc<dyn OwnerService>,
    shelf: Arc<dyn ShelfService>,
    shutdown: Shutdown,
) {
    let mut gate = Gate::new(config.limits.handshakes);
    let port = Arc::new(Port::new(config, Services { owner, shelf }));
    loop {
        let stream = tokio::select! {
            (stream, _) = accept(&listener, &*port.clock) => stream,
            () = shutdown.begun() => return,
        };
        let (port, turn, shutdown) = (port.clone(), gate.enter(), shutdown.clone());
        spawn(async move { port.connection(stream, turn, &shutdown).await });
    }
}

/// What all connections share.
struct Port {
    handshake: Handshake,
    places: Arc<Semaphore>,
    limits: ServerLimits,
    clock: SharedClock,
    services: Arc<Services>,
    metrics: Arc<ServerMetrics>,
}

impl Port {
    fn new(config: ServerConfig, services: Services) -> Self {
        let ServerConfig { secret, limits, clock, rng } = config;
        Self {
            handshake: Handshake::new(secret, clock.clone(), rng),
            places: Arc::new(Semaphore::new(limits.connections)),
            limits,
            clock,
            services: Arc::new(services),
            metrics: Arc::new(ServerMetrics::new()),
        }
    }

    async fn connection(&self, mut stream: TcpStream, turn: Turn, shutdown: &Shutdown) {
        if forebay_zerocopy::prepare(&stream).is_err() {
            return; // It is gone already.
        }
        let admitted = tokio::select! {
            admitted = self.admit(&mut stream) => admitted,
            () = turn.over() => Err(Refusal::CrowdedOut),
            () = shutdown.begun() => return,
        };
        let place = admitted
            .and_then(|()| self.places.clone().try_acquire_owned().map_err(|_| Refusal::Full));
        match place {
            Ok(_place) => self.talk(stream, shutdown).await,
            Err(refusal) => self.metrics.refused(refusal),
        }
    }

    async fn admit(&self, stream: &mut TcpStream) -> Result<(), Refusal> {
        let from = stream.peer_addr().ok();
        let admission = self.handshake.admit(stream, Purpose::Data);
        let admitted = timeout(&*self.clock, self.limits.handshake, admission).await;
        let Err(error) = admitted.unwrap_or(Err(HandshakeError::TimedOut)) else { return Ok(()) };
        if let HandshakeError::Secret | HandshakeError::Version { .. } = error {
            tracing::warn!(?from, %error, "the data port refused a connection");
        }
        Err(Refusal::from(&error))
    }

    /// One ask after the other, until the peer has no more.
    async fn talk(&self, stream: TcpStream, shutdown: &Shutdown) {
        let _busy = shutdown.busy();
        let _connected = self.metrics.connected();
        let transport = Transport::with_stall_limit(stream, self.clock.clone(), self.limits.stall);
        let service = service_fn(|request| async {
            Ok::<_, Infallible>(self.services.answer(request, &*self.clock).await)
        });
        let mut connection = pin!(self.http().serve_connection(transport, service));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = shutdown.begun() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection of a peer ended with an error");
        }
    }

    fn http(&self) -> http1::Builder {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(self.limits.idle)
            .max_headers(HEADERS_MAX)
            .max_header_size(HEAD_BYTES_MAX)
            .max_buf_size(SERVER_BUFFER_BYTES)
            .auto_date_header(false)
            .writev(true);
        http
    }
}
