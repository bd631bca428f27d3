//! What heartbeats bring about, and what their answers are worth.

use std::time::Duration;

use forebay_types::WorkerState;
use forebay_wire::meta::HeartbeatRequest;
use forebay_wire::view::WorkerState as Wire;
use tonic::Code;

use crate::support::{Voters, code, heartbeat, now, quick, sleep};

#[tokio::test(flavor = "multi_thread")]
async fn the_first_heartbeat_registers_and_an_active_one_joins() {
    let voters = Voters::formed(3, quick()).await;
    voters.beat(7, Wire::Joining).await;
    voters
        .eventually("registration", async || {
            (voters.state_of(7).await? == WorkerState::Joining).then_some(())
        })
        .await;
    assert_eq!(voters.leaders_view().await.ring.members, []);
    voters.beat(7, Wire::Active).await;
    let epoch = voters
        .eventually("joining", async || {
            let view = voters.leaders_view().await;
            (view.ring.members.len() == 1).then_some(view.ring.epoch.0)
        })
        .await;
    assert_eq!(voters.beat(7, Wire::Active).await.epoch, epoch);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_lead_names_the_leader() {
    let voters = Voters::formed(3, quick()).await;
    let (leader, follower) = (voters.leader().await, voters.follower().await);
    voters
        .eventually("the leader's name", async || {
            let asked = voters.control(follower).heartbeat(heartbeat(1, Wire::Active)).await;
            let status = asked.unwrap_err();
            let named = status.metadata().get("forebay-leader")?.to_str().unwrap().to_owned();
            assert_eq!((status.code(), named), (Code::FailedPrecondition, voters.addr(leader)));
            Some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_without_a_majority_answers_no_heartbeat() {
    let mut voters = Voters::formed(3, quick()).await;
    let leader = voters.leader().await;
    let age = voters.beat(1, Wire::Active).await.quorum_age_ms;
    assert!(age < 1_000, "{age}");
    for index in (0..3).filter(|index| *index != leader) {
        voters.stop(index).await;
    }
    let (alone, limit) = (now(), Duration::from_millis(1_500));
    let mut last_answer = alone;
    while alone.elapsed() < 2 * limit {
        let asked = now();
        if let Ok(reply) = voters.control(leader).heartbeat(heartbeat(1, Wire::Active)).await {
            let age = Duration::from_millis(reply.into_inner().quorum_age_ms);
            assert!(asked <= alone + age + Duration::from_millis(200), "confirmed by nobody");
            last_answer = asked;
        }
        sleep(Duration::from_millis(50)).await;
    }
    assert!(last_answer < alone + limit);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_worker_is_marked_down_and_comes_back() {
    let voters = Voters::formed(3, quick()).await;
    let _others = voters.active_workers(2..=4).await;
    let first = voters.workers([1]);
    voters
        .eventually("worker 1", async || {
            (voters.state_of(1).await? == WorkerState::Active).then_some(())
        })
        .await;
    sleep(voters.timings.grace).await;
    let silent = now();
    drop(first);
    voters
        .eventually("worker 1 down", async || {
            (voters.state_of(1).await? == WorkerState::Down).then_some(())
        })
        .await;
    // The last heartbeat may have been that long before.
    assert!(silent.elapsed() + Duration::from_millis(200) > voters.timings.down_after);
    assert_eq!(voters.leaders_view().await.ring.members.len(), 3);
    let _first = voters.workers([1]);
    voters
        .eventually("worker 1 back", async || {
            (voters.state_of(1).await? == WorkerState::Active).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_leaders_takes_no_worker_out_of_the_ring() {
    let mut voters = Voters::formed(3, quick()).await;
    let _workers = voters.active_workers(1..=3).await;
    let before = voters.leaders_view().await;
    let leader = voters.leader().await;
    voters.stop(leader).await;
    voters.leader().await;
    sleep(voters.timings.grace + 2 * voters.timings.down_after).await;
    assert_eq!(voters.leaders_view().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_third_of_the_ring_is_marked_down_at_most() {
    let voters = Voters::formed(1, quick()).await;
    let workers = voters.active_workers(1..=6).await;
    drop(workers);
    sleep(voters.timings.grace + 3 * voters.timings.down_after).await;
    let view = voters.leaders_view().await;
    let down = view.workers.iter().filter(|worker| worker.state == WorkerState::Down).count();
    assert_eq!((down, view.ring.members.len()), (2, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_processes_with_one_identity_the_older_is_refused() {
    let voters = Voters::formed(1, quick()).await;
    voters.beat(1, Wire::Active).await;
    let newer = HeartbeatRequest { incarnation: 2, ..heartbeat(1, Wire::Active) };
    voters.control(0).heartbeat(newer).await.unwrap();
    let older = voters.control(0).heartbeat(heartbeat(1, Wire::Active)).await;
    assert_eq!(code(older), Code::AlreadyExists);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_that_makes_no_sense_is_refused() {
    let voters = Voters::formed(1, quick()).await;
    let mut control = voters.control(0);
    let nobody = HeartbeatRequest { worker: None, incarnation: 1 };
    assert_eq!(code(control.heartbeat(nobody).await), Code::InvalidArgument);
    for wish in [Wire::Down, Wire::Unspecified] {
        assert_eq!(code(control.heartbeat(heartbeat(1, wish)).await), Code::InvalidArgument);
    }
    let mut long = heartbeat(1, Wire::Active);
    long.worker.as_mut().unwrap().data_addr = "x".repeat(256);
    assert_eq!(code(control.heartbeat(long).await), Code::InvalidArgument);
    assert_eq!(voters.leaders_view().await.workers, []);
}
