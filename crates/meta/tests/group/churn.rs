//! What holds while voters come and go and epochs begin: nothing that was answered is lost, no
//! view goes back, and no heartbeat's answer is worth more than it says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use forebay_rt::{SystemClock, Task, spawn, timeout};
use forebay_wire::meta::{FenceRequest, StatusRequest};
use forebay_wire::view::WorkerState;

use crate::support::{Control, Voters, heartbeat, now, quick, sleep};

const ROUNDS: usize = 6;

/// What was seen from outside.
#[derive(Default)]
struct Seen {
    /// When a fence was answered, and the epoch that had begun then.
    fences: Vec<(Instant, u64)>,
    beats: Vec<Beat>,
    /// Revisions that each voter showed, in order.
    revisions: HashMap<usize, Vec<u64>>,
}

/// An answered heartbeat.
struct Beat {
    sent: Instant,
    epoch: u64,
    quorum_age: Duration,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_churning_group_loses_nothing_and_promises_nothing_that_it_cannot_keep() {
    let mut voters = Voters::formed(3, quick()).await;
    let _workers = voters.active_workers(1..=3).await;
    let seen = Arc::new(Mutex::new(Seen::default()));
    let mut tasks: Vec<Task<()>> = Vec::new();
    for index in 0..3 {
        tasks.push(spawn(beat(voters.control(index), seen.clone())));
        tasks.push(spawn(look(voters.control(index), index, seen.clone())));
        tasks.push(spawn(fence(voters.control(index), seen.clone())));
    }
    for round in 0..ROUNDS {
        let leader = voters.leader().await;
        // Mostly the leader, at times another one.
        let leaves = if round % 3 == 2 { (leader + 1) % 3 } else { leader };
        voters.stop(leaves).await;
        voters.leader().await;
        sleep(Duration::from_millis(200)).await;
        voters.start(leaves).await;
        sleep(Duration::from_millis(200)).await;
    }
    tasks.iter().for_each(Task::abort);
    let last = voters.leaders_view().await;
    voters.all_see(last.revision).await;
    check(&seen.lock().unwrap(), last.ring.epoch.0);
}

fn check(seen: &Seen, last_epoch: u64) {
    assert!(seen.fences.len() > 2 * ROUNDS, "{} fences", seen.fences.len());
    assert!(seen.beats.len() > 20 * ROUNDS, "{} beats", seen.beats.len());
    for (_, epoch) in &seen.fences {
        assert!(*epoch <= last_epoch, "epoch {epoch} had begun, and is forgotten");
    }
    for (voter, revisions) in &seen.revisions {
        assert!(revisions.is_sorted(), "the view of voter {voter} went back: {revisions:?}");
    }
    // What a lease rests on: no newer epoch had begun at the moment that it counts from.
    for beat in &seen.beats {
        for (answered, epoch) in seen.fences.iter().filter(|(_, epoch)| *epoch > beat.epoch) {
            assert!(
                beat.sent < *answered + beat.quorum_age,
                "epoch {} was vouched for although {epoch} had begun",
                beat.epoch
            );
        }
    }
}

/// Heartbeats to one voter, whatever it is.
async fn beat(mut voter: Control, seen: Arc<Mutex<Seen>>) {
    loop {
        let sent = now();
        let asked = voter.heartbeat(heartbeat(1, WorkerState::Active));
        if let Ok(Ok(reply)) = timeout(&SystemClock, Duration::from_secs(1), asked).await {
            let reply = reply.into_inner();
            let quorum_age = Duration::from_millis(reply.quorum_age_ms);
            seen.lock().unwrap().beats.push(Beat { sent, epoch: reply.epoch, quorum_age });
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// The views of one voter.
async fn look(mut voter: Control, index: usize, seen: Arc<Mutex<Seen>>) {
    loop {
        let asked = voter.status(StatusRequest {});
        if let Ok(Ok(reply)) = timeout(&SystemClock, Duration::from_secs(1), asked).await {
            let revision = reply.into_inner().view.unwrap().revision;
            seen.lock().unwrap().revisions.entry(index).or_default().push(revision);
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// Begins one epoch after another, where this voter leads.
async fn fence(mut voter: Control, seen: Arc<Mutex<Seen>>) {
    let mut epoch = 1;
    loop {
        let asked = voter.fence(FenceRequest { epoch });
        if let Ok(Ok(reply)) = timeout(&SystemClock, Duration::from_secs(1), asked).await {
            epoch = reply.into_inner().epoch;
            seen.lock().unwrap().fences.push((now(), epoch));
        }
        sleep(Duration::from_millis(30)).await;
    }
}
