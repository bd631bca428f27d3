//! The operators' side of the control port: looking at the cluster, and changing it.

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use forebay_rt::{SharedClock, SharedRng, timeout};
use forebay_types::{RingConfig, View, WorkerId};
use forebay_wire::meta::raft_client::RaftClient;
use forebay_wire::meta::{
    ChangeReply, Chunk, DrainRequest, ForgetWorkerRequest, HelloRequest, RemoveVoterRequest,
    SetRingRequest, SetRulesRequest, SnapshotRequest, StatusReply, StatusRequest,
};
use forebay_wire::{ClusterSecret, WireError};
use futures_util::future::join_all;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tonic::{Response, Status, Streaming};

pub use crate::worker::voters::{Failure, Tried};
pub use forebay_wire::meta::Voter;

use crate::limits::VOTERS_MAX;
use crate::worker::limits::{CHANGE, CHANGE_OF_VOTERS, SNAPSHOT_PIECE, STATUS};
use crate::worker::voters::{Addr, Control, NoAnswer, Voters};

/// What an operator may ask of the voters.
#[derive(Debug)]
pub struct Admin {
    voters: Voters,
    clock: SharedClock,
}

/// What a voter is and knows.
#[derive(Debug, Clone, PartialEq)]
pub struct VoterStatus {
    /// Who it is.
    pub me: Voter,
    /// Whom it follows, or itself.
    pub leader: Option<Voter>,
    /// The present term.
    pub term: u64,
    /// End of its log.
    pub last_log_index: u64,
    /// How far it has applied its log.
    pub applied_index: u64,
    /// Up to where its snapshot reaches.
    pub snapshot_index: u64,
    /// The group; empty before it has been formed.
    pub voters: Vec<Voter>,
    /// Those that are being made voters.
    pub learners: Vec<Voter>,
    /// The cluster.
    pub view: View,
    /// Of the log and the state on its disk.
    pub disk_bytes: u64,
    /// Where it leads: how long ago each worker was heard of.
    pub heard: Vec<(WorkerId, Duration)>,
}

/// Why the voters did not do what they were asked.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// Check the addresses, the cluster secret, and that the voters run.
    #[error(
        "no voter answers ({0}): check the addresses and the cluster secret, and that voters run"
    )]
    NoVoter(Tried),
    /// Start voters until a majority runs, or restore the group from a snapshot.
    #[error(
        "no voter leads ({0}): start voters until a majority runs; if a majority is lost for \
         good, see `forebay meta restore`"
    )]
    NoLeader(Tried),
    /// Look whether the change was made before repeating it.
    #[error("the leader did not answer in time ({0}): the change may have been made, look first")]
    Unsure(Tried),
    /// Do as it says.
    #[error("the voters refuse: {0}")]
    Refused(String),
    /// Use the release that the voters run.
    #[error("the voters speak another release's language")]
    Garbled(#[from] WireError),
    /// The snapshot is not complete: delete it and repeat.
    #[error("the snapshot broke off: delete it and repeat ({0})")]
    Broken(Failure),
    /// The snapshot is not complete: make room and repeat.
    #[error("cannot write the snapshot")]
    Write(#[source] io::Error),
}

impl Admin {
    /// Connects with the first request.
    pub fn new(
        voters: &[String],
        secret: ClusterSecret,
        clock: SharedClock,
        rng: &SharedRng,
    ) -> Self {
        Self { voters: Voters::new(voters, secret, clock.clone(), rng), clock }
    }

    /// What each voter says of itself, by address: those that are configured, and those that
    /// these name. A voter that does not answer is no error of the whole.
    pub async fn status(&self) -> Vec<(String, Result<VoterStatus, Failure>)> {
        let mut statuses: Vec<(String, Result<VoterStatus, Failure>)> = Vec::new();
        let mut next: Vec<Addr> = self.voters.configured().into();
        while !next.is_empty() {
            let answers =
                next.iter().map(async |addr| (addr.to_string(), self.status_of(addr).await));
            statuses.extend(join_all(answers).await);
            next = not_asked(&statuses);
        }
        statuses.sort_by(|(one, _), (other, _)| one.cmp(other));
        statuses
    }

    /// Takes a worker out of the ring. It goes on answering for what it holds.
    pub async fn drain(&self, worker: WorkerId) -> Result<u64, AdminError> {
        self.set_drained(worker, true).await
    }

    /// Takes a worker back into the ring.
    pub async fn undrain(&self, worker: WorkerId) -> Result<u64, AdminError> {
        self.set_drained(worker, false).await
    }

    /// Forgets a worker for good. One that lives comes back with its next heartbeat.
    pub async fn forget_worker(&self, worker: WorkerId) -> Result<u64, AdminError> {
        let request = ForgetWorkerRequest { worker: worker.0 };
        self.change(CHANGE, |mut leader| async move { leader.forget(request).await }).await
    }

    /// Changes how keys are spread. Most of what is cached will belong elsewhere.
    pub async fn set_ring(&self, ring: RingConfig) -> Result<u64, AdminError> {
        let request = SetRingRequest { virtual_nodes: ring.virtual_nodes, seed: ring.seed };
        self.change(CHANGE, |mut leader| async move { leader.set_ring(request).await }).await
    }

    /// Replaces bucket rules and grants by those that `toml` says.
    pub async fn set_rules(&self, toml: &str) -> Result<u64, AdminError> {
        let set = |mut leader: Control| {
            let request = SetRulesRequest { toml: toml.to_owned() };
            async move { leader.set_rules(request).await }
        };
        self.change(CHANGE, set).await
    }

    /// Makes a voter of the process at `addr`, which was started with an empty directory. One that
    /// is a voter already gets the address that it now says is its own.
    pub async fn add_voter(&self, addr: &str) -> Result<u64, AdminError> {
        let newcomer = self.hello(addr).await?;
        let add = |mut leader: Control| {
            let newcomer = newcomer.clone();
            async move { leader.add_voter(newcomer).await }
        };
        self.change(CHANGE_OF_VOTERS, add).await
    }

    /// Takes a voter out of the group, dead or alive.
    pub async fn remove_voter(&self, id: u64) -> Result<u64, AdminError> {
        let request = RemoveVoterRequest { id };
        let remove = |mut leader: Control| async move { leader.remove_voter(request).await };
        self.change(CHANGE_OF_VOTERS, remove).await
    }

    /// Writes what the voters agree on, for `forebay meta restore`, and says how many bytes that
    /// were. After an error, what was written is of no use.
    pub async fn snapshot(&self, to: &mut (impl AsyncWrite + Unpin)) -> Result<u64, AdminError> {
        let begin = |mut leader: Control| async move {
            Ok(leader.snapshot(SnapshotRequest {}).await?.into_inner())
        };
        let mut pieces = self.voters.ask_leader(CHANGE, begin).await?;
        let mut bytes = 0;
        while let Some(piece) = self.piece(&mut pieces).await? {
            to.write_all(&piece.data).await.map_err(AdminError::Write)?;
            bytes += piece.data.len() as u64;
        }
        to.flush().await.map_err(AdminError::Write)?;
        Ok(bytes)
    }

    async fn set_drained(&self, worker: WorkerId, drain: bool) -> Result<u64, AdminError> {
        let request = DrainRequest { worker: worker.0, drain };
        self.change(CHANGE, |mut leader| async move { leader.drain(request).await }).await
    }

    /// Has the leader change something; the view's revision with the change in it.
    async fn change<Asking>(
        &self,
        limit: Duration,
        ask: impl Fn(Control) -> Asking,
    ) -> Result<u64, AdminError>
    where
        Asking: Future<Output = Result<Response<ChangeReply>, Status>>,
    {
        let reply = self.voters.ask_leader(limit, ask).await?;
        Ok(reply.into_inner().revision)
    }

    async fn status_of(&self, addr: &Addr) -> Result<VoterStatus, Failure> {
        let mut voter = self.voters.control(addr);
        let reply = self.in_time(STATUS, voter.status(StatusRequest {})).await?.into_inner();
        VoterStatus::try_from(reply).map_err(|garbled| Failure::Unable(garbled.to_string()))
    }

    /// Asks a voter, or one that is to be, who it is.
    async fn hello(&self, addr: &str) -> Result<Voter, AdminError> {
        let failed = |failure| AdminError::NoVoter(Tried(vec![(addr.to_owned(), failure)]));
        let mut newcomer = RaftClient::new(self.voters.channel(&addr.into()));
        let hello = self.in_time(STATUS, newcomer.hello(HelloRequest {})).await;
        let hello = hello.map_err(failed)?.into_inner();
        let unnamed = || WireError { message: "HelloReply", reason: "it names nobody".to_owned() };
        Ok(hello.me.ok_or_else(unnamed)?)
    }

    async fn piece(&self, pieces: &mut Streaming<Chunk>) -> Result<Option<Chunk>, AdminError> {
        self.in_time(SNAPSHOT_PIECE, pieces.message()).await.map_err(AdminError::Broken)
    }

    async fn in_time<T>(
        &self,
        limit: Duration,
        answer: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Failure> {
        let answer = timeout(&*self.clock, limit, answer).await;
        answer.map_err(|_| Failure::Silent(limit))?.map_err(|status| Failure::of(&status))
    }
}

/// Voters that others name and that nobody has asked yet.
fn not_asked(statuses: &[(String, Result<VoterStatus, Failure>)]) -> Vec<Addr> {
    let known = statuses.iter().filter_map(|(_, status)| status.as_ref().ok());
    let mut seen: HashSet<&str> = statuses.iter().map(|(addr, _)| addr.as_str()).collect();
    // A voter may be configured under another name than it has in the group.
    seen.extend(known.clone().map(|status| status.me.addr.as_str()));
    let named = known.flat_map(|status| status.voters.iter().chain(&status.learners));
    let new = named.map(|voter| voter.addr.as_str()).filter(|addr| seen.insert(addr));
    new.take(VOTERS_MAX.saturating_sub(statuses.len())).map(Addr::from).collect()
}

impl From<NoAnswer> for AdminError {
    fn from(why: NoAnswer) -> Self {
        let tried = match why {
            NoAnswer::Refused(status) => return Self::Refused(status.message().to_owned()),
            NoAnswer::Nobody(tried) => tried,
        };
        let any = |is: fn(&Failure) -> bool| tried.0.iter().any(|(_, failure)| is(failure));
        // What is silent for so long holds its connection, so it took the request.
        if any(|failure| matches!(failure, Failure::Silent(_))) {
            Self::Unsure(tried)
        } else if any(|failure| !matches!(failure, Failure::Unreachable(_))) {
            Self::NoLeader(tried)
        } else {
            Self::NoVoter(tried)
        }
    }
}

impl TryFrom<StatusReply> for VoterStatus {
    type Error = WireError;

    fn try_from(reply: StatusReply) -> Result<Self, WireError> {
        let missing = |what: &str| WireError { message: "StatusReply", reason: what.to_owned() };
        let heard = |heard: &forebay_wire::meta::Heard| {
            (WorkerId(heard.worker), Duration::from_millis(heard.ago_ms))
        };
        Ok(Self {
            me: reply.me.ok_or_else(|| missing("no name"))?,
            leader: reply.leader,
            term: reply.term,
            last_log_index: reply.last_log_index,
            applied_index: reply.applied_index,
            snapshot_index: reply.snapshot_index,
            voters: reply.voters,
            learners: reply.learners,
            view: reply.view.ok_or_else(|| missing("no view"))?.try_into()?,
            disk_bytes: reply.disk_bytes,
            heard: reply.heard.iter().map(heard).collect(),
        })
    }
}

#[cfg(test)]
mod tests;
