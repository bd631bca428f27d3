//! A voter that does as the test says, at a real control port.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use forebay_rt::{Clock, ManualClock, SystemClock, SystemRng};
use forebay_types::View;
use forebay_wire::meta::control_server::{Control, ControlServer};
use forebay_wire::meta::raft_server::{Raft, RaftServer};
use forebay_wire::meta::{
    ChangeReply, Chunk, DrainRequest, FenceReply, FenceRequest, ForgetWorkerRequest, Frame,
    HeartbeatReply, HeartbeatRequest, HelloReply, HelloRequest, RemoveVoterRequest, SetRingRequest,
    SetRulesRequest, SnapshotRequest, StatusReply, StatusRequest, Voter, WatchRequest,
};
use forebay_wire::{ClusterSecret, Handshake, control, view};
use futures_util::stream::{self, BoxStream, StreamExt};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tonic::{Request, Response, Status, Streaming};

/// How often a voter repeats its view.
const REPEAT_EVERY: Duration = Duration::from_secs(5);

/// A voter's process: a runtime of its own, so that it dies with all of its connections.
pub(crate) struct FakeVoter {
    pub(crate) addr: String,
    pub(crate) part: Arc<Part>,
    runtime: Option<Runtime>,
}

/// What a voter does, and what it was asked.
pub(crate) struct Part {
    pub(crate) role: Mutex<Role>,
    pub(crate) view: watch::Sender<View>,
    /// Takes requests and answers none.
    pub(crate) is_silent: watch::Sender<bool>,
    pub(crate) heartbeats: Mutex<Vec<HeartbeatRequest>>,
    /// The epochs of the fences that were asked for.
    pub(crate) fences: Mutex<Vec<u64>>,
    /// What to answer to the next fences in place of the truth.
    pub(crate) fence_replies: Mutex<VecDeque<FenceReply>>,
    /// Changes asked for, in words.
    pub(crate) changes: Mutex<Vec<String>>,
    /// Voters that it names in its status; itself first.
    pub(crate) group: Mutex<Vec<Voter>>,
    /// The pieces of its snapshot.
    pub(crate) snapshot: Mutex<Vec<Result<Chunk, Status>>>,
    clock: ManualClock,
}

#[derive(Debug, Clone)]
pub(crate) enum Role {
    Leads,
    Names(String),
    KnowsNoLeader,
    Refuses(&'static str),
}

pub(crate) fn secret(text: &str) -> ClusterSecret {
    ClusterSecret::from_text(&text.repeat(8)).unwrap()
}

impl FakeVoter {
    pub(crate) fn start(clock: &ManualClock) -> Self {
        let part = Arc::new(Part {
            role: Mutex::new(Role::Leads),
            view: watch::Sender::default(),
            is_silent: watch::Sender::default(),
            heartbeats: Mutex::default(),
            fences: Mutex::default(),
            fence_replies: Mutex::default(),
            changes: Mutex::default(),
            group: Mutex::default(),
            snapshot: Mutex::default(),
            clock: clock.clone(),
        });
        let (runtime, addr) = serve("127.0.0.1:0".parse().unwrap(), part.clone());
        let addr = addr.to_string();
        part.group.lock().push(Voter { id: 1, addr: addr.clone(), disk_id: 7 });
        Self { addr, part, runtime: Some(runtime) }
    }

    /// Returns when its port is closed.
    pub(crate) fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A runtime must not wait for the end of another.
            std::thread::spawn(|| drop(runtime)).join().unwrap();
        }
    }

    pub(crate) fn be(&self, role: Role) {
        *self.part.role.lock() = role;
    }

    pub(crate) fn publish(&self, view: &View) {
        self.part.view.send_replace(view.clone());
    }

    pub(crate) fn be_silent(&self, is_silent: bool) {
        self.part.is_silent.send_replace(is_silent);
    }
}

impl Drop for FakeVoter {
    fn drop(&mut self) {
        self.kill();
    }
}

fn serve(addr: SocketAddr, part: Arc<Part>) -> (Runtime, SocketAddr) {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let entered = runtime.enter();
    let listener = std::net::TcpListener::bind(addr).unwrap();
    listener.set_nonblocking(true).unwrap();
    let addr = listener.local_addr().unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    let handshake = Handshake::new(secret("test"), Arc::new(SystemClock), Arc::new(SystemRng));
    let server = control::server()
        .add_service(ControlServer::from_arc(part.clone()))
        .add_service(RaftServer::from_arc(part))
        .serve_with_incoming(control::incoming(listener, handshake));
    forebay_rt::spawn(server);
    drop(entered);
    (runtime, addr)
}

impl Part {
    async fn speak(&self) {
        let mut is_silent = self.is_silent.subscribe();
        is_silent.wait_for(|is_silent| !is_silent).await.unwrap();
    }

    async fn lead(&self) -> Result<(), Status> {
        self.speak().await;
        match self.role.lock().clone() {
            Role::Leads => Ok(()),
            Role::KnowsNoLeader => Err(Status::unavailable("no leader is known")),
            Role::Refuses(why) => Err(Status::failed_precondition(why)),
            Role::Names(leader) => {
                let mut status = Status::failed_precondition("another voter leads");
                status.metadata_mut().insert("forebay-leader", leader.parse().unwrap());
                Err(status)
            }
        }
    }

    async fn change(&self, what: String) -> Result<Response<ChangeReply>, Status> {
        self.lead().await?;
        self.changes.lock().push(what);
        Ok(Response::new(ChangeReply { revision: self.view.borrow().revision + 1 }))
    }

    /// Begins an epoch, unless a newer one than `epoch` has begun.
    fn begin_after(&self, epoch: u64) -> FenceReply {
        let begun = self.view.borrow().ring.epoch.0 <= epoch;
        if begun {
            self.view.send_modify(|view| {
                view.ring.epoch.0 += 1;
                view.revision += 1;
            });
        }
        FenceReply { epoch: self.view.borrow().ring.epoch.0, begun }
    }
}

#[async_trait]
impl Control for Part {
    type WatchStream = BoxStream<'static, Result<view::View, Status>>;
    type SnapshotStream = BoxStream<'static, Result<Chunk, Status>>;

    async fn heartbeat(
        &self,
        request: Request<HeartbeatRequest>,
    ) -> Result<Response<HeartbeatReply>, Status> {
        self.lead().await?;
        self.heartbeats.lock().push(request.into_inner());
        let epoch = self.view.borrow().ring.epoch.0;
        Ok(Response::new(HeartbeatReply { epoch, quorum_age_ms: 100 }))
    }

    async fn watch(&self, _: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        self.speak().await;
        let (mut views, mut is_silent) = (self.view.subscribe(), self.is_silent.subscribe());
        views.mark_changed();
        let state = (views, is_silent.clone(), self.clock.clone());
        is_silent.borrow_and_update();
        let sent = stream::unfold(state, |(mut views, mut is_silent, clock)| async move {
            tokio::select! {
                changed = views.changed() => changed.ok()?,
                () = clock.sleep(REPEAT_EVERY) => {}
            }
            is_silent.wait_for(|is_silent| !is_silent).await.ok()?;
            let view = view::View::from(&*views.borrow_and_update());
            Some((Ok(view), (views, is_silent, clock)))
        });
        Ok(Response::new(sent.boxed()))
    }

    async fn fence(&self, request: Request<FenceRequest>) -> Result<Response<FenceReply>, Status> {
        let epoch = request.into_inner().epoch;
        self.fences.lock().push(epoch);
        self.lead().await?;
        let scripted = self.fence_replies.lock().pop_front();
        Ok(Response::new(scripted.unwrap_or_else(|| self.begin_after(epoch))))
    }

    async fn drain(&self, request: Request<DrainRequest>) -> Result<Response<ChangeReply>, Status> {
        let DrainRequest { worker, drain } = request.into_inner();
        self.change(format!("drain {worker} {drain}")).await
    }

    async fn forget(
        &self,
        request: Request<ForgetWorkerRequest>,
    ) -> Result<Response<ChangeReply>, Status> {
        self.change(format!("forget {}", request.into_inner().worker)).await
    }

    async fn set_ring(
        &self,
        request: Request<SetRingRequest>,
    ) -> Result<Response<ChangeReply>, Status> {
        let SetRingRequest { virtual_nodes, seed } = request.into_inner();
        self.change(format!("ring {virtual_nodes} {seed}")).await
    }

    async fn set_rules(
        &self,
        request: Request<SetRulesRequest>,
    ) -> Result<Response<ChangeReply>, Status> {
        self.change(format!("rules {}", request.into_inner().toml)).await
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusReply>, Status> {
        self.speak().await;
        let voters = self.group.lock().clone();
        let view = Some(view::View::from(&*self.view.borrow()));
        let me = voters.first().cloned();
        Ok(Response::new(StatusReply { me, voters, view, term: 3, ..StatusReply::default() }))
    }

    async fn add_voter(&self, request: Request<Voter>) -> Result<Response<ChangeReply>, Status> {
        let Voter { id, addr, disk_id } = request.into_inner();
        self.change(format!("add {id} {addr} {disk_id}")).await
    }

    async fn remove_voter(
        &self,
        request: Request<RemoveVoterRequest>,
    ) -> Result<Response<ChangeReply>, Status> {
        self.change(format!("remove {}", request.into_inner().id)).await
    }

    async fn snapshot(
        &self,
        _: Request<SnapshotRequest>,
    ) -> Result<Response<Self::SnapshotStream>, Status> {
        self.lead().await?;
        let pieces = std::mem::take(&mut *self.snapshot.lock());
        Ok(Response::new(stream::iter(pieces).boxed()))
    }
}

/// A voter says who it is; it belongs to a group when it names more than itself.
#[async_trait]
impl Raft for Part {
    async fn append(&self, _: Request<Frame>) -> Result<Response<Frame>, Status> {
        Err(Status::unimplemented("a fake has no log"))
    }

    async fn vote(&self, _: Request<Frame>) -> Result<Response<Frame>, Status> {
        Err(Status::unimplemented("a fake has no vote"))
    }

    async fn install_snapshot(
        &self,
        _: Request<Streaming<Frame>>,
    ) -> Result<Response<Frame>, Status> {
        Err(Status::unimplemented("a fake has no state"))
    }

    async fn hello(&self, _: Request<HelloRequest>) -> Result<Response<HelloReply>, Status> {
        let group = self.group.lock();
        Ok(Response::new(HelloReply { me: group.first().cloned(), is_member: group.len() > 1 }))
    }
}
