//! How a group comes into being, survives restarts, and changes its voters.

use std::time::Duration;

use forebay_wire::control;
use forebay_wire::meta::control_client::ControlClient;
use forebay_wire::meta::raft_client::RaftClient;
use forebay_wire::meta::{
    Frame, HelloRequest, RemoveVoterRequest, SetRingRequest, StatusRequest, Voter,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;

use crate::support::{Voters, code, handshake, now, quick, sleep};

#[tokio::test(flavor = "multi_thread")]
async fn three_voters_form_one_group() {
    let voters = Voters::formed(3, quick()).await;
    for index in 0..3 {
        let status = voters.eventually("a formed group", async || {
            voters.status(index).await.ok().filter(|status| status.voters.len() == 3)
        });
        let status = status.await;
        assert_eq!(status.me.unwrap().id, voters.seats[index].id);
        assert_eq!(status.learners, []);
        let disks: std::collections::HashSet<_> =
            status.voters.iter().map(|voter| voter.disk_id).collect();
        assert_eq!(disks.len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_group_is_formed_until_every_initial_voter_is_there() {
    let mut voters = Voters::seated(3, quick()).await;
    voters.start(0).await;
    voters.start(1).await;
    sleep(Duration::from_millis(1500)).await;
    for index in 0..2 {
        let status = voters.status(index).await.unwrap();
        assert_eq!((status.voters, status.term), (vec![], 0));
    }
    voters.start(2).await;
    voters.leader().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_leader_is_there_three_seconds_after_the_old_one_left() {
    let mut voters = Voters::formed(3, forebay_meta::Timings::default()).await;
    let before = voters.set_ring(1).await.revision;
    let leader = voters.leader().await;
    let left = now();
    voters.stop(leader).await;
    let next = voters.leader().await;
    let took = left.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(voters.view(next).await.revision, before);
    voters.set_ring(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_agreed_on_survives_a_restart_of_all() {
    let mut voters = Voters::formed(3, quick()).await;
    let workers = voters.active_workers(1..=3).await;
    drop(workers);
    voters.fence(voters.leaders_view().await.ring.epoch.0).await;
    let before = voters.leaders_view().await;
    for index in 0..3 {
        voters.stop(index).await;
    }
    for index in 0..3 {
        voters.start(index).await;
    }
    assert_eq!(voters.leaders_view().await, before);
    voters.all_see(before.revision).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_voter_alone_is_a_group() {
    let mut voters = Voters::formed(1, quick()).await;
    let _workers = voters.active_workers(1..=2).await;
    let before = voters.leaders_view().await;
    voters.stop(0).await;
    voters.start(0).await;
    voters.leader().await;
    assert_eq!(voters.leaders_view().await.ring, before.ring);
}

/// A voter that forgot how it voted could vote twice in a term, and elect two leaders.
#[tokio::test(flavor = "multi_thread")]
async fn a_voter_that_lost_its_directory_has_no_vote_under_its_old_id() {
    let mut voters = Voters::formed(3, quick()).await;
    let revision = voters.set_ring(1).await.revision;
    voters.all_see(revision).await;
    let (leader, lost) = (voters.leader().await, voters.follower().await);
    voters.stop(lost).await;
    voters.wipe(lost);
    voters.start(lost).await;
    // With the third voter gone, the wiped one would be half of a majority.
    let third = voters.running().find(|index| *index != lost && *index != leader).unwrap();
    voters.stop(third).await;
    sleep(Duration::from_secs(3)).await;
    let request = SetRingRequest { virtual_nodes: 100, seed: 2 };
    assert_ne!(code(voters.control(leader).set_ring(request).await), Code::Ok);
    let wiped = voters.status(lost).await.unwrap();
    assert_eq!((wiped.voters, wiped.term, wiped.last_log_index), (vec![], 0, 0));

    voters.start(third).await;
    assert!(voters.leaders_view().await.revision >= revision);
    let wiped = voters.status(lost).await.unwrap();
    assert_eq!((wiped.voters, wiped.term, wiped.last_log_index), (vec![], 0, 0));
}

/// Even if it is the one that forms groups, and even if it finds nobody at first.
#[tokio::test(flavor = "multi_thread")]
async fn a_voter_that_lost_its_directory_forms_no_second_group() {
    let mut voters = Voters::formed(3, quick()).await;
    let revision = voters.set_ring(1).await.revision;
    voters.all_see(revision).await;
    for index in 0..3 {
        voters.stop(index).await;
    }
    voters.wipe(0);
    voters.start(0).await;
    sleep(Duration::from_millis(500)).await;
    voters.start(1).await;
    voters.start(2).await;
    assert_ne!(voters.leader().await, 0);
    sleep(Duration::from_millis(500)).await;
    assert_eq!(voters.status(0).await.unwrap().voters, []);
    assert_eq!(voters.leaders_view().await.revision, revision);
}

#[tokio::test(flavor = "multi_thread")]
async fn voters_are_added_removed_and_replaced() {
    let mut voters = Voters::formed(3, quick()).await;
    let revision = voters.set_ring(1).await.revision;
    add(&mut voters, 4).await;
    let status = voters.status(voters.leader().await).await.unwrap();
    assert_eq!(status.voters.iter().map(|voter| voter.id).collect::<Vec<_>>(), [1, 2, 3, 4]);
    voters.all_see(revision).await;

    // The leader itself, and with it the next one.
    for left in [3, 2] {
        let leader = voters.leader().await;
        let id = voters.seats[leader].id;
        voters.control(leader).remove_voter(RemoveVoterRequest { id }).await.unwrap();
        voters.stop(leader).await;
        let next = voters.leader().await;
        assert_eq!(voters.status(next).await.unwrap().voters.len(), left);
        voters.set_ring(left as u64).await;
    }
    let mut leader = voters.control(voters.leader().await);
    let unknown = leader.remove_voter(RemoveVoterRequest { id: 99 }).await;
    assert_eq!(code(unknown), Code::NotFound);
}

/// Starts a voter with an empty directory and adds it.
async fn add(voters: &mut Voters, id: u64) -> usize {
    let seat = voters.add_seat(id).await;
    voters.start_knowing(seat, Vec::new()).await;
    let me = hello(voters, seat).await;
    voters.control(voters.leader().await).add_voter(me).await.unwrap();
    seat
}

async fn hello(voters: &Voters, seat: usize) -> Voter {
    let mut raft = RaftClient::new(control::channel(&voters.addr(seat), handshake("s")));
    raft.hello(HelloRequest {}).await.unwrap().into_inner().me.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_voter_takes_its_directory_to_another_address() {
    let mut voters = Voters::formed(3, quick()).await;
    let (leader, moves) = (voters.leader().await, voters.follower().await);
    voters.stop(moves).await;
    voters.move_seat(moves).await;
    voters.start(moves).await;
    let me = hello(&voters, moves).await;
    let wrong = Voter { addr: voters.addr(leader), ..me.clone() };
    assert_eq!(code(voters.control(leader).add_voter(wrong).await), Code::InvalidArgument);
    voters.control(leader).add_voter(me.clone()).await.unwrap();
    let status = voters.status(leader).await.unwrap();
    assert!(status.voters.contains(&me));
    assert_eq!((status.voters.len(), status.learners), (3, vec![]));
    // It is heard at its new address: with it, the group does without the third.
    let third = voters.running().find(|index| *index != leader && *index != moves).unwrap();
    voters.stop(third).await;
    voters.set_ring(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_voter_that_never_voted_is_added() {
    let mut voters = Voters::formed(1, quick()).await;
    let mut other = Voters::formed(1, quick()).await;
    let stranger = hello(&other, 0).await;
    let mut leader = voters.control(0);
    let taken = Voter { id: 1, ..stranger.clone() };
    assert_eq!(code(leader.add_voter(taken).await), Code::AlreadyExists);
    let elsewhere = Voter { id: 2, ..stranger };
    assert_eq!(code(leader.add_voter(elsewhere).await), Code::InvalidArgument);

    let seat = other.add_seat(2).await;
    other.start_knowing(seat, Vec::new()).await;
    let newcomer = hello(&other, seat).await;
    other.control(0).add_voter(newcomer.clone()).await.unwrap();
    other.control(0).add_voter(newcomer.clone()).await.unwrap();
    let refused = leader.add_voter(newcomer).await;
    assert_eq!(code(refused), Code::AlreadyExists, "it belongs to the other group");
    let last = leader.remove_voter(RemoveVoterRequest { id: 1 }).await;
    assert_eq!(code(last), Code::InvalidArgument);
    voters.stop(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_voter_that_was_away_for_long_gets_the_snapshot() {
    let timings = forebay_meta::Timings { snapshot_logs: 20, ..quick() };
    let mut voters = Voters::formed(3, timings).await;
    let away = voters.follower().await;
    voters.stop(away).await;
    let mut revision = 0;
    for seed in 1..=120 {
        revision = voters.set_ring(seed).await.revision;
    }
    let leader = voters.leader().await;
    let status = voters.status(leader).await.unwrap();
    assert!(status.snapshot_index >= 100, "at {}", status.snapshot_index);
    voters.start(away).await;
    voters.all_see(revision).await;
    assert!(voters.status(away).await.unwrap().snapshot_index >= 100);
    // And it can vote: the group goes on without another one.
    let other = voters.running().find(|index| *index != away && *index != leader).unwrap();
    voters.stop(other).await;
    voters.set_ring(1000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_refused() {
    let voters = Voters::formed(1, quick()).await;
    let addr = voters.addr(0);
    let mut control = ControlClient::new(control::channel(&addr, handshake("other")));
    assert_ne!(code(control.status(StatusRequest {}).await), Code::Ok);
    let mut raft = RaftClient::new(control::channel(&addr, handshake("other")));
    assert_ne!(code(raft.hello(HelloRequest {}).await), Code::Ok);

    let mut plain = TcpStream::connect(&addr).await.unwrap();
    plain.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut reply = Vec::new();
    let _ = plain.read_to_end(&mut reply).await;
    assert!(reply.len() < 16, "no gRPC without the handshake: {reply:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_for_another_disk_or_of_no_sense_is_refused() {
    let voters = Voters::formed(1, quick()).await;
    let disk_id = hello(&voters, 0).await.disk_id;
    let mut raft = RaftClient::new(control::channel(&voters.addr(0), handshake("s")));
    let foreign = Frame { disk_id: disk_id ^ 1, data: vec![1, 0].into() };
    assert_eq!(code(raft.vote(foreign.clone()).await), Code::FailedPrecondition);
    assert_eq!(code(raft.append(foreign.clone()).await), Code::FailedPrecondition);
    let stream = futures_util::stream::iter([foreign]);
    assert_eq!(code(raft.install_snapshot(stream).await), Code::FailedPrecondition);
    let garbage = Frame { disk_id, data: vec![1, 0xff, 0xff].into() };
    assert_eq!(code(raft.vote(garbage.clone()).await), Code::InvalidArgument);
    assert_eq!(code(raft.append(garbage).await), Code::InvalidArgument);
    let newer = Frame { disk_id, data: vec![2, 0].into() };
    assert_eq!(code(raft.vote(newer).await), Code::InvalidArgument);
    assert_eq!(voters.leader().await, 0);
}
