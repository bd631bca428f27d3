//! A worker's life: listen, put together, ask the origins, serve, drain, close.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use forebay_rt::{Shutdown, Task, timeout};
use forebay_zerocopy::{ListenOptions, Listening, listen};

use crate::config::Config;
use crate::error::StartError;
use crate::state::Shared;
use crate::status::State;
use crate::wiring::{Parts, Runtime, exporter};
use crate::{admin, probe, process};

/// How often histograms are folded when nobody scrapes; between, they grow with each request.
const UPKEEP_EVERY: Duration = Duration::from_secs(15);

/// A disk that hangs must not keep the process from ending.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// How often fills are looked at while they are waited for.
const FILLS_POLL: Duration = Duration::from_millis(5);

/// A running worker.
pub struct Worker {
    shared: Arc<Shared>,
    admin_addr: SocketAddr,
    drain: Duration,
    shutdown: Shutdown,
    /// Ends when the last client connection has.
    edge: Task<()>,
    /// Kept for its drop.
    _background: Background,
}

/// Tasks that end with the worker, or with a start that failed.
struct Background(Vec<Task<()>>);

impl Drop for Background {
    fn drop(&mut self) {
        self.0.iter().for_each(Task::abort);
    }
}

impl Worker {
    /// Starts a worker; when this returns, it serves.
    ///
    /// Ports are taken first, so that a second worker fails before it touches the store. An
    /// origin that does not answer is a warning: what is cached can be served without it. One
    /// that refuses us, or has no such bucket, is a mistake and ends the start.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let runtime = Runtime::of_machine();
        process::raise_file_limit();
        // First of all: what is recorded without a recorder is lost.
        let exporter = exporter()?;
        process::record_start(runtime.clock.as_ref());
        let congestion = config.congestion.clone();
        let s3 = take_port(config.listen, &ListenOptions { congestion, ..Default::default() })?;
        let admin = take_port(config.admin_listen, &ListenOptions::default())?;
        let parts = Parts::build(&config, &runtime).await?;
        let shared = Arc::new(parts.shared(&runtime, exporter, s3.addr));
        let background = Background(vec![
            forebay_rt::spawn(admin::serve(admin.listening.listener, shared.clone())),
            forebay_rt::spawn(keep_up(shared.clone())),
        ]);
        let found = probe::origins(&config, &parts.origins, runtime.clock.as_ref()).await?;
        shared.buckets.send_replace(found);

        tracing::info!(s3 = %s3.addr, admin = %admin.addr, congestion = s3.listening.congestion, "serving");
        let shutdown = Shutdown::new();
        let listener = s3.listening.listener;
        let edge = forebay_rt::spawn(forebay_s3::serve(listener, parts.edge, shutdown.clone()));
        shared.enter(State::Ready);
        Ok(Self {
            shared,
            admin_addr: admin.addr,
            drain: config.drain,
            shutdown,
            edge,
            _background: background,
        })
    }

    /// Where S3 clients are served.
    pub fn s3_addr(&self) -> SocketAddr {
        self.shared.s3
    }

    /// Where the admin endpoints are served.
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin_addr
    }

    /// Serves until `stop` completes, then finishes what is in flight and closes the store.
    pub async fn run_until(self, stop: impl Future<Output = ()>) {
        stop.await;
        self.shared.enter(State::Draining);
        let in_flight = self.shutdown.in_flight();
        tracing::info!(in_flight, limit_s = self.drain.as_secs(), "draining");
        self.shutdown.begin();
        if timeout(self.shared.clock(), self.drain, self.drained()).await.is_err() {
            let (in_flight, fills) = (self.shutdown.in_flight(), self.shared.fills_in_flight());
            tracing::warn!(in_flight, fills, "ending in the midst of work: drain_seconds are over");
        }
        self.edge.abort();
        if timeout(self.shared.clock(), CLOSE_LIMIT, self.shared.store.close()).await.is_err() {
            // No harm: the store recovers what its disks hold, as after a crash.
            tracing::warn!("ending with the store still closing: a disk hangs");
        }
        tracing::info!("stopped");
    }

    /// Clients first; then fills, which may still be storing what clients have had already.
    async fn drained(&self) {
        self.shutdown.finished().await;
        while self.shared.fills_in_flight() > 0 {
            self.shared.clock().sleep(FILLS_POLL).await;
        }
    }
}

struct Port {
    addr: SocketAddr,
    listening: Listening,
}

fn take_port(addr: SocketAddr, options: &ListenOptions) -> Result<Port, StartError> {
    let listening = listen(addr, options)?;
    // The port that was really taken, where any was asked for.
    let addr = listening.listener.local_addr().unwrap_or(addr);
    Ok(Port { addr, listening })
}

async fn keep_up(shared: Arc<Shared>) {
    loop {
        shared.clock().sleep(UPKEEP_EVERY).await;
        shared.exporter.upkeep();
    }
}
