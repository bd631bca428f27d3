//! One voter: its directory, its place in the group, its control port.
//!
//! Everything runs in tasks that end with [`Voter::shutdown`].

mod connections;
mod form;
mod group;
mod report;
mod serve;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use forebay_rt::{SharedClock, SharedRng, Shutdown, spawn, spawn_blocking, timeout};
use forebay_wire::{ClusterSecret, Handshake};
use tokio::net::TcpListener;

pub(crate) use group::{Group, stopped};

use crate::leader::Leadership;
use crate::limits::SHUTDOWN_TIME_MAX;
use crate::metrics::Metrics;
use crate::raft::{self, Db, DbError, Identity, LogStore, Machine, Network, Raft};

/// What a voter needs.
#[derive(Debug)]
pub struct VoterConfig {
    /// Its id in the group. Never that of a voter that lost its directory.
    pub id: u64,
    /// Its directory, which is its memory of how it voted.
    pub dir: PathBuf,
    /// Its control port.
    pub listener: TcpListener,
    /// `host:port` under which others reach the control port.
    pub advertise: String,
    /// The voters that form the group when none exists, by id and address. Plays no part later.
    pub initial_voters: Vec<(u64, String)>,
    /// Of the cluster.
    pub secret: ClusterSecret,
    /// Patience.
    pub timings: Timings,
    /// Time.
    pub clock: SharedClock,
    /// Chance. Nobody must be able to choose what it draws.
    pub rng: SharedRng,
}

/// How often, and how long. Only tests need others than the default.
#[derive(Debug, Clone, Copy)]
pub struct Timings {
    /// From one sign of life of the leader to the next; also what a voter has to answer one.
    pub raft_heartbeat: Duration,
    /// A voter that has not heard of a leader for `election_max` (the leader's lease) and a time
    /// between these two on top stands for election.
    pub election_min: Duration,
    /// See `election_min`.
    pub election_max: Duration,
    /// Entries of the log between two snapshots. A fifth of it is kept behind the last one.
    pub snapshot_logs: u64,
    /// From one confirmation by a majority that this voter leads to the next.
    pub confirm_every: Duration,
    /// A leader that was not confirmed for so long answers no heartbeat.
    pub quorum_age_max: Duration,
    /// Silence after which a worker is down.
    pub down_after: Duration,
    /// After it began to lead, a leader takes nobody for down.
    pub grace: Duration,
    /// A worker that is down for so long is forgotten.
    pub forget_after: Duration,
    /// For how long news of workers are gathered, to begin one epoch for all of them.
    pub gather: Duration,
    /// From one message of a watch to the next, at most.
    pub watch_keep_alive: Duration,
}

impl Default for Timings {
    /// A leader that dies is replaced after 1.5 to 2.4 s.
    fn default() -> Self {
        Self {
            raft_heartbeat: Duration::from_millis(250),
            election_min: Duration::from_millis(500),
            election_max: Duration::from_millis(1000),
            snapshot_logs: 500,
            confirm_every: Duration::from_millis(250),
            quorum_age_max: Duration::from_secs(2),
            down_after: Duration::from_secs(5),
            grace: Duration::from_secs(10),
            forget_after: Duration::from_secs(24 * 3600),
            gather: Duration::from_millis(100),
            watch_keep_alive: Duration::from_secs(5),
        }
    }
}

/// Why a voter does not start.
#[derive(Debug, thiserror::Error)]
pub enum VoterError {
    /// The directory cannot be used: see the message.
    #[error("open the voter's directory {dir}")]
    Open {
        /// Which.
        dir: PathBuf,
        /// Why.
        #[source]
        source: DbError,
    },
    /// Configure the id or the directory that belongs to it.
    #[error("the directory {dir} is that of voter {of}, not of voter {id}")]
    OtherVoter {
        /// Which.
        dir: PathBuf,
        /// Whose it is.
        of: u64,
        /// Who was to start.
        id: u64,
    },
    /// Mend the configuration.
    #[error("{0}")]
    Config(String),
    /// Its log is damaged, or this release cannot read it.
    #[error("start raft: {0}")]
    Raft(String),
    /// The control port is not usable.
    #[error("look up the control port's address")]
    Listener(#[source] io::Error),
}

/// A running voter.
pub struct Voter {
    group: Arc<Group>,
    local_addr: SocketAddr,
    shutdown: Shutdown,
}

impl Voter {
    /// Starts a voter. Returns before the group has been formed or found.
    pub async fn start(config: VoterConfig) -> Result<Self, VoterError> {
        check(&config)?;
        let local_addr = config.listener.local_addr().map_err(VoterError::Listener)?;
        let group = Arc::new(open(&config).await?);
        let leadership = Arc::new(Leadership::default());
        let voter = Self { group, local_addr, shutdown: Shutdown::new() };
        voter.serve(leadership.clone(), config.listener);
        voter.run(crate::leader::lead(voter.group.clone(), leadership));
        voter.run(form::join(voter.group.clone(), config.initial_voters));
        voter.run(report::run(voter.group.clone()));
        Ok(voter)
    }

    /// Where its control port listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Completes when this voter takes no part in the group any more although it was not shut
    /// down, and says why. Its process should end, to be started again.
    pub async fn failed(&self) -> String {
        let mut metrics = self.group.raft.metrics();
        let failed = metrics.wait_for(|metrics| metrics.running_state.is_err()).await;
        let why =
            failed.ok().and_then(|metrics| Some(metrics.running_state.as_ref().err()?.to_string()));
        why.unwrap_or_else(|| "raft has ended".to_owned())
    }

    /// Leaves in order: streams end, the log is closed. The group elects another leader.
    pub async fn shutdown(&self) {
        self.shutdown.begin();
        let group = &self.group;
        if group.raft.shutdown().await.is_err() {
            tracing::error!("raft panicked");
        }
        if timeout(&*group.clock, SHUTDOWN_TIME_MAX, self.shutdown.finished()).await.is_err() {
            tracing::warn!("left with requests under way");
        }
        group.db.close();
    }

    /// Serves until shutdown begins, and then until what is under way has ended.
    fn serve(&self, leadership: Arc<Leadership>, listener: TcpListener) {
        let (shutdown, busy) = (self.shutdown.clone(), self.shutdown.busy());
        let served = serve::serve(self.group.clone(), leadership, listener, shutdown);
        spawn(async move {
            served.await;
            drop(busy);
        });
    }

    /// Runs a task that ends no later than this voter.
    fn run(&self, task: impl Future<Output = ()> + Send + 'static) {
        let (shutdown, busy) = (self.shutdown.clone(), self.shutdown.busy());
        spawn(async move {
            tokio::select! {
                () = task => {}
                () = shutdown.begun() => {}
            }
            drop(busy);
        });
    }
}

impl Drop for Voter {
    fn drop(&mut self) {
        self.shutdown.begin();
    }
}

fn check(config: &VoterConfig) -> Result<(), VoterError> {
    let mut ids: Vec<u64> = config.initial_voters.iter().map(|(id, _)| *id).collect();
    ids.sort_unstable();
    if !ids.is_sorted_by(|one, next| one < next) {
        return Err(VoterError::Config("two initial voters have the same id".to_owned()));
    }
    Ok(())
}

async fn open(config: &VoterConfig) -> Result<Group, VoterError> {
    let (dir, rng, id) = (config.dir.clone(), config.rng.clone(), config.id);
    let opened = spawn_blocking(move || {
        let db = Arc::new(Db::open(&dir)?);
        let identity = match Identity::read(&db)? {
            Some(identity) => identity,
            None => Identity::write(&db, id, &*rng)?,
        };
        Ok((identity, Machine::open(db.clone())?, db))
    });
    let (identity, machine, db) = opened
        .await
        .unwrap_or(Err(DbError::Closed))
        .map_err(|source| VoterError::Open { dir: config.dir.clone(), source })?;
    if identity.id != id {
        return Err(VoterError::OtherVoter { dir: config.dir.clone(), of: identity.id, id });
    }
    begin(config, identity, machine, db).await
}

async fn begin(
    config: &VoterConfig,
    identity: Identity,
    machine: Machine,
    db: Arc<Db>,
) -> Result<Group, VoterError> {
    let clock = config.clock.clone();
    let handshake = Handshake::new(config.secret.clone(), clock.clone(), config.rng.clone());
    let (network, metrics) =
        (Network::new(handshake.clone(), clock.clone()), Arc::new(Metrics::new()));
    let raft_config = raft::config(&config.timings)
        .map_err(|why| VoterError::Config(format!("timings: {why}")))?;
    let published = machine.watch();
    let log = LogStore::new(db.clone(), clock.clone(), metrics.clone());
    let raft = Raft::new(identity.id, Arc::new(raft_config), network.clone(), log, machine).await;
    Ok(Group {
        identity,
        addr: config.advertise.clone(),
        raft: raft.map_err(|fatal| VoterError::Raft(fatal.to_string()))?,
        published,
        db,
        network,
        handshake,
        timings: config.timings,
        metrics,
        clock,
    })
}
