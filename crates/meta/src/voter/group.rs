//! What the parts of a voter share: its place in the group, and how to change what the group
//! agrees on.

use std::fmt;
use std::sync::Arc;

use forebay_rt::{SharedClock, timeout};
use forebay_types::View;
use forebay_wire::Handshake;
use openraft::error::{ClientWriteError, RaftError};
use tokio::sync::watch;
use tonic::metadata::AsciiMetadataValue;
use tonic::{Code, Status};

use super::Timings;
use crate::limits::PROPOSE_TIME_MAX;
use crate::metrics::Metrics;
use crate::raft::{Db, Identity, Member, Network, Published, Raft};
use crate::state::{Applied, Command, Refusal, State};

/// The metadata in which a voter that does not lead names the one that does.
const LEADER: &str = "forebay-leader";

/// One voter's place in its group.
pub(crate) struct Group {
    pub(crate) identity: Identity,
    /// Where others reach it.
    pub(crate) addr: String,
    pub(crate) raft: Raft,
    pub(crate) published: watch::Receiver<Published>,
    pub(crate) db: Arc<Db>,
    pub(crate) network: Network,
    pub(crate) handshake: Handshake,
    pub(crate) timings: Timings,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: SharedClock,
}

impl Group {
    /// What has been applied here.
    pub(crate) fn state(&self) -> Arc<State> {
        self.published.borrow().state.clone()
    }

    /// The same, as everybody sees it.
    pub(crate) fn view(&self) -> Arc<View> {
        self.published.borrow().view.clone()
    }

    /// The leader, as far as this voter knows.
    pub(crate) fn leader(&self) -> Option<(u64, Member)> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let id = metrics.current_leader?;
        Some((id, metrics.membership_config.membership().get_node(&id)?.clone()))
    }

    /// Has the group apply `command`. Only the leader can.
    pub(crate) async fn propose(&self, command: Command) -> Result<Applied, Status> {
        let began = self.clock.now();
        let written = timeout(&*self.clock, PROPOSE_TIME_MAX, self.raft.client_write(command));
        let written = written.await.map_err(|_| {
            Status::deadline_exceeded("no majority confirmed it in time; it may still happen")
        })?;
        let response = written.map_err(|error| self.refused(error))?;
        self.metrics.committed(self.clock.now().saturating_duration_since(began));
        response.data.map_err(refused)
    }

    /// Why openraft did not do it.
    pub(crate) fn refused(&self, error: RaftError<u64, ClientWriteError<u64, Member>>) -> Status {
        match error {
            RaftError::APIError(ClientWriteError::ForwardToLeader(_)) => self.not_leading(),
            RaftError::APIError(ClientWriteError::ChangeMembershipError(error)) => {
                Status::aborted(format!("the voters are being changed already: {error}"))
            }
            RaftError::Fatal(fatal) => stopped(fatal),
        }
    }

    /// Says who leads, or that nobody is known to.
    pub(crate) fn not_leading(&self) -> Status {
        let leader = self.leader().filter(|(id, _)| *id != self.identity.id);
        let addr = leader.and_then(|(_, leader)| AsciiMetadataValue::try_from(leader.addr).ok());
        let Some(addr) = addr else {
            return Status::unavailable("no leader is known here");
        };
        let mut status = Status::failed_precondition("this voter does not lead");
        status.metadata_mut().insert(LEADER, addr);
        status
    }
}

/// openraft has ended for good.
pub(crate) fn stopped(error: impl fmt::Display) -> Status {
    Status::unavailable(format!("this voter has stopped: {error}"))
}

fn refused(refusal: Refusal) -> Status {
    let code = match refusal {
        Refusal::NoSuchWorker => Code::NotFound,
        Refusal::NotOut => Code::FailedPrecondition,
        Refusal::EpochNotBegun => Code::OutOfRange,
        Refusal::VirtualNodes => Code::InvalidArgument,
    };
    Status::new(code, refusal.to_string())
}
