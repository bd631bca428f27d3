//! A cluster of real processes: voters and workers, started, watched, killed, started again.
//!
//! Addresses are fixed before anything starts, so that a process that comes back is found
//! where it was: each cluster has a network of its own, below 127.0.0.0/8 or in network
//! namespaces.

mod member;
mod network;
mod plan;

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_rt::{Clock, SystemClock};
use serde_json::Value;

pub use self::member::{Member, MemberError};
pub use self::network::{Host, Namespaces, Network, NetworkError};
pub use self::plan::ClusterPlan;

/// How often a state that is waited for is looked at.
const POLL: Duration = Duration::from_millis(50);

/// Voters and workers.
#[derive(Debug)]
pub struct Cluster {
    /// Voters, in the order of their ids.
    pub voters: Vec<Member>,
    /// Workers.
    pub workers: Vec<Member>,
    plan: ClusterPlan,
}

/// The cluster did not become what was waited for.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A process.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// Its files.
    #[error("write {}: {source}", path.display())]
    Files {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Time.
    #[error("{what} did not come true within {limit:?}; last seen: {seen}")]
    Late {
        /// What was waited for.
        what: String,
        /// For how long.
        limit: Duration,
        /// The last status.
        seen: String,
    },
}

impl Cluster {
    /// Starts all processes and waits until every worker is in the ring of every worker.
    pub async fn start(plan: ClusterPlan) -> Result<Self, ClusterError> {
        let mut cluster = Self::plan(plan)?;
        for member in cluster.voters.iter_mut().chain(&mut cluster.workers) {
            member.launch()?;
        }
        for member in cluster.voters.iter_mut().chain(&mut cluster.workers) {
            member.listening().await?;
        }
        let all = cluster.workers.len();
        cluster.until_active(all).await?;
        Ok(cluster)
    }

    /// Writes the files of all processes and starts none.
    pub fn plan(plan: ClusterPlan) -> Result<Self, ClusterError> {
        let voters = (0..plan.voters).map(|index| plan.voter(index)).collect::<Result<_, _>>()?;
        let workers =
            (0..plan.workers).map(|index| plan.worker(index)).collect::<Result<_, _>>()?;
        Ok(Self { voters, workers, plan })
    }

    /// Where the files of the cluster lie.
    pub fn dir(&self) -> &Path {
        &self.plan.dir
    }

    /// Adds a worker and starts it. It joins the ring by itself.
    pub async fn add_worker(&mut self) -> Result<usize, ClusterError> {
        let index = self.workers.len();
        let mut worker = self.plan.worker(index)?;
        worker.launch()?;
        worker.listening().await?;
        self.workers.push(worker);
        Ok(index)
    }

    /// Waits until each running worker knows `count` active workers and vouches for its share.
    pub async fn until_active(&self, count: usize) -> Result<(), ClusterError> {
        let what = format!("{count} active workers in the view of every worker");
        self.until(&what, Duration::from_secs(30), |cluster| {
            let states = cluster["workers"].as_array().into_iter().flatten();
            states.filter(|worker| worker["state"] == "active").count() == count
        })
        .await
    }

    /// Waits until the cluster part of each running worker's status is as `is_so` wants it.
    pub async fn until(
        &self,
        what: &str,
        limit: Duration,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<(), ClusterError> {
        let deadline = SystemClock.now() + limit;
        loop {
            let mut seen = Value::Null;
            let mut all = true;
            for worker in self.workers.iter().filter(|worker| worker.is_running()) {
                seen =
                    worker.status().await.map_or(Value::Null, |status| status["cluster"].clone());
                if !is_so(&seen) {
                    all = false;
                    break;
                }
            }
            if all {
                return Ok(());
            }
            if SystemClock.now() >= deadline {
                return Err(ClusterError::Late {
                    what: what.into(),
                    limit,
                    seen: seen.to_string(),
                });
            }
            SystemClock.sleep(POLL).await;
        }
    }

    /// The voter that leads, by its own account.
    pub async fn leader(&self) -> Option<usize> {
        for (index, voter) in self.voters.iter().enumerate().filter(|(_, voter)| voter.is_running())
        {
            if voter.metric("forebay_raft_is_leader", "").await.is_ok_and(|leads| leads > 0.0) {
                return Some(index);
            }
        }
        None
    }

    /// The file with the cluster secret.
    pub fn secret_file(&self) -> PathBuf {
        self.plan.secret_file()
    }

    /// Command line arguments that let `forebay ring` and `forebay meta` reach the voters.
    pub fn control_args(&self) -> [String; 4] {
        let voters: Vec<_> = self.voters.iter().map(Member::control_addr).collect();
        let secret = self.secret_file().display().to_string();
        ["--voters".into(), voters.join(","), "--secret-file".into(), secret]
    }
}
