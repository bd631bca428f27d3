//! What a voter answers workers and operators. One file a kind of request.

mod changes;
mod heartbeat;
mod members;
mod snapshot;
mod status;
mod watch;

use std::pin::Pin;
use std::sync::Arc;

use forebay_rt::Shutdown;
use forebay_wire::meta::control_server::Control;
use forebay_wire::meta::{
    ChangeReply, Chunk, DrainRequest, FenceReply, FenceRequest, ForgetWorkerRequest,
    HeartbeatReply, HeartbeatRequest, RemoveVoterRequest, SetRingRequest, SetRulesRequest,
    SnapshotRequest, StatusReply, StatusRequest, Voter, WatchRequest,
};
use forebay_wire::view;
use futures_util::Stream;
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status};

use crate::leader::Leadership;
use crate::limits::WATCHES_MAX;
use crate::voter::Group;

type Answer<T> = Result<Response<T>, Status>;
type Streamed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The Control service of one voter.
pub(crate) struct ControlService {
    group: Arc<Group>,
    leadership: Arc<Leadership>,
    shutdown: Shutdown,
    watches: Arc<Semaphore>,
}

impl ControlService {
    pub(crate) fn new(group: Arc<Group>, leadership: Arc<Leadership>, shutdown: Shutdown) -> Self {
        Self { group, leadership, shutdown, watches: Arc::new(Semaphore::new(WATCHES_MAX)) }
    }
}

#[tonic::async_trait]
impl Control for ControlService {
    type WatchStream = Streamed<view::View>;
    type SnapshotStream = Streamed<Chunk>;

    async fn heartbeat(&self, request: Request<HeartbeatRequest>) -> Answer<HeartbeatReply> {
        self.answer_heartbeat(request.into_inner()).map(Response::new)
    }

    async fn watch(&self, _request: Request<WatchRequest>) -> Answer<Self::WatchStream> {
        self.follow().await.map(Response::new)
    }

    async fn fence(&self, request: Request<FenceRequest>) -> Answer<FenceReply> {
        self.begin_epoch(request.into_inner()).await.map(Response::new)
    }

    async fn drain(&self, request: Request<DrainRequest>) -> Answer<ChangeReply> {
        self.set_drained(request.into_inner()).await.map(Response::new)
    }

    async fn forget(&self, request: Request<ForgetWorkerRequest>) -> Answer<ChangeReply> {
        self.forget_worker(request.into_inner()).await.map(Response::new)
    }

    async fn set_ring(&self, request: Request<SetRingRequest>) -> Answer<ChangeReply> {
        self.change_ring(request.into_inner()).await.map(Response::new)
    }

    async fn set_rules(&self, request: Request<SetRulesRequest>) -> Answer<ChangeReply> {
        self.change_rules(request.into_inner()).await.map(Response::new)
    }

    async fn status(&self, _request: Request<StatusRequest>) -> Answer<StatusReply> {
        Ok(Response::new(self.report_status()))
    }

    async fn add_voter(&self, request: Request<Voter>) -> Answer<ChangeReply> {
        members::add(self.group.clone(), request.into_inner()).await.map(Response::new)
    }

    async fn remove_voter(&self, request: Request<RemoveVoterRequest>) -> Answer<ChangeReply> {
        members::remove(self.group.clone(), request.into_inner().id).await.map(Response::new)
    }

    async fn snapshot(&self, _request: Request<SnapshotRequest>) -> Answer<Self::SnapshotStream> {
        self.copy_state().await.map(Response::new)
    }
}
