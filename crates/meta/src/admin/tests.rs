use std::sync::Arc;

use forebay_rt::{Clock, ManualClock, SystemClock, SystemRng, spawn};

use super::*;
use crate::worker::tests::voter::{FakeVoter, Role, secret};

/// The last voter leads; the operator's time stands still unless a test moves it.
struct World {
    clock: ManualClock,
    voters: Vec<FakeVoter>,
}

impl World {
    fn of(voters: usize) -> Self {
        let clock = ManualClock::new();
        let voters: Vec<_> = (0..voters).map(|_| FakeVoter::start(&clock)).collect();
        let (leader, others) = voters.split_last().unwrap();
        for voter in others {
            voter.be(Role::Names(leader.addr.clone()));
        }
        Self { clock, voters }
    }

    fn leader(&self) -> &FakeVoter {
        self.voters.last().unwrap()
    }

    fn admin(&self) -> Admin {
        self.admin_with("test")
    }

    fn admin_with(&self, text: &str) -> Admin {
        let addrs: Vec<_> = self.voters.iter().map(|voter| voter.addr.clone()).collect();
        admin_of(&addrs, text, &self.clock)
    }
}

fn admin_of(addrs: &[String], text: &str, clock: &ManualClock) -> Admin {
    let rng: SharedRng = Arc::new(SystemRng);
    Admin::new(addrs, secret(text), Arc::new(clock.clone()), &rng)
}

#[tokio::test]
async fn changes_find_the_leader() {
    let world = World::of(3);
    let admin = world.admin();
    let worker = WorkerId(0xab);
    assert_eq!(admin.drain(worker).await.unwrap(), 1);
    admin.undrain(worker).await.unwrap();
    admin.forget_worker(worker).await.unwrap();
    admin.set_ring(RingConfig { virtual_nodes: 100, seed: 4 }).await.unwrap();
    admin.set_rules("[[bucket]]").await.unwrap();
    admin.remove_voter(2).await.unwrap();
    let asked = [
        "drain 171 true",
        "drain 171 false",
        "forget 171",
        "ring 100 4",
        "rules [[bucket]]",
        "remove 2",
    ];
    assert_eq!(*world.leader().part.changes.lock(), asked);
}

#[tokio::test]
async fn a_new_voter_is_asked_who_it_is() {
    let (world, newcomer) = (World::of(3), FakeVoter::start(&ManualClock::new()));
    world.admin().add_voter(&newcomer.addr).await.unwrap();
    let added = format!("add 1 {} 7", newcomer.addr);
    assert_eq!(*world.leader().part.changes.lock(), [added]);

    let error = world.admin().add_voter("127.0.0.1:1").await.unwrap_err();
    assert!(error.to_string().contains("127.0.0.1:1: Connection refused"), "{error}");
}

#[tokio::test]
async fn status_shows_every_voter_also_a_dead_and_an_unlisted_one() {
    let mut world = World::of(3);
    let unlisted = world.voters.remove(0);
    let group: Vec<_> = [&unlisted, &world.voters[0], &world.voters[1]].map(named).into();
    world.voters[0].part.group.lock().splice(.., [group[1].clone(), group[0].clone()]);
    world.voters[1].kill();
    let port = world.voters[0].addr.rsplit_once(':').unwrap().1;
    let by_name = format!("localhost:{port}");
    let addrs = [by_name.clone(), world.voters[1].addr.clone()];
    let statuses = admin_of(&addrs, "test", &world.clock).status().await;
    let of = |asked: &str| &statuses.iter().find(|(addr, _)| addr == asked).unwrap().1;
    assert_eq!(statuses.len(), 3, "no voter twice, also not under two names");
    assert_eq!(of(&by_name).as_ref().unwrap().term, 3);
    assert_eq!(of(&unlisted.addr).as_ref().unwrap().me, group[0]);
    let dead = of(&world.voters[1].addr).as_ref().unwrap_err().to_string();
    assert!(dead.contains("Connection refused"), "{dead}");
}

fn named(voter: &FakeVoter) -> Voter {
    Voter { id: 1, addr: voter.addr.clone(), disk_id: 7 }
}

#[tokio::test]
async fn an_error_says_which_voters_were_asked_and_what_each_did() {
    let mut world = World::of(2);
    world.voters.iter_mut().for_each(FakeVoter::kill);
    let error = world.admin().drain(WorkerId(1)).await.unwrap_err();
    assert!(matches!(error, AdminError::NoVoter(_)), "{error}");
    for voter in &world.voters {
        let expected = format!("{}: Connection refused", voter.addr);
        assert!(error.to_string().contains(&expected), "{error}");
    }

    let error = admin_of(&[], "test", &world.clock).drain(WorkerId(1)).await.unwrap_err();
    assert!(error.to_string().contains("none is configured"), "{error}");
}

#[tokio::test]
async fn a_wrong_secret_is_named_as_such() {
    let world = World::of(1);
    let error = world.admin_with("else").drain(WorkerId(1)).await.unwrap_err();
    assert!(matches!(error, AdminError::NoVoter(_)), "{error}");
    assert!(error.to_string().contains("another cluster secret"), "{error}");
}

#[tokio::test]
async fn without_a_majority_the_way_out_is_named() {
    let mut world = World::of(3);
    world.voters[0].be(Role::KnowsNoLeader);
    world.voters[2].kill();
    let error = world.admin().drain(WorkerId(1)).await.unwrap_err();
    assert!(matches!(error, AdminError::NoLeader(_)), "{error}");
    assert!(error.to_string().contains("forebay meta restore"), "{error}");
}

#[tokio::test]
async fn what_the_leader_refuses_is_said_in_its_words() {
    let world = World::of(1);
    world.leader().be(Role::Refuses("no such worker"));
    let error = world.admin().drain(WorkerId(1)).await.unwrap_err();
    assert_eq!(error.to_string(), "the voters refuse: no such worker");
}

#[tokio::test]
async fn a_change_that_is_not_answered_may_have_been_made() {
    let world = World::of(1);
    let admin = world.admin();
    admin.drain(WorkerId(1)).await.unwrap();
    world.leader().be_silent(true);
    let drain = spawn(async move { admin.drain(WorkerId(1)).await });
    while !drain.is_finished() {
        SystemClock.sleep(Duration::from_millis(5)).await;
        world.clock.advance(Duration::from_secs(1));
    }
    let error = drain.await.unwrap().unwrap_err();
    assert!(matches!(error, AdminError::Unsure(_)), "{error}");
}

#[tokio::test]
async fn a_snapshot_is_written_whole_or_is_an_error() {
    let world = World::of(3);
    let admin = world.admin();
    let piece = |byte: u8| Ok(Chunk { data: vec![byte; 1 << 20].into() });
    *world.leader().part.snapshot.lock() = vec![piece(1), piece(2)];
    let mut written = Vec::new();
    assert_eq!(admin.snapshot(&mut written).await.unwrap(), 2 << 20);
    assert_eq!(written, [vec![1; 1 << 20], vec![2; 1 << 20]].concat());

    *world.leader().part.snapshot.lock() = vec![piece(1), Err(Status::internal("disk broke"))];
    let error = admin.snapshot(&mut Vec::new()).await.unwrap_err();
    assert!(matches!(&error, AdminError::Broken(_)) && error.to_string().contains("disk broke"));
}
