//! What operators and writers ask for, and how followers of the view learn of it.

use std::time::Duration;

use forebay_rt::{SystemClock, timeout};
use forebay_types::{View, WorkerState};
use forebay_wire::meta::{
    DrainRequest, FenceRequest, ForgetWorkerRequest, SetRingRequest, SetRulesRequest, WatchRequest,
};
use forebay_wire::view;
use futures_util::future::join_all;
use tonic::{Code, Streaming};

use crate::support::{Voters, code, now, quick, sleep};

async fn watch(voters: &Voters, index: usize) -> Streaming<view::View> {
    voters.control(index).watch(WatchRequest { revision: 0 }).await.unwrap().into_inner()
}

async fn next(views: &mut Streaming<view::View>) -> View {
    let next = timeout(&SystemClock, Duration::from_secs(5), views.message()).await.unwrap();
    next.unwrap().unwrap().try_into().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_voter_streams_the_view_and_its_changes() {
    let voters = Voters::formed(3, quick()).await;
    let first = voters.set_ring(1).await.revision;
    voters.all_see(first).await;
    let mut streams = Vec::new();
    for index in 0..3 {
        let mut views = watch(&voters, index).await;
        assert_eq!(next(&mut views).await.revision, first, "at once");
        streams.push(views);
    }
    let second = voters.set_ring(2).await.revision;
    for views in &mut streams {
        let mut view = next(views).await;
        while view.revision == first {
            view = next(views).await;
        }
        assert_eq!((view.revision, view.ring.config.seed), (second, 2));
        let began = now();
        assert_eq!(next(views).await.revision, second, "and again, to show that it lives");
        assert!(began.elapsed() < 4 * voters.timings.watch_keep_alive);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_when_its_voter_is_shut_down() {
    let mut voters = Voters::formed(1, quick()).await;
    let mut views = watch(&voters, 0).await;
    next(&mut views).await;
    let began = now();
    voters.stop(0).await;
    assert!(began.elapsed() < Duration::from_secs(2));
    while let Ok(Some(_)) = views.message().await {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_voter_outside_a_group_has_no_view() {
    let mut voters = Voters::seated(3, quick()).await;
    voters.start(0).await;
    let refused = voters.control(0).watch(WatchRequest { revision: 0 }).await;
    assert_eq!(code(refused), Code::Unavailable);
    let leaderless = voters.control(0).fence(FenceRequest { epoch: 0 }).await;
    assert_eq!(code(leaderless), Code::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_fences_for_one_epoch_one_counts() {
    let voters = Voters::formed(3, quick()).await;
    let _workers = voters.active_workers(1..=2).await;
    let leader = voters.leader().await;
    let epoch = voters.leaders_view().await.ring.epoch.0;
    let fence =
        async |_| voters.control(leader).fence(FenceRequest { epoch }).await.unwrap().into_inner();
    let replies = join_all((0..20).map(fence)).await;
    assert_eq!(replies.iter().filter(|reply| reply.begun).count(), 1);
    assert!(replies.iter().all(|reply| reply.epoch == epoch + 1));
    let view = voters.leaders_view().await;
    assert_eq!((view.ring.epoch.0, view.previous.len()), (epoch + 1, 0));
    let early = voters.control(leader).fence(FenceRequest { epoch: epoch + 9 }).await;
    assert_eq!(code(early), Code::OutOfRange);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operators_drain_wins_over_the_workers_wish() {
    let voters = Voters::formed(1, quick()).await;
    let _workers = voters.active_workers(1..=3).await;
    let drain = |drain| DrainRequest { worker: 2, drain };
    let revision = voters.control(0).drain(drain(true)).await.unwrap().into_inner().revision;
    assert_eq!(voters.view(0).await.revision, revision);
    sleep(voters.timings.down_after).await;
    assert_eq!(voters.state_of(2).await, Some(WorkerState::Draining));
    assert_eq!(voters.view(0).await.ring.members.len(), 2);
    voters.control(0).drain(drain(false)).await.unwrap();
    assert_eq!(voters.state_of(2).await, Some(WorkerState::Active));
    let unknown = voters.control(0).drain(DrainRequest { worker: 9, drain: true }).await;
    assert_eq!(code(unknown), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_forgotten_only_once_it_is_out() {
    let voters = Voters::formed(1, quick()).await;
    let workers = voters.active_workers(1..=1).await;
    let forget = || ForgetWorkerRequest { worker: 1 };
    assert_eq!(code(voters.control(0).forget(forget()).await), Code::FailedPrecondition);
    drop(workers);
    voters.control(0).drain(DrainRequest { worker: 1, drain: true }).await.unwrap();
    voters.control(0).forget(forget()).await.unwrap();
    assert_eq!(voters.state_of(1).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_and_ring_are_checked_before_they_are_agreed_on() {
    let voters = Voters::formed(1, quick()).await;
    let mut control = voters.control(0);
    let set = |toml: String| SetRulesRequest { toml };
    control.set_rules(set("[[bucket]]".into())).await.unwrap();
    let long = control.set_rules(set("#".repeat((512 << 10) + 1))).await;
    assert_eq!(code(long), Code::InvalidArgument);
    let none = control.set_ring(SetRingRequest { virtual_nodes: 0, seed: 0 }).await;
    assert_eq!(code(none), Code::InvalidArgument);
    let longest = "#".repeat(512 << 10);
    control.set_rules(set(longest.clone())).await.unwrap();
    let rules = voters.view(0).await.rules.unwrap();
    assert_eq!((rules.version, rules.toml), (2, longest));
}
