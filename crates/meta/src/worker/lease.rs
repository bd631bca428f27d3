//! When this worker may answer for the names that it owns: the lease that the voters give.
//!
//! Pure: time comes in as arguments. [`Lease::heard`] is told of each answered heartbeat and
//! [`Lease::standing`] says what they amount to. No two workers vouch at the same moment under
//! different epochs, however long messages, processes and old leaders linger.

use std::time::{Duration, Instant};

use forebay_types::Epoch;

/// How long after it was asked for a heartbeat's answer lets its worker vouch, at most.
pub const LEASE: Duration = Duration::from_secs(3);

/// How long after the first answer for an epoch a worker begins to vouch under it.
pub const QUARANTINE: Duration = Duration::from_millis(3500);

/// The part of [`QUARANTINE`] that is there because the clocks of two machines do not run
/// equally fast: a sixth of the lease, where real clocks differ by a ten-thousandth.
pub const CLOCK_MARGIN: Duration = Duration::from_millis(500);

/// How long after a new epoch began nobody vouches any more under an older one.
pub const FENCE_WAIT: Duration = LEASE.saturating_add(CLOCK_MARGIN);

const _: () = assert!(QUARANTINE.as_millis() >= LEASE.as_millis() + CLOCK_MARGIN.as_millis());

/// What a worker's word for the names that it owns is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nobody else answers for them; what the origin was asked at `since` or later counts.
    Vouches {
        /// The end of the quarantine.
        since: Instant,
    },
    /// It is in touch with the voters and will vouch in about this long.
    NotYet(Duration),
    /// It is not in touch with the voters, who may have given its names to another.
    Lapsed,
}

/// What the voters have let this worker do. Starts as [`Standing::Lapsed`].
///
/// Why it is right. A leader that answers with epoch `e` and quorum age `q` knows that `q` ago no
/// newer epoch had begun: it has applied all that was committed before it led, and any other
/// leader needs votes from the majority that confirmed this one then. The lease ends [`LEASE`]
/// after a moment no later than that. A worker that vouches under a newer epoch was told
/// [`QUARANTINE`] ago, or longer, that it had begun. So by then each lease under `e` has ended.
///
/// That argument looks at each answer alone. So a lease that lapsed and is renewed under the
/// *same* epoch needs no second quarantine: the renewing answer itself shows that no newer epoch
/// had begun and thus that nobody else can have begun to vouch in between. What the worker
/// remembers from before counts again for the same reason: a writer that met it lapsed had its
/// `Forget` carried out all the same, and one that could not reach it has begun a new epoch.
///
/// It rests on monotonic clocks that never stop. A process that is stopped is safe; a virtual
/// machine that is suspended and not told of the time that passed is not.
#[derive(Debug, Default)]
pub struct Lease {
    held: Option<Held>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    epoch: Epoch,
    until: Instant,
    vouches_from: Instant,
}

impl Lease {
    /// The leader answered a heartbeat that was sent at `sent_at` with `epoch_of_reply`, and was
    /// confirmed by a majority `quorum_age` before. Counts only where that is the epoch of the
    /// view that this worker is on.
    pub fn heard(
        &mut self,
        epoch_of_reply: Epoch,
        my_epoch: Epoch,
        sent_at: Instant,
        now: Instant,
        quorum_age: Duration,
    ) {
        if epoch_of_reply != my_epoch {
            return;
        }
        let until = sent_at + LEASE.saturating_sub(quorum_age);
        self.held = Some(match self.held {
            Some(held) if held.epoch == my_epoch => Held { until: held.until.max(until), ..held },
            _ => Held { epoch: my_epoch, until, vouches_from: now + QUARANTINE },
        });
    }

    /// What this worker's word is worth for names that it owns under the ring of `epoch`.
    pub fn standing(&self, now: Instant, epoch: Epoch) -> Standing {
        match self.held {
            Some(held) if now < held.until => held.while_in_touch(now, epoch),
            _ => Standing::Lapsed,
        }
    }
}

impl Held {
    fn while_in_touch(self, now: Instant, epoch: Epoch) -> Standing {
        if self.epoch != epoch {
            // The next heartbeat begins the quarantine, and is sent as soon as the epoch changes.
            return Standing::NotYet(QUARANTINE);
        }
        match self.vouches_from.checked_duration_since(now) {
            Some(left) if !left.is_zero() => Standing::NotYet(left),
            _ => Standing::Vouches { since: self.vouches_from },
        }
    }
}

#[cfg(test)]
mod tests;
