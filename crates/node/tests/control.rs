//! What operators ask of voters, asked of real ones.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use forebay_meta::worker::{Limits, Membership, MembershipConfig};
use forebay_meta::{Timings, Voter, VoterConfig};
use forebay_node::ControlConfig;
use forebay_node::control::{ClusterStatus, Control, ControlError, Restore, Role, restore};
use forebay_rt::{Clock, SystemClock, SystemRng};
use forebay_types::{WorkerId, WorkerInfo, WorkerState};
use forebay_wire::ClusterSecret;
use tempfile::TempDir;
use tokio::net::TcpListener;

const SOON: Duration = Duration::from_secs(20);
const WORKER: WorkerId = WorkerId(0xab00_0000_0000_0001);
const RULES: &str = "[[bucket]]\nname = 'train'\norigin = 'http://10.0.0.1:9001'\n";

fn secret() -> ClusterSecret {
    ClusterSecret::from_text("0123456789abcdef0123456789abcdef").unwrap()
}

/// Where a voter is started, and as whom.
struct Place {
    id: u64,
    dir: PathBuf,
    listener: TcpListener,
    addr: String,
}

impl Place {
    async fn new(id: u64, dir: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        Self { id, dir: dir.to_owned(), listener, addr }
    }

    async fn start(self, initial_voters: Vec<(u64, String)>) -> Voter {
        let config = VoterConfig {
            id: self.id,
            dir: self.dir,
            listener: self.listener,
            advertise: self.addr,
            initial_voters,
            secret: secret(),
            timings: Timings::default(),
            clock: Arc::new(SystemClock),
            rng: Arc::new(SystemRng),
        };
        Voter::start(config).await.unwrap()
    }
}

/// A group of one voter, number 1.
struct World {
    dir: TempDir,
    voter: Voter,
    control: Control,
}

impl World {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::new(1, &dir.path().join("voter-1")).await;
        let control = control_of(&place.addr);
        let initial = vec![(1, place.addr.clone())];
        let world = Self { dir, voter: place.start(initial).await, control };
        world.until("a leader", |status| status.leader.is_some()).await;
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A worker that sends heartbeats and wants to be in the ring.
    async fn worker(&self) -> Arc<Membership> {
        let membership = Membership::join(MembershipConfig {
            me: WorkerInfo {
                id: WORKER,
                state: WorkerState::Active,
                data_addr: "10.0.0.5:9100".into(),
                s3_addr: "10.0.0.5:9000".into(),
                zone: "b".into(),
                capacity_bytes: 1 << 40,
            },
            incarnation: 1,
            voters: vec![self.voter.local_addr().to_string()],
            secret: secret(),
            kept: None,
            clock: Arc::new(SystemClock),
            rng: Arc::new(SystemRng),
            limits: Limits::default(),
        });
        self.until("a worker in the ring", |status| status.ring.members == 1).await;
        membership
    }

    async fn until(&self, what: &str, is_so: impl Fn(&ClusterStatus) -> bool) -> ClusterStatus {
        until(&self.control, what, is_so).await
    }
}

fn control_of(addr: &str) -> Control {
    Control::new(ControlConfig {
        secret: secret(),
        voters: vec![addr.to_owned()],
        warnings: Vec::new(),
    })
}

async fn until(
    control: &Control,
    what: &str,
    is_so: impl Fn(&ClusterStatus) -> bool,
) -> ClusterStatus {
    let deadline = SystemClock.now() + SOON;
    loop {
        let seen = match control.status().await {
            Ok(status) if is_so(&status) => return status,
            seen => seen,
        };
        assert!(SystemClock.now() < deadline, "no {what}: {seen:?}");
        SystemClock.sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_worker_is_drained_by_the_beginning_of_its_id_and_taken_back_by_its_address() {
    let world = World::new().await;
    let alive = world.worker().await;
    let status =
        world.until("sign of life", |status| status.workers[0].heard_ago_ms.is_some()).await;
    let line = &status.workers[0];
    assert_eq!((line.id, line.state, line.zone.as_str()), (WORKER, "active", "b"));
    assert_eq!(line.owned_ratio, Some(1.0));
    assert!(status.is_healthy(), "{:?}", status.troubles);

    let worker = world.control.worker("AB").await.unwrap();
    let before = status.revision;
    let revision = world.control.drain(&worker).await.unwrap();
    assert!(revision > before);
    world.control.until_drained(&worker).await.unwrap();
    let status = world.control.status().await.unwrap();
    assert_eq!((status.workers[0].state, status.ring.members), ("draining", 0));
    assert_eq!((status.workers[0].owned_ratio, status.previous_rings[0].members), (None, 1));
    assert_eq!(status.troubles, ["no worker is in the ring"]);

    let worker = world.control.worker("10.0.0.5:9000").await.unwrap();
    world.control.undrain(&worker).await.unwrap();
    world.until("a worker in the ring", |status| status.ring.members == 1).await;
    drop(alive);
}

#[tokio::test]
async fn a_worker_is_forgotten_only_when_it_is_out_of_the_ring() {
    let world = World::new().await;
    let alive = world.worker().await;
    let worker = world.control.worker("ab").await.unwrap();
    let refused = world.control.forget(&worker).await.unwrap_err().to_string();
    assert!(refused.contains("drain it first"), "{refused}");
    world.control.drain(&worker).await.unwrap();
    alive.leave().await;
    world.control.forget(&worker).await.unwrap();
    let gone = world.control.worker("ab").await.unwrap_err();
    assert!(matches!(gone, ControlError::NoSuchWorker { .. }), "{gone}");
    // A drained worker that is forgotten meanwhile is not waited for.
    world.control.until_drained(&worker).await.unwrap();
}

#[tokio::test]
async fn rules_and_ring_are_read_back_as_they_were_set() {
    let world = World::new().await;
    assert_eq!(world.control.rules().await.unwrap(), None);
    world.control.set_rules(RULES).await.unwrap();
    assert_eq!(world.control.rules().await.unwrap().unwrap().toml, RULES);
    world.control.set_ring(100, 7).await.unwrap();
    let status = world.control.status().await.unwrap();
    assert_eq!((status.ring.virtual_nodes, status.ring.seed), (100, 7));
    assert!(status.rules_version.is_some());
    let refused = world.control.set_ring(0, 7).await.unwrap_err().to_string();
    assert!(refused.contains("at least 1"), "{refused}");
}

#[tokio::test]
async fn a_voter_is_added_under_its_own_number_and_removed_again() {
    let world = World::new().await;
    let place = Place::new(2, &world.path("voter-2")).await;
    let addr = place.addr.clone();
    let second = place.start(Vec::new()).await;
    let other = world.control.add_voter(3, &addr).await.unwrap_err();
    assert!(matches!(other, ControlError::OtherVoter { found: 2, given: 3, .. }), "{other}");
    assert!(other.is_misnamed());
    world.control.add_voter(2, &addr).await.unwrap();
    let status = world
        .until("second voter", |status| status.voters.iter().all(|voter| voter.said.is_some()))
        .await;
    let roles: Vec<_> = status.voters.iter().map(|voter| (voter.id, voter.role)).collect();
    assert_eq!(roles, [(Some(1), Role::Leader), (Some(2), Role::Voter)]);
    assert_eq!(status.voters[1].addr, addr);

    world.control.remove_voter(2).await.unwrap();
    let status = world.control.status().await.unwrap();
    assert_eq!(status.voters.len(), 1, "{:?}", status.voters);
    second.shutdown().await;
}

#[tokio::test]
async fn a_snapshot_begins_a_new_group_that_knows_what_the_old_one_did() {
    let world = World::new().await;
    drop(world.worker().await);
    world.control.set_rules(RULES).await.unwrap();
    let old = world.control.status().await.unwrap();
    let file = world.path("snapshot");
    let bytes = world.control.snapshot(&file).await.unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().len(), bytes);
    world.voter.shutdown().await;

    let place = Place::new(4, &world.path("voter-4")).await;
    let request =
        Restore { from: file, dir: place.dir.clone(), id: 4, advertise: place.addr.clone() };
    let restored = restore(&request).unwrap();
    assert_eq!(restored.workers, 1);
    assert!(restored.revision > old.revision && restored.epoch > old.ring.epoch);
    let again = restore(&request).unwrap_err().to_string();
    assert!(again.contains("is not empty"), "{again}");

    let control = control_of(&place.addr);
    let fourth = place.start(Vec::new()).await;
    let status = until(&control, "leader", |status| status.leader == Some(4)).await;
    assert_eq!(status.workers[0].id, WORKER);
    assert_eq!(control.rules().await.unwrap().unwrap().toml, RULES);
    fourth.shutdown().await;
}
