//! A process that runs: a worker, a voter, or both.

use std::future::Future;

use crate::config::{Config, Role};
use crate::error::StartError;
use crate::voter::VoterProcess;
use crate::worker::Worker;

/// A running process.
pub struct Running(Kind);

enum Kind {
    Worker(Box<Worker>),
    Voter(Box<VoterProcess>),
}

impl Running {
    /// Starts what the configuration describes; when this returns, it serves.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        Ok(Self(match config.role {
            Role::Worker(worker) => {
                let started = Worker::start(*worker, config.admin_listen, config.drain).await?;
                Kind::Worker(Box::new(started))
            }
            Role::Voter(voter) => {
                Kind::Voter(Box::new(VoterProcess::start(&voter, config.admin_listen).await?))
            }
        }))
    }

    /// Where it listens, as `name=address` words.
    pub fn addresses(&self) -> String {
        match &self.0 {
            Kind::Worker(worker) => worker.addresses(),
            Kind::Voter(voter) => {
                format!("control={} admin=http://{}", voter.control_addr(), voter.admin_addr())
            }
        }
    }

    /// Serves until `stop` completes, then finishes what is in flight. False where it ended
    /// because it could not go on.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> bool {
        match self.0 {
            Kind::Worker(worker) => {
                worker.run_until(stop).await;
                true
            }
            Kind::Voter(voter) => voter.run_until(stop).await,
        }
    }
}
