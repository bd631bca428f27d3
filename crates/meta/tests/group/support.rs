//! A group of voters, workers that beat, and questions about both.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_meta::{Timings, Voter, VoterConfig};
use forebay_rt::{Clock, SystemClock, SystemRng, Task, spawn, timeout};
use forebay_types::{View, WorkerId, WorkerState};
use forebay_wire::meta::control_client::ControlClient;
use forebay_wire::meta::{
    ChangeReply, FenceReply, FenceRequest, HeartbeatReply, HeartbeatRequest, SetRingRequest,
    SnapshotRequest, StatusReply, StatusRequest,
};
use forebay_wire::view::{Worker, WorkerState as Wire};
use forebay_wire::{ClusterSecret, Handshake, control};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

pub(crate) type Control = ControlClient<Channel>;

/// A group of voters.
pub(crate) struct Voters {
    pub(crate) seats: Vec<Seat>,
    pub(crate) timings: Timings,
}

/// A voter's place: it may be empty.
pub(crate) struct Seat {
    pub(crate) id: u64,
    pub(crate) dir: TempDir,
    pub(crate) addr: SocketAddr,
    pub(crate) voter: Option<Voter>,
    control: Control,
}

/// Elections as fast as a busy machine allows, and silence that means something soon.
pub(crate) fn quick() -> Timings {
    Timings {
        raft_heartbeat: Duration::from_millis(100),
        election_min: Duration::from_millis(300),
        election_max: Duration::from_millis(600),
        confirm_every: Duration::from_millis(50),
        quorum_age_max: Duration::from_secs(1),
        down_after: Duration::from_secs(1),
        grace: Duration::from_secs(2),
        gather: Duration::from_millis(20),
        watch_keep_alive: Duration::from_millis(300),
        ..Timings::default()
    }
}

pub(crate) fn handshake(text: &str) -> Handshake {
    Handshake::new(secret(text), Arc::new(SystemClock), Arc::new(SystemRng))
}

fn secret(text: &str) -> ClusterSecret {
    ClusterSecret::from_text(&text.repeat(40)).unwrap()
}

impl Voters {
    /// A group of `count` that has a leader.
    pub(crate) async fn formed(count: u64, timings: Timings) -> Self {
        let mut voters = Self::seated(count, timings).await;
        for index in 0..voters.seats.len() {
            voters.start(index).await;
        }
        voters.leader().await;
        voters
    }

    /// Places for `count` voters that have not been started.
    pub(crate) async fn seated(count: u64, timings: Timings) -> Self {
        let mut voters = Self { seats: Vec::new(), timings };
        for id in 1..=count {
            voters.add_seat(id).await;
        }
        voters
    }

    /// One more place, outside the group.
    pub(crate) async fn add_seat(&mut self, id: u64) -> usize {
        let (addr, control) = free_addr().await;
        let dir = TempDir::new().unwrap();
        self.seats.push(Seat { id, dir, addr, voter: None, control });
        self.seats.len() - 1
    }

    /// Gives a voter that does not run another address.
    pub(crate) async fn move_seat(&mut self, index: usize) {
        let seat = &mut self.seats[index];
        assert!(seat.voter.is_none());
        (seat.addr, seat.control) = free_addr().await;
    }

    pub(crate) async fn start(&mut self, index: usize) {
        let initial =
            self.seats.iter().map(|seat| (seat.id, seat.addr.to_string())).collect::<Vec<_>>();
        self.start_knowing(index, initial).await;
    }

    pub(crate) async fn start_knowing(&mut self, index: usize, initial: Vec<(u64, String)>) {
        let timings = self.timings;
        let seat = &mut self.seats[index];
        assert!(seat.voter.is_none());
        let config = VoterConfig {
            id: seat.id,
            dir: seat.dir.path().join("raft"),
            listener: TcpListener::bind(seat.addr).await.unwrap(),
            advertise: seat.addr.to_string(),
            initial_voters: initial,
            secret: secret("s"),
            timings,
            clock: Arc::new(SystemClock),
            rng: Arc::new(SystemRng),
        };
        seat.voter = Some(Voter::start(config).await.unwrap());
    }

    pub(crate) async fn stop(&mut self, index: usize) {
        self.seats[index].voter.take().unwrap().shutdown().await;
    }

    pub(crate) fn wipe(&self, index: usize) {
        std::fs::remove_dir_all(self.seats[index].dir.path().join("raft")).unwrap();
    }

    pub(crate) fn control(&self, index: usize) -> Control {
        self.seats[index].control.clone()
    }

    pub(crate) fn addr(&self, index: usize) -> String {
        self.seats[index].addr.to_string()
    }

    /// The seat of the leader that a majority of those running agrees on, once there is one.
    pub(crate) async fn leader(&self) -> usize {
        self.eventually("a leader", async || {
            for index in self.running() {
                let Ok(status) = self.status(index).await else { continue };
                let leads = status.leader.is_some_and(|leader| leader.id == self.seats[index].id);
                // A majority says so, too, or there would be no snapshot.
                if leads && self.control(index).snapshot(SnapshotRequest {}).await.is_ok() {
                    return Some(index);
                }
            }
            None
        })
        .await
    }

    pub(crate) async fn follower(&self) -> usize {
        let leader = self.leader().await;
        self.running().find(|index| *index != leader).unwrap()
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.seats.len()).filter(|index| self.seats[*index].voter.is_some())
    }

    pub(crate) async fn status(&self, index: usize) -> Result<StatusReply, Status> {
        let (mut control, limit) = (self.control(index), Duration::from_secs(2));
        let asked = timeout(&SystemClock, limit, control.status(StatusRequest {})).await;
        asked.unwrap_or_else(|_| Err(Status::unavailable("silent"))).map(Response::into_inner)
    }

    pub(crate) async fn view(&self, index: usize) -> View {
        self.status(index).await.unwrap().view.unwrap().try_into().unwrap()
    }

    /// What the leader's view says.
    pub(crate) async fn leaders_view(&self) -> View {
        self.view(self.leader().await).await
    }

    pub(crate) async fn state_of(&self, worker: u64) -> Option<WorkerState> {
        self.leaders_view().await.worker(WorkerId(worker)).map(|worker| worker.state)
    }

    /// Waits until all who run have the same view as the leader.
    pub(crate) async fn all_see(&self, revision: u64) {
        self.eventually("the same view everywhere", async || {
            for index in self.running() {
                let status = self.status(index).await.ok()?;
                if status.view?.revision < revision {
                    return None;
                }
            }
            Some(())
        })
        .await;
    }

    pub(crate) async fn set_ring(&self, seed: u64) -> ChangeReply {
        let request = SetRingRequest { virtual_nodes: 100, seed };
        let reply = self.control(self.leader().await).set_ring(request).await;
        reply.unwrap().into_inner()
    }

    pub(crate) async fn fence(&self, epoch: u64) -> FenceReply {
        let reply = self.control(self.leader().await).fence(FenceRequest { epoch }).await;
        reply.unwrap().into_inner()
    }

    /// One heartbeat to whoever leads.
    pub(crate) async fn beat(&self, worker: u64, wish: Wire) -> HeartbeatReply {
        self.eventually("a heartbeat answered", async || {
            let leader = self.leader().await;
            let reply = self.control(leader).heartbeat(heartbeat(worker, wish)).await;
            reply.ok().map(Response::into_inner)
        })
        .await
    }

    /// Polls `question` until it has an answer.
    pub(crate) async fn eventually<T>(
        &self,
        what: &str,
        mut question: impl AsyncFnMut() -> Option<T>,
    ) -> T {
        let began = SystemClock.now();
        loop {
            if let Some(answer) = question().await {
                return answer;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "waited in vain for {what}");
            SystemClock.sleep(Duration::from_millis(20)).await;
        }
    }

    /// Workers that beat until they are dropped.
    pub(crate) fn workers(&self, ids: impl IntoIterator<Item = u64>) -> Beating {
        let controls: Vec<Control> = self.seats.iter().map(|seat| seat.control.clone()).collect();
        let beat = |id| spawn(keep_beating(controls.clone(), id));
        Beating(ids.into_iter().map(beat).collect())
    }

    /// The same, when all of them are in the ring.
    pub(crate) async fn active_workers(&self, ids: std::ops::RangeInclusive<u64>) -> Beating {
        let workers = self.workers(ids.clone());
        self.eventually("all workers in the ring", async || {
            let view = self.leaders_view().await;
            (view.ring.members.len() as u64 == ids.end() - ids.start() + 1).then_some(())
        })
        .await;
        workers
    }
}

/// Tasks that end with this.
pub(crate) struct Beating(Vec<Task<()>>);

impl Drop for Beating {
    fn drop(&mut self) {
        self.0.iter().for_each(Task::abort);
    }
}

async fn free_addr() -> (SocketAddr, Control) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    (addr, ControlClient::new(control::channel(&addr.to_string(), handshake("s"))))
}

/// Tells every voter, so that it finds the leader whoever that is.
async fn keep_beating(mut controls: Vec<Control>, id: u64) {
    loop {
        for control in &mut controls {
            let request = heartbeat(id, Wire::Active);
            let limit = Duration::from_millis(200);
            let _ = timeout(&SystemClock, limit, control.heartbeat(request)).await;
        }
        SystemClock.sleep(Duration::from_millis(100)).await;
    }
}

pub(crate) fn heartbeat(worker: u64, wish: Wire) -> HeartbeatRequest {
    let worker = Worker {
        id: worker,
        state: wish.into(),
        data_addr: format!("w{worker}:7401"),
        s3_addr: format!("w{worker}:9500"),
        zone: "a".into(),
        capacity_bytes: 1 << 40,
    };
    let incarnation = worker.id;
    HeartbeatRequest { worker: Some(worker), incarnation }
}

pub(crate) async fn sleep(duration: Duration) {
    SystemClock.sleep(duration).await;
}

pub(crate) fn now() -> Instant {
    SystemClock.now()
}

pub(crate) fn code<T>(result: Result<T, Status>) -> Code {
    result.err().map_or(Code::Ok, |status| status.code())
}
