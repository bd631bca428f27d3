//! What a voter does while it leads: it listens to the workers, has the group note what changed,
//! and makes sure again and again that it still leads.
//!
//! A heartbeat is answered from memory. What it is worth to the worker depends on *when* a
//! majority last confirmed that this voter leads, so that moment is taken before the question is
//! asked, and the question (openraft's read index) is answered only once everything that was
//! committed before it has been applied here. Figures that openraft keeps for itself would not
//! do: they are as old as its last turn, and say nothing of what a new leader has yet to apply.

mod roll;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_rt::timeout;
use openraft::{ChangeMembers, ServerState};
use parking_lot::Mutex;
use tokio::sync::Notify;

pub(crate) use roll::Unheard;
use roll::{Patience, Roll};

use crate::limits::HALF_DONE_PATIENCE;
use crate::raft::{LogId, Vote};
use crate::state::{Command, Heard};
use crate::voter::Group;

/// Looks at the roll in the time after which a silent worker is down.
const LOOKS: u32 = 10;
const LOOK_INTERVAL_MAX: Duration = Duration::from_millis(500);

/// Whether this voter leads, and what it knows as the leader.
#[derive(Default)]
pub(crate) struct Leadership {
    office: Mutex<Option<Office>>,
    news: Notify,
}

struct Office {
    roll: Roll,
    /// No other voter led, and nothing was committed that has not been applied here, then.
    confirmed: Option<Instant>,
}

/// Why a heartbeat is not answered.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NoAnswer {
    /// Ask the leader.
    NotLeading,
    /// It may be that another voter leads by now.
    NotConfirmed,
    /// It does not count.
    Unheard(Unheard),
}

/// Leads whenever this voter is the leader. Returns when raft has ended.
pub(crate) async fn lead(group: Arc<Group>, leadership: Arc<Leadership>) {
    let mut metrics = group.raft.server_metrics();
    loop {
        let elected = metrics.wait_for(|metrics| metrics.state == ServerState::Leader).await;
        let Ok(vote) = elected.map(|metrics| metrics.vote) else { return };
        leadership.begin(&group, vote);
        let deposed = metrics
            .wait_for(|metrics| metrics.state != ServerState::Leader || metrics.vote != vote);
        tokio::select! {
            () = leadership.confirm(&group) => {}
            () = leadership.report(&group) => {}
            never = finish_changes(&group) => match never {},
            _ = deposed => {}
        }
        leadership.end();
    }
}

impl Leadership {
    /// Notes that a worker is alive. Returns how long ago this leader was confirmed.
    pub(crate) fn hear(
        &self,
        group: &Group,
        incarnation: u64,
        heard: Heard,
    ) -> Result<Duration, NoAnswer> {
        let now = group.clock.now();
        let is_news = group.state().is_news(&heard);
        let confirmed = {
            let mut office = self.office.lock();
            let office = office.as_mut().ok_or(NoAnswer::NotLeading)?;
            office.roll.hear(now, incarnation, heard).map_err(NoAnswer::Unheard)?;
            office.confirmed
        };
        if is_news {
            self.news.notify_one();
        }
        let age = now.saturating_duration_since(confirmed.ok_or(NoAnswer::NotConfirmed)?);
        if age > group.timings.quorum_age_max {
            return Err(NoAnswer::NotConfirmed);
        }
        Ok(age)
    }

    /// How long ago each worker was heard; empty where this voter does not lead.
    pub(crate) fn ages(&self, now: Instant) -> Vec<(u64, Duration)> {
        self.office.lock().as_ref().map(|office| office.roll.ages(now)).unwrap_or_default()
    }

    fn begin(&self, group: &Group, vote: Vote) {
        tracing::info!(%vote, "this voter leads");
        let timings = &group.timings;
        let patience = Patience {
            down_after: timings.down_after,
            grace: timings.grace,
            forget_after: timings.forget_after,
        };
        let roll = Roll::new(patience, group.clock.now(), &group.state());
        *self.office.lock() = Some(Office { roll, confirmed: None });
    }

    fn end(&self) {
        tracing::info!("this voter leads no more");
        *self.office.lock() = None;
    }

    /// Has a majority confirm, again and again, that this voter leads.
    async fn confirm(&self, group: &Group) {
        loop {
            let began = group.clock.now();
            let confirmed = group.raft.ensure_linearizable();
            let confirmed = timeout(&*group.clock, group.timings.quorum_age_max, confirmed).await;
            if matches!(confirmed, Ok(Ok(_)))
                && let Some(office) = &mut *self.office.lock()
            {
                office.confirmed = Some(began);
            }
            group.clock.sleep(group.timings.confirm_every).await;
        }
    }

    /// Has the group note what the roll shows.
    async fn report(&self, group: &Group) {
        let look_interval = (group.timings.down_after / LOOKS).min(LOOK_INTERVAL_MAX);
        loop {
            if timeout(&*group.clock, look_interval, self.news.notified()).await.is_ok() {
                group.clock.sleep(group.timings.gather).await;
            }
            let (now, state) = (group.clock.now(), group.state());
            let look = |office: &mut Office| office.roll.look(now, &state);
            let Some(report) = self.office.lock().as_mut().map(look) else { return };
            if report.is_empty() {
                continue;
            }
            let (heard, lost) = (report.heard.len(), report.lost.clone());
            match group.propose(Command::Report(report)).await {
                Ok(applied) => {
                    group.metrics.marked_down(lost.len());
                    let epoch = applied.epoch;
                    tracing::info!(heard, ?lost, epoch, "noted what changed with workers");
                }
                // The next look shows the same.
                Err(status) => tracing::debug!(%status, "cannot note what changed with workers"),
            }
        }
    }
}

/// Finishes changes of the voters that were left half done: they have two steps, and whoever
/// took the first may be gone. Never returns.
async fn finish_changes(group: &Group) -> Infallible {
    let mut before = None;
    loop {
        let half_done = half_done(group);
        if half_done.is_some() && half_done == before {
            // Adds nobody, but lets the step follow that is due.
            let finished = ChangeMembers::AddVoterIds(BTreeSet::new());
            match group.raft.change_membership(finished, false).await {
                Ok(_) => tracing::info!("finished a change of the voters"),
                Err(error) => tracing::warn!(%error, "cannot finish a change of the voters yet"),
            }
        }
        before = half_done;
        group.clock.sleep(HALF_DONE_PATIENCE).await;
    }
}

/// The entry of the log that began a change of the voters, if that is not finished.
fn half_done(group: &Group) -> Option<LogId> {
    let metrics = group.raft.metrics();
    let metrics = metrics.borrow();
    let membership = &metrics.membership_config;
    let is_joint = membership.membership().get_joint_config().len() > 1;
    is_joint.then_some(*membership.log_id())?
}
