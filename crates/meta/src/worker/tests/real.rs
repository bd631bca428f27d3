//! Memberships and an operator with real voters, in real time.

use tempfile::TempDir;
use tokio::net::TcpListener;

use super::*;
use crate::admin::Admin;
use crate::{Timings, Voter, VoterConfig};

struct Group {
    addrs: Vec<String>,
    voters: Vec<(Voter, TempDir)>,
}

impl Group {
    async fn of_three() -> Self {
        let mut group = Self { addrs: Vec::new(), voters: Vec::new() };
        let mut listeners = Vec::new();
        for _ in 0..3 {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            group.addrs.push(listener.local_addr().unwrap().to_string());
            listeners.push(listener);
        }
        let initial_voters: Vec<_> = (1..).zip(group.addrs.clone()).collect();
        for ((id, advertise), listener) in initial_voters.clone().into_iter().zip(listeners) {
            let dir = TempDir::new().unwrap();
            let voter = Voter::start(VoterConfig {
                id,
                dir: dir.path().join("raft"),
                listener,
                advertise,
                initial_voters: initial_voters.clone(),
                secret: secret("test"),
                timings: Timings::default(),
                clock: Arc::new(SystemClock),
                rng: Arc::new(SystemRng),
            });
            group.voters.push((voter.await.unwrap(), dir));
        }
        group
    }

    fn join(&self, id: u64) -> Arc<Membership> {
        Membership::join(MembershipConfig {
            me: WorkerInfo { id: WorkerId(id), ..worker(WorkerState::Active) },
            incarnation: id,
            voters: self.addrs.clone(),
            secret: secret("test"),
            kept: None,
            clock: Arc::new(SystemClock),
            rng: Arc::new(SystemRng),
            limits: Limits::default(),
        })
    }

    fn admin(&self) -> Admin {
        let rng: SharedRng = Arc::new(SystemRng);
        Admin::new(&self.addrs, secret("test"), Arc::new(SystemClock), &rng)
    }
}

/// Looks for half a minute.
async fn in_time(what: &str, is_so: impl Fn() -> bool) {
    let end = SystemClock.now() + Duration::from_secs(30);
    while !is_so() {
        assert!(SystemClock.now() < end, "never: {what}");
        SystemClock.sleep(Duration::from_millis(10)).await;
    }
}

fn vouches_since(member: &Membership) -> Option<Instant> {
    match member.standing(member.epoch()) {
        Standing::Vouches { since } => Some(since),
        Standing::NotYet(_) | Standing::Lapsed => None,
    }
}

#[tokio::test]
async fn a_change_of_leader_costs_no_quarantine_a_fence_costs_everybody_one() {
    let group = Group::of_three().await;
    let (one, two) = (group.join(5), group.join(6));
    in_time("both are in the ring", || two.view().borrow().ring.members.len() == 2).await;
    in_time("both vouch", || vouches_since(&one).is_some() && vouches_since(&two).is_some()).await;
    let (epoch, since) = (two.epoch(), vouches_since(&two));
    assert_eq!(one.epoch(), epoch);

    let leader = one.contact().leader.unwrap();
    let place = group.addrs.iter().position(|addr| *addr == leader).unwrap();
    group.voters[place].0.shutdown().await;
    in_time("another leads", || two.contact().leader.is_some_and(|next| next != leader)).await;
    in_time("both vouch again", || vouches_since(&one).is_some() && vouches_since(&two).is_some())
        .await;
    assert_eq!((two.epoch(), vouches_since(&two)), (epoch, since));

    let called_at = SystemClock.now();
    one.fence().await.unwrap();
    assert!(!matches!(two.standing(epoch), Standing::Vouches { .. }));
    in_time("the new epoch is seen", || two.epoch() > epoch).await;
    in_time("it is vouched for", || vouches_since(&two).is_some()).await;
    assert!(vouches_since(&two).unwrap() >= called_at + QUARANTINE);
}

#[tokio::test]
async fn an_operator_drains_a_worker_and_keeps_a_snapshot() {
    let group = Group::of_three().await;
    let member = group.join(5);
    in_time("the worker is in the ring", || member.view().borrow().ring.members.len() == 1).await;
    let admin = group.admin();
    let drained = admin.drain(WorkerId(5)).await.unwrap();
    in_time("it is drained", || {
        let view = member.view().borrow().clone();
        let state = view.worker(WorkerId(5)).unwrap().state;
        view.revision >= drained && state == WorkerState::Draining && view.ring.members.is_empty()
    })
    .await;
    assert!(admin.drain(WorkerId(99)).await.unwrap_err().to_string().contains("no such worker"));
    let mut file = Vec::new();
    assert_eq!(admin.snapshot(&mut file).await.unwrap(), file.len() as u64);
    assert!(!file.is_empty());
    let statuses = admin.status().await;
    assert_eq!(statuses.len(), 3);
    assert!(statuses.iter().all(|(_, status)| status.as_ref().unwrap().voters.len() == 3));
}
