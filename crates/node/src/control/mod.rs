//! What operators ask of a cluster's voters: how it is, and changes of it.
//!
//! For the binary, which knows neither Raft nor gRPC. A worker is named as its operator knows
//! it: by its id, the beginning of its id, or an address.

mod status;
mod which;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use forebay_meta::admin::{Admin, AdminError};
use forebay_rt::{SharedClock, SharedRng, SystemClock, SystemRng};
use forebay_types::{RingConfig, Rules, WorkerState};
use tokio::fs::{self, OpenOptions};

use crate::config::ControlConfig;

pub use forebay_meta::{Restore, RestoreError, Restored};
pub use status::{ClusterStatus, RingStatus, Role, SCHEMA, Said, VoterLine, WorkerLine};

/// Until a drained worker must be out of the ring: a change takes effect when it is agreed on.
const DRAIN_LIMIT: Duration = Duration::from_secs(30);
const DRAIN_POLL: Duration = Duration::from_millis(250);

/// The voters of a cluster, ready to be asked.
#[derive(Debug)]
pub struct Control {
    config: ControlConfig,
    admin: Admin,
    clock: SharedClock,
    rng: SharedRng,
}

/// Why something was not learnt or done.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The voters, or the way to them.
    #[error(transparent)]
    Voters(#[from] AdminError),
    /// No worker is called that.
    #[error(
        "no worker is called {given:?}: name one of {known} by the beginning of its id or by an address"
    )]
    NoSuchWorker {
        /// What was asked for.
        given: String,
        /// Those that there are.
        known: String,
    },
    /// Several workers are called that.
    #[error("{given:?} may be any of {found}: write more of the id")]
    SeveralWorkers {
        /// What was asked for.
        given: String,
        /// Those that it may be.
        found: String,
    },
    /// The group has no such voter.
    #[error("no voter has the number {id}: see `forebay meta members`")]
    NoSuchVoter {
        /// What was asked for.
        id: u64,
    },
    /// Another voter than was meant.
    #[error(
        "the voter at {addr} has the number {found}, not {given}: correct the number or the address"
    )]
    OtherVoter {
        /// Where it was looked for.
        addr: String,
        /// Who answers there.
        found: u64,
        /// Who was meant.
        given: u64,
    },
    /// The worker is as it was.
    #[error("worker {worker} is still {state} after {} s: see `forebay status`", DRAIN_LIMIT.as_secs())]
    NotDrained {
        /// Its id.
        worker: String,
        /// What it is to the ring.
        state: &'static str,
    },
    /// The file cannot be written.
    #[error("write {path}: {source}: name a new file in a directory that you can write", path = .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl ControlError {
    /// Whether what was typed names nothing, or something else than was meant.
    pub fn is_misnamed(&self) -> bool {
        match self {
            Self::NoSuchWorker { .. }
            | Self::SeveralWorkers { .. }
            | Self::NoSuchVoter { .. }
            | Self::OtherVoter { .. } => true,
            Self::Voters(_) | Self::NotDrained { .. } | Self::Write { .. } => false,
        }
    }
}

impl Control {
    /// Connects with the first request.
    pub fn new(config: ControlConfig) -> Self {
        let (clock, rng): (SharedClock, SharedRng) = (Arc::new(SystemClock), Arc::new(SystemRng));
        let admin = Admin::new(&config.voters, config.secret.clone(), clock.clone(), &rng);
        Self { config, admin, clock, rng }
    }

    /// The cluster as its voters tell of it; an error only where none of them answers.
    pub async fn status(&self) -> Result<ClusterStatus, ControlError> {
        Ok(ClusterStatus::of(self.admin.status().await)?)
    }

    /// The one worker that `given` names.
    pub async fn worker(&self, given: &str) -> Result<WorkerLine, ControlError> {
        which::worker(self.status().await?.workers, given)
    }

    /// Takes a worker out of the ring; the revision with the change in it. It goes on answering
    /// for what it holds.
    pub async fn drain(&self, worker: &WorkerLine) -> Result<u64, ControlError> {
        Ok(self.admin.drain(worker.id).await?)
    }

    /// Waits until a drained worker is out of the ring.
    pub async fn until_drained(&self, worker: &WorkerLine) -> Result<(), ControlError> {
        let deadline = self.clock.now() + DRAIN_LIMIT;
        loop {
            let workers = self.status().await?.workers;
            let state = workers.iter().find(|line| line.id == worker.id).map(|line| line.state);
            // One that is forgotten meanwhile is out as well.
            let state = state.unwrap_or(WorkerState::Down.as_str());
            if state == WorkerState::Draining.as_str() || state == WorkerState::Down.as_str() {
                return Ok(());
            }
            if self.clock.now() >= deadline {
                return Err(ControlError::NotDrained { worker: worker.id.to_string(), state });
            }
            self.clock.sleep(DRAIN_POLL).await;
        }
    }

    /// Takes a worker back into the ring.
    pub async fn undrain(&self, worker: &WorkerLine) -> Result<u64, ControlError> {
        Ok(self.admin.undrain(worker.id).await?)
    }

    /// Forgets a worker for good. One that lives comes back with its next heartbeat.
    pub async fn forget(&self, worker: &WorkerLine) -> Result<u64, ControlError> {
        Ok(self.admin.forget_worker(worker.id).await?)
    }

    /// Changes how keys are spread. Most of what is cached will belong elsewhere.
    pub async fn set_ring(&self, virtual_nodes: u32, seed: u64) -> Result<u64, ControlError> {
        Ok(self.admin.set_ring(RingConfig { virtual_nodes, seed }).await?)
    }

    /// The cluster's rules and their version; `None` where each worker has its own.
    pub async fn rules(&self) -> Result<Option<Rules>, ControlError> {
        Ok(status::rules(self.admin.status().await)?)
    }

    /// Replaces the cluster's rules. Check them first: workers refuse what they cannot read.
    pub async fn set_rules(&self, toml: &str) -> Result<u64, ControlError> {
        Ok(self.admin.set_rules(toml).await?)
    }

    /// Makes the voter `id` at `addr`, which was started with an empty directory, one of the
    /// group.
    pub async fn add_voter(&self, id: u64, addr: &str) -> Result<u64, ControlError> {
        let found = self.voter_at(addr).await?;
        if found != id {
            return Err(ControlError::OtherVoter { addr: addr.into(), found, given: id });
        }
        Ok(self.admin.add_voter(addr).await?)
    }

    /// Takes a voter out of the group, dead or alive.
    pub async fn remove_voter(&self, id: u64) -> Result<u64, ControlError> {
        Ok(self.admin.remove_voter(id).await?)
    }

    /// Writes what the voters agree on into a new file; its size in bytes.
    pub async fn snapshot(&self, path: &Path) -> Result<u64, ControlError> {
        let failed = |source| ControlError::Write { path: path.into(), source };
        let mut file =
            OpenOptions::new().write(true).create_new(true).open(path).await.map_err(failed)?;
        let written = match self.admin.snapshot(&mut file).await {
            Ok(bytes) => file.sync_all().await.map(|()| bytes).map_err(failed),
            Err(error) => Err(error.into()),
        };
        if written.is_err() {
            // What is there of it restores nothing.
            let _ = fs::remove_file(path).await;
        }
        written
    }

    async fn voter_at(&self, addr: &str) -> Result<u64, ControlError> {
        let addrs = [addr.to_owned()];
        let admin = Admin::new(&addrs, self.config.secret.clone(), self.clock.clone(), &self.rng);
        let answers = admin.status().await.into_iter().filter(|(asked, _)| asked == addr).collect();
        Ok(status::only_id(answers)?)
    }
}

/// Makes the directory of the one voter of a new group, from what is left of an old one. Blocks.
pub fn restore(request: &Restore) -> Result<Restored, RestoreError> {
    forebay_meta::restore(request, &SystemRng)
}
