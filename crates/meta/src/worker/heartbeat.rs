//! Telling the leader, twice a second, that this worker lives; the answers carry its lease.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_types::{Epoch, WorkerInfo, WorkerState};
use forebay_wire::meta::{HeartbeatReply, HeartbeatRequest};

use super::Shared;
use super::lease::Standing;
use super::limits::BEHIND_BEATS;
use super::voters::{Control, NoAnswer};

/// Sends heartbeats, one at a time: twice a second, and at once when the worker wants to be
/// something else or the epoch has changed, since the new one's quarantine begins with an answer.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut wanted = shared.wanted.subscribe();
    let mut view = shared.view.subscribe();
    let mut course = Course::default();
    loop {
        let started = shared.clock.now();
        let (state, epoch) = (*wanted.borrow_and_update(), view.borrow_and_update().ring.epoch);
        match shared.beat(state).await {
            Ok(beat) => course.answered(&shared, &beat),
            Err(why) => course.unanswered(&shared, &why),
        }
        course.look_at_lease(&shared);
        let took = shared.clock.now().saturating_duration_since(started);
        tokio::select! {
            () = shared.clock.sleep(shared.limits.heartbeat_every.saturating_sub(took)) => {}
            _ = wanted.changed() => {}
            _ = view.wait_for(|view| view.ring.epoch != epoch) => {}
        }
    }
}

/// A heartbeat that was answered.
struct Beat {
    sent_at: Instant,
    reply: HeartbeatReply,
}

impl Shared {
    /// One heartbeat. Registers this worker where the cluster does not know it, or does no more.
    async fn beat(&self, state: WorkerState) -> Result<Beat, NoAnswer> {
        let me = WorkerInfo { state, ..self.me.clone() };
        let request =
            HeartbeatRequest { worker: Some((&me).into()), incarnation: self.incarnation };
        let send = |mut control: Control| {
            let request = request.clone();
            async move {
                let sent_at = self.clock.now();
                let reply = control.heartbeat(request).await?.into_inner();
                Ok(Beat { sent_at, reply })
            }
        };
        self.voters.ask_leader(self.limits.answer, send).await
    }
}

/// What is only worth a word, or an act, when it lasts or changes.
#[derive(Default)]
struct Course {
    is_unheard: bool,
    had_lease: bool,
    /// Answers in a row that named a newer epoch than the view's.
    behind: u32,
}

impl Course {
    fn answered(&mut self, shared: &Shared, beat: &Beat) {
        let (now, mine) = (shared.clock.now(), shared.epoch());
        let theirs = Epoch(beat.reply.epoch);
        let quorum_age = Duration::from_millis(beat.reply.quorum_age_ms);
        let mut touch = shared.touch.lock();
        touch.lease.heard(theirs, mine, beat.sent_at, now, quorum_age);
        touch.heard_at = Some(now);
        touch.refused = None;
        drop(touch);
        shared.metrics.heartbeat_answered(now.saturating_duration_since(beat.sent_at));
        if std::mem::take(&mut self.is_unheard) {
            tracing::info!("heartbeats are answered again");
        }
        self.behind = if theirs > mine { self.behind + 1 } else { 0 };
        if self.behind == BEHIND_BEATS {
            self.behind = 0;
            shared.look_elsewhere.notify_one();
        }
    }

    fn unanswered(&mut self, shared: &Shared, why: &NoAnswer) {
        shared.metrics.heartbeat_failed();
        if let NoAnswer::Refused(status) = why {
            shared.touch.lock().refused = Some(status.message().to_owned());
        }
        if !std::mem::replace(&mut self.is_unheard, true) {
            tracing::warn!(%why, "heartbeats fail");
        }
    }

    fn look_at_lease(&mut self, shared: &Shared) {
        let has_lease = matches!(shared.standing(shared.epoch()), Standing::Vouches { .. });
        shared.metrics.lease_held(has_lease);
        if std::mem::replace(&mut self.had_lease, has_lease) != has_lease {
            let epoch = shared.epoch().0;
            tracing::info!(epoch, has_lease, "the lease to answer from memory has changed");
        }
    }
}
