//! A membership against voters that do as the test says, over real sockets; time is the test's.

mod real;
pub(crate) mod voter;

use std::sync::Arc;
use std::time::Duration;

use forebay_rt::{Clock, ManualClock, SystemClock, SystemRng};
use forebay_types::{Epoch, RingSpec, View, WorkerId, WorkerInfo, WorkerState};
use forebay_wire::meta::FenceReply;

use super::lease::{FENCE_WAIT, QUARANTINE};
use super::*;
use voter::{FakeVoter, Role, secret};

const STEP: Duration = Duration::from_millis(100);
/// What [`STEP`] takes: a request and its answer have ten times that before they are given up.
const STEP_REALLY_TAKES: Duration = Duration::from_millis(10);
const STEPS_MAX: usize = 600;

/// The first voter leads.
struct World {
    clock: ManualClock,
    voters: Vec<FakeVoter>,
}

impl World {
    fn of(voters: usize) -> Self {
        let clock = ManualClock::new();
        let world = Self { voters: (0..voters).map(|_| FakeVoter::start(&clock)).collect(), clock };
        world.lead(0);
        world.publish(&view(1, 1));
        world
    }

    fn lead(&self, leader: usize) {
        for voter in &self.voters {
            voter.be(Role::Names(self.voters[leader].addr.clone()));
        }
        self.voters[leader].be(Role::Leads);
    }

    fn publish(&self, view: &View) {
        self.voters.iter().for_each(|voter| voter.publish(view));
    }

    fn join(&self) -> Arc<Membership> {
        self.join_with(None)
    }

    fn join_with(&self, kept: Option<View>) -> Arc<Membership> {
        Membership::join(MembershipConfig {
            me: worker(WorkerState::Joining),
            incarnation: 9,
            voters: self.voters.iter().map(|voter| voter.addr.clone()).collect(),
            secret: secret("test"),
            kept,
            clock: Arc::new(self.clock.clone()),
            rng: Arc::new(SystemRng),
            limits: Limits::default(),
        })
    }

    /// Lets time pass until `is_so`.
    async fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        for _ in 0..STEPS_MAX {
            if is_so() {
                return;
            }
            SystemClock.sleep(STEP_REALLY_TAKES).await;
            self.clock.advance(STEP);
        }
        panic!("never: {what}");
    }

    async fn pass(&self, time: Duration) {
        let end = self.clock.now() + time;
        self.until("time passes", || self.clock.now() >= end).await;
    }

    async fn until_vouching(&self, member: &Membership, epoch: u64) -> Instant {
        let vouches = || matches!(member.standing(Epoch(epoch)), Standing::Vouches { .. });
        self.until("the worker vouches", vouches).await;
        let Standing::Vouches { since } = member.standing(Epoch(epoch)) else { panic!("lapsed") };
        since
    }

    async fn fence_of(&self, member: &Arc<Membership>) -> Result<(), NoVoters> {
        let member = member.clone();
        let fence = spawn(async move { member.fence().await });
        self.until("the fence ends", || fence.is_finished()).await;
        fence.await.unwrap()
    }

    fn heartbeats(&self, voter: usize) -> usize {
        self.voters[voter].part.heartbeats.lock().len()
    }

    fn fences(&self) -> Vec<u64> {
        self.voters[0].part.fences.lock().clone()
    }
}

/// Waits for what needs no time of the test's to pass.
async fn soon(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..STEPS_MAX {
        if is_so() {
            return;
        }
        SystemClock.sleep(STEP_REALLY_TAKES).await;
    }
    panic!("not soon: {what}");
}

fn view(revision: u64, epoch: u64) -> View {
    View {
        revision,
        ring: RingSpec { epoch: Epoch(epoch), ..RingSpec::default() },
        ..View::default()
    }
}

fn worker(state: WorkerState) -> WorkerInfo {
    WorkerInfo {
        id: WorkerId(5),
        state,
        data_addr: "10.0.0.5:7001".to_owned(),
        s3_addr: "10.0.0.5:7000".to_owned(),
        zone: "a".to_owned(),
        capacity_bytes: 1 << 40,
    }
}

fn revision(member: &Membership) -> u64 {
    member.view().borrow().revision
}

#[tokio::test]
async fn a_worker_sees_each_new_view_and_never_an_older_one() {
    let world = World::of(1);
    let member = world.join();
    soon("the view is there", || revision(&member) == 1).await;
    world.publish(&view(3, 2));
    soon("the view follows", || revision(&member) == 3).await;
    assert_eq!(member.epoch(), Epoch(2));
    member.learn(view(4, 2));
    member.learn(view(2, 1));
    world.publish(&view(3, 2));
    world.pass(Duration::from_secs(6)).await;
    assert_eq!(revision(&member), 4);
}

#[tokio::test]
async fn a_worker_registers_with_whoever_leads() {
    let world = World::of(3);
    let member = world.join();
    soon("the first leader hears", || world.heartbeats(0) > 0).await;
    let first = world.voters[0].part.heartbeats.lock()[0].clone();
    assert_eq!(first.incarnation, 9);
    assert_eq!(WorkerInfo::try_from(first.worker.unwrap()).unwrap(), worker(WorkerState::Joining));
    soon("contact", || member.has_voters()).await;
    assert_eq!(member.contact().leader.as_ref(), Some(&world.voters[0].addr));

    world.lead(2);
    world.until("the next leader hears", || world.heartbeats(2) > 0).await;
    soon("the next leader is known", || {
        member.contact().leader.as_ref() == Some(&world.voters[2].addr)
    })
    .await;
    assert_eq!(world.heartbeats(1), 0);
}

#[tokio::test]
async fn a_leader_that_is_not_configured_is_found() {
    let mut world = World::of(2);
    world.lead(1);
    let leader = world.voters.pop().unwrap();
    let member = world.join();
    soon("the leader hears", || !leader.part.heartbeats.lock().is_empty()).await;
    soon("contact", || member.has_voters()).await;
}

#[tokio::test]
async fn a_worker_that_the_leader_will_not_have_knows_why() {
    let world = World::of(1);
    world.voters[0].be(Role::Refuses("its directory is copied"));
    let member = world.join();
    soon("the refusal", || member.contact().refused.is_some()).await;
    assert_eq!(member.contact().refused.unwrap(), "its directory is copied");
    world.voters[0].be(Role::Leads);
    world.until("it is taken back", || member.contact().refused.is_none()).await;
}

#[tokio::test]
async fn what_a_worker_wants_to_be_is_said_at_once() {
    let world = World::of(1);
    let member = world.join();
    soon("a first heartbeat", || world.heartbeats(0) > 0).await;
    for wanted in [WorkerState::Active, WorkerState::Draining] {
        member.set_wanted(wanted);
        let is_said = || {
            let heartbeats = world.voters[0].part.heartbeats.lock();
            let said = heartbeats.last().and_then(|heartbeat| heartbeat.worker.clone());
            WorkerInfo::try_from(said.unwrap()).unwrap() == worker(wanted)
        };
        soon("the wish is heard", is_said).await;
    }
}

#[tokio::test]
async fn the_view_goes_on_when_the_voter_that_is_followed_dies() {
    let mut world = World::of(3);
    let member = world.join();
    for alive in [2, 1] {
        soon("a voter is followed", || member.contact().follows.is_some()).await;
        let followed = member.contact().follows;
        world.voters.iter_mut().find(|v| Some(&v.addr) == followed.as_ref()).unwrap().kill();
        let next = revision(&member) + 1;
        world.publish(&view(next, 1));
        world.until(&format!("{alive} voters do as well"), || revision(&member) == next).await;
    }
}

#[tokio::test]
async fn the_view_goes_on_when_the_voter_that_is_followed_falls_silent() {
    let world = World::of(2);
    let member = world.join();
    soon("a voter is followed", || member.contact().follows.is_some()).await;
    let followed = member.contact().follows;
    world.voters.iter().find(|v| Some(&v.addr) == followed.as_ref()).unwrap().be_silent(true);
    world.publish(&view(2, 1));
    world.until("the other is followed", || revision(&member) == 2).await;
}

#[tokio::test]
async fn a_voter_that_lags_behind_is_left() {
    let world = World::of(2);
    let member = world.join();
    // The one that is followed goes on sending its view, and is told of no other.
    soon("a voter is followed", || member.contact().follows.is_some()).await;
    let follows = member.contact().follows;
    let followed = world.voters.iter().position(|v| Some(&v.addr) == follows.as_ref()).unwrap();
    world.lead(1 - followed);
    world.voters[1 - followed].publish(&view(2, 2));
    world.until("the leader is followed", || revision(&member) == 2).await;
    assert_eq!(member.contact().follows.as_ref(), Some(&world.voters[1 - followed].addr));
}

#[tokio::test]
async fn a_voter_that_only_repeats_what_is_old_is_left() {
    let world = World::of(2);
    let member = world.join();
    soon("a voter is followed", || member.contact().follows.is_some()).await;
    let follows = member.contact().follows;
    let other = world.voters.iter().find(|v| Some(&v.addr) != follows.as_ref()).unwrap();
    member.learn(view(5, 1));
    other.publish(&view(6, 1));
    world.until("the other is followed", || revision(&member) == 6).await;
}

#[tokio::test]
async fn a_lease_lapses_with_the_leader_and_comes_back_with_it() {
    let world = World::of(1);
    let member = world.join();
    let since = world.until_vouching(&member, 1).await;

    world.voters[0].be_silent(true);
    let silent_at = world.clock.now();
    world.until("it lapses", || member.standing(Epoch(1)) == Standing::Lapsed).await;
    assert!(world.clock.now() <= silent_at + LEASE + STEP);
    world.until("no contact", || !member.has_voters()).await;
    assert_eq!(member.contact().leader, None);
    world.pass(Duration::from_secs(10)).await;
    assert_eq!(member.standing(Epoch(1)), Standing::Lapsed);

    world.voters[0].be_silent(false);
    assert_eq!(world.until_vouching(&member, 1).await, since, "no second quarantine");
}

#[tokio::test]
async fn a_new_epoch_is_vouched_for_only_after_its_own_quarantine() {
    let world = World::of(1);
    let member = world.join();
    world.until_vouching(&member, 1).await;
    SystemClock.sleep(5 * STEP_REALLY_TAKES).await;
    let (begun_at, beats) = (world.clock.now(), world.heartbeats(0));
    world.publish(&view(2, 2));
    // Time stands still: only the change of epoch can be what the heartbeat is for.
    soon("a heartbeat is sent at once", || world.heartbeats(0) > beats).await;
    assert_eq!(member.standing(Epoch(2)), Standing::NotYet(QUARANTINE));
    let since = world.until_vouching(&member, 2).await;
    assert!(since >= begun_at + QUARANTINE);
    assert!(!matches!(member.standing(Epoch(1)), Standing::Vouches { .. }));
}

#[tokio::test]
async fn answers_for_another_epoch_than_the_views_keep_no_lease() {
    let world = World::of(1);
    let member = world.join();
    world.until_vouching(&member, 1).await;
    member.learn(view(9, 7));
    world.pass(QUARANTINE + LEASE).await;
    assert!(member.has_voters());
    assert_eq!(member.standing(Epoch(7)), Standing::Lapsed);
}

#[tokio::test]
async fn a_fence_begins_an_epoch_and_waits_until_the_older_leases_have_lapsed() {
    let world = World::of(3);
    let member = world.join();
    soon("the view is there", || member.epoch() == Epoch(1)).await;
    let called_at = world.clock.now();
    world.fence_of(&member).await.unwrap();
    assert!(world.clock.now() >= called_at + FENCE_WAIT);
    assert_eq!(world.fences(), [1]);
    assert_eq!(world.voters[0].part.view.borrow().ring.epoch, Epoch(2));
}

#[tokio::test]
async fn an_epoch_that_began_before_the_fence_does_not_count() {
    let world = World::of(1);
    let member = world.join();
    soon("the view is there", || member.epoch() == Epoch(1)).await;
    let replies = [FenceReply { epoch: 5, begun: false }, FenceReply { epoch: 6, begun: true }];
    world.voters[0].part.fence_replies.lock().extend(replies);
    world.fence_of(&member).await.unwrap();
    assert_eq!(world.fences(), [1, 5]);
}

#[tokio::test]
async fn a_fence_goes_on_until_it_has_begun_an_epoch_itself() {
    let world = World::of(1);
    let member = world.join();
    soon("the view is there", || member.epoch() == Epoch(1)).await;
    let mut replies: Vec<_> = (5..30).map(|epoch| FenceReply { epoch, begun: false }).collect();
    replies.push(FenceReply { epoch: 30, begun: true });
    world.voters[0].part.fence_replies.lock().extend(replies);
    world.fence_of(&member).await.unwrap();
    assert_eq!(world.fences().last(), Some(&29));
}

#[tokio::test]
async fn writers_that_come_while_a_fence_runs_share_the_next_one() {
    let world = World::of(1);
    let member = world.join();
    soon("the view is there", || member.epoch() == Epoch(1)).await;
    world.voters[0].be_silent(true);
    let call = || {
        let member = member.clone();
        spawn(async move { member.fence().await })
    };
    let first = call();
    soon("the first fence runs", || world.fences().len() == 1).await;
    let later: Vec<_> = (0..20).map(|_| call()).collect();
    tokio::task::yield_now().await;
    world.voters[0].be_silent(false);
    soon("the first has its epoch", || member.epoch() == Epoch(2)).await;
    world.until("the first is done", || first.is_finished()).await;
    assert!(later.iter().all(|fence| !fence.is_finished()));
    world.until("all are done", || later.iter().all(forebay_rt::Task::is_finished)).await;
    for fence in later {
        assert_eq!(fence.await.unwrap(), Ok(()));
    }
    assert_eq!(world.fences(), [1, 2]);
}

#[tokio::test]
async fn without_voters_a_fence_gives_up() {
    let world = World::of(2);
    let member = world.join();
    soon("the view is there", || member.epoch() == Epoch(1)).await;
    world.voters.iter().for_each(|voter| voter.be(Role::KnowsNoLeader));
    let called_at = world.clock.now();
    assert_eq!(world.fence_of(&member).await, Err(NoVoters));
    assert!(world.clock.now() <= called_at + Limits::default().fence + 5 * STEP);
}

#[tokio::test]
async fn the_kept_view_stands_while_no_voter_answers() {
    let mut world = World::of(3);
    world.voters.iter_mut().for_each(FakeVoter::kill);
    let member = world.join_with(Some(view(8, 4)));
    world.pass(Duration::from_secs(20)).await;
    assert_eq!(revision(&member), 8);
    assert_eq!(member.standing(Epoch(4)), Standing::Lapsed);
    assert!(!member.has_voters());
    member.learn(view(9, 5));
    assert_eq!(member.epoch(), Epoch(5), "a peer may know more");
}

#[tokio::test]
async fn a_worker_that_left_is_heard_of_no_more() {
    let world = World::of(1);
    for is_dropped in [true, false] {
        let member = world.join();
        let before = world.heartbeats(0);
        soon("it is heard of", || world.heartbeats(0) > before).await;
        if is_dropped {
            drop(member);
        } else {
            member.leave().await;
            assert_eq!(member.fence().await, Err(NoVoters));
        }
        SystemClock.sleep(STEP_REALLY_TAKES).await;
        let left = world.heartbeats(0);
        world.pass(Duration::from_secs(5)).await;
        assert_eq!(world.heartbeats(0), left);
    }
}
