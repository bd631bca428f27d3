//! A worker's life: listen, put together, ask the origins, serve, hand over, drain, close.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use forebay_meta::Voter;
use forebay_peer::EpochNews;
use forebay_rt::{Shutdown, Task, timeout};
use forebay_s3::Edge;
use forebay_store::Store;
use forebay_telemetry::Exporter;
use forebay_zerocopy::ListenOptions;
use tokio::sync::watch;

use crate::cluster::{Cluster, Inside, Joining, Neighbours};
use crate::config::rules::parse;
use crate::config::{Environment, WorkerConfig};
use crate::error::StartError;
use crate::live_rules::{LiveRules, RulesSource};
use crate::origins::Origins;
use crate::port::Port;
use crate::state::Shared;
use crate::status::State;
use crate::tls_port::TlsPort;
use crate::wiring::{self, Runtime};
use crate::{admin, identity, process, voter};

/// How often histograms are folded when nobody scrapes; between, they grow with each request.
const UPKEEP_EVERY: Duration = Duration::from_secs(15);

/// A disk that hangs must not keep the process from ending.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// The share of the time for draining that handing over may take.
const HAND_OVER_SHARE: f64 = 0.8;

/// How often fills are looked at while they are waited for.
const FILLS_POLL: Duration = Duration::from_millis(5);

/// A running worker.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    admin_addr: SocketAddr,
    data_addr: Option<SocketAddr>,
    tls_addr: Option<SocketAddr>,
    drain: Duration,
    shutdown: Shutdown,
    /// The listeners of the S3 ports.
    edges: Vec<Task<()>>,
    voter: Option<Arc<Voter>>,
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

/// The ports of a worker.
struct Ports {
    s3: Port,
    tls: Option<TlsPort>,
    admin: Port,
    data: Option<Port>,
}

impl Ports {
    fn take(config: &WorkerConfig, admin: SocketAddr) -> Result<Self, StartError> {
        let congestion = config.congestion.clone();
        let options = ListenOptions { congestion, ..Default::default() };
        let data = config.cluster.as_ref().map(|cluster| Port::take(cluster.data_listen, &options));
        Ok(Self {
            s3: Port::take(config.listen, &options)?,
            tls: config.tls.as_ref().map(|tls| TlsPort::take(tls, &options)).transpose()?,
            admin: Port::take(admin, &ListenOptions::default())?,
            data: data.transpose()?,
        })
    }
}

impl Worker {
    /// Starts a worker; when this returns, it serves.
    ///
    /// Ports are taken first, so that a second worker fails before it touches the store. An
    /// origin that does not answer is a warning: what is cached can be served without it. One
    /// that refuses us, or has no such bucket, is a mistake and ends the start. Voters that do
    /// not answer are no mistake: the worker serves alone, or by the last ring that it knew.
    pub(crate) async fn start(
        config: WorkerConfig,
        admin_listen: SocketAddr,
        drain: Duration,
    ) -> Result<Self, StartError> {
        let runtime = Runtime::of_machine();
        process::raise_file_limit();
        // First of all: what is recorded without a recorder is lost.
        let exporter = wiring::exporter()?;
        process::record_start(runtime.clock.as_ref());
        let ports = Ports::take(&config, admin_listen)?;
        let Parts { shared, edge, voter, news } =
            Parts::build(&config, &ports, exporter, &runtime).await?;
        let Ports { s3, tls, admin, data } = ports;
        let data_addr = data.as_ref().map(|port| port.addr);
        let tls_addr = tls.as_ref().map(TlsPort::addr);
        // Before the origins are asked, so that an orchestrator sees what is waited for.
        let mut background = Background(vec![
            forebay_rt::spawn(admin::serve(admin.listener, shared.clone())),
            forebay_rt::spawn(keep_up(shared.clone())),
        ]);
        first_rules(&config, &shared, &edge, &runtime).await?;

        let shutdown = Shutdown::new();
        if let (Some(cluster), Some(port), Some(news)) = (&shared.cluster, data, news) {
            let Shared { cache, store, rules, .. } = &*shared;
            let inside = Inside { cache, store, rules };
            let tasks = cluster.serve(port.listener, news, &inside, &runtime, &shutdown);
            background.0.extend(tasks);
        }
        background.0.extend(follow_rules(&config, &shared, &edge, &runtime));
        let watched = voter.iter().map(|voter| watch_voter(voter.clone(), shutdown.clone()));
        background.0.extend(watched.map(forebay_rt::spawn));
        tracing::info!(s3 = %s3.addr, admin = %admin.addr, congestion = s3.congestion, "serving");
        let mut edges = Vec::new();
        if let Some(tls) = tls {
            let served = tls.serve(edge.clone(), shutdown.clone(), runtime.clock.clone());
            edges.push(served.clients);
            background.0.push(served.certificate);
        }
        edges.push(forebay_rt::spawn(forebay_s3::serve(s3.listener, edge, shutdown.clone())));
        shared.cluster.iter().for_each(Cluster::enter);
        shared.enter(State::Ready);
        Ok(Self {
            shared,
            admin_addr: admin.addr,
            data_addr,
            tls_addr,
            drain,
            shutdown,
            edges,
            voter,
            _background: background,
        })
    }

    /// Where it listens, as `name=address` words.
    pub(crate) fn addresses(&self) -> String {
        let (s3, admin) = (self.shared.s3, self.admin_addr);
        let data = self.data_addr.map(|data| format!(" data={data}")).unwrap_or_default();
        let control = self.voter.as_ref().map(|voter| format!(" control={}", voter.local_addr()));
        let control = control.unwrap_or_default();
        let tls = self.tls_addr.map(|tls| format!(" s3-tls=https://{tls}")).unwrap_or_default();
        format!("s3=http://{s3} admin=http://{admin}{data}{control}{tls}")
    }

    /// Serves until `stop` completes, then hands over, finishes what is in flight and closes
    /// the store.
    pub(crate) async fn run_until(self, stop: impl Future<Output = ()>) {
        stop.await;
        self.shared.enter(State::Draining);
        let in_flight = self.shutdown.in_flight();
        tracing::info!(in_flight, limit_s = self.drain.as_secs(), "draining");
        let deadline = self.shared.clock.now() + self.drain;
        self.hand_over().await;
        self.shutdown.begin();
        let left = deadline.saturating_duration_since(self.shared.clock.now());
        if timeout(&*self.shared.clock, left, self.drained()).await.is_err() {
            let (in_flight, fills) = (self.shutdown.in_flight(), self.shared.fills_in_flight());
            tracing::warn!(in_flight, fills, "ending in the midst of work: drain_seconds are over");
        }
        self.edges.iter().for_each(Task::abort);
        if let Some(voter) = &self.voter {
            voter.shutdown().await;
        }
        if timeout(&*self.shared.clock, CLOSE_LIMIT, self.shared.store.close()).await.is_err() {
            // No harm: the store recovers what its disks hold, as after a crash.
            tracing::warn!("ending with the store still closing: a disk hangs");
        }
        tracing::info!("stopped");
    }

    /// Clients and peers are served meanwhile. Most of the time that draining may take: the rest
    /// is for what is in flight at the end.
    async fn hand_over(&self) {
        let Some(cluster) = &self.shared.cluster else { return };
        let limit = self.drain.mul_f64(HAND_OVER_SHARE);
        if timeout(&*self.shared.clock, limit, cluster.hand_over()).await.is_err() {
            let progress = cluster.status().handed_over;
            tracing::warn!(?progress, "not all was handed over: the rest comes from the origin");
        }
    }

    /// Clients first; then fills, which may still be storing what clients have had already.
    async fn drained(&self) {
        self.shutdown.finished().await;
        while self.shared.fills_in_flight() > 0 {
            self.shared.clock.sleep(FILLS_POLL).await;
        }
    }
}

/// What a worker is made of, before any of it serves.
struct Parts {
    shared: Arc<Shared>,
    edge: Arc<Edge>,
    voter: Option<Arc<Voter>>,
    news: Option<EpochNews>,
}

impl Parts {
    async fn build(
        config: &WorkerConfig,
        ports: &Ports,
        exporter: Exporter,
        runtime: &Runtime,
    ) -> Result<Self, StartError> {
        let store = wiring::open_store(&config.disks, runtime)?;
        let Joined { cluster, news, voter } = join(config, &store, ports, runtime).await?;
        let rules = LiveRules::new(Arc::new(Origins::default()));
        let neighbours =
            cluster.as_ref().map_or_else(|| Neighbours::none(runtime), |c| c.neighbours(runtime));
        let cache = wiring::cache(config.cache, &store, &rules.origins, neighbours, runtime);
        let ring_page = cluster.as_ref().map(|cluster| cluster.ring_page(&rules));
        let apps = exporter.apps().clone();
        let edge = wiring::edge(&config.domains, cache.clone(), &rules, ring_page, apps, runtime);
        let shared = Arc::new(Shared {
            clock: runtime.clock.clone(),
            started: runtime.clock.now(),
            s3: ports.s3.addr,
            exporter,
            store,
            cache,
            rules,
            cluster,
            state: watch::Sender::new(State::Starting),
        });
        Ok(Self { shared, edge, voter, news })
    }
}

/// A worker's place among others; all of it absent where it is alone.
#[derive(Default)]
struct Joined {
    cluster: Option<Cluster>,
    news: Option<EpochNews>,
    voter: Option<Arc<Voter>>,
}

/// Takes the worker's place among others, with a voter beside it where there is to be one.
async fn join(
    config: &WorkerConfig,
    store: &Store,
    ports: &Ports,
    runtime: &Runtime,
) -> Result<Joined, StartError> {
    let (Some(cluster), Some(data)) = (&config.cluster, &ports.data) else {
        return Ok(Joined::default());
    };
    let (voter, own_voter) = match &cluster.meta {
        Some(meta) => Some(voter::start(meta, runtime).await?),
        None => None,
    }
    .unzip();
    let disks: Vec<&Path> = config.disks.iter().map(|disk| disk.path.as_path()).collect();
    let joining = Joining {
        id: identity::establish(&disks, &*runtime.rng)?,
        data: data.addr,
        s3: ports.s3.addr,
        capacity_bytes: store.status().iter().map(|disk| disk.capacity_bytes).sum(),
        kept_in: disks[0].to_owned(),
        own_voter,
    };
    let (cluster, news) = Cluster::join(cluster, joining, runtime);
    Ok(Joined { cluster: Some(cluster), news: Some(news), voter: voter.map(Arc::new) })
}

/// The rules to begin with: the cluster's, as far as they are known already, or the file's.
async fn first_rules(
    config: &WorkerConfig,
    shared: &Shared,
    edge: &Edge,
    runtime: &Runtime,
) -> Result<(), StartError> {
    let agreed = shared.cluster.as_ref().and_then(|cluster| cluster.views().borrow().rules.clone());
    let agreed = agreed.and_then(|rules| parse(&rules.toml, &Environment::of_process()).ok());
    match agreed.map(|(rules, _)| rules).as_ref().or(config.rules.as_ref()) {
        Some(rules) => shared.rules.apply(rules, edge, runtime).await,
        None => Ok(()),
    }
}

/// Sees to it that rules change while the worker runs, if they can.
fn follow_rules(
    config: &WorkerConfig,
    shared: &Shared,
    edge: &Arc<Edge>,
    runtime: &Runtime,
) -> Option<Task<()>> {
    let views = shared.cluster.as_ref().map(Cluster::views);
    let source = RulesSource { file: config.rules_file.clone(), views };
    if source.file.is_none() && source.views.is_none() {
        return None;
    }
    let followed = shared.rules.clone().follow(source, edge.clone(), runtime.clone());
    Some(forebay_rt::spawn(followed))
}

/// A worker goes on serving without the voter beside it; the others vote on.
async fn watch_voter(voter: Arc<Voter>, shutdown: Shutdown) {
    tokio::select! {
        reason = voter.failed() => {
            tracing::error!(reason, "the voter here takes no part any more: restart the process");
        }
        () = shutdown.begun() => {}
    }
}

async fn keep_up(shared: Arc<Shared>) {
    loop {
        shared.clock.sleep(UPKEEP_EVERY).await;
        shared.exporter.upkeep(shared.clock.now());
    }
}
