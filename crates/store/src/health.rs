//! Whether a disk is fit for reads and for writes.
//!
//! A pure state machine over errors, probes and time. A full or read-only volume turns writes
//! off for a while; a few I/O errors in a short time take the whole disk out, until probes
//! succeed again. The worker itself never stops for a disk.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use forebay_rt::SharedClock;
use parking_lot::Mutex;

use crate::limits::{CLEAN_PROBES, ERROR_WINDOW, MAX_ERRORS, PROBE_INTERVAL, WRITE_PAUSE};

/// What a disk is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskState {
    /// Reads and writes.
    Healthy,
    /// Reads only: the volume is full or read-only, or its index failed.
    WritesOff,
    /// Nothing: it answered with errors, or is gone.
    Offline,
}

impl DiskState {
    /// Every state, for metrics.
    pub const ALL: [Self; 3] = [Self::Healthy, Self::WritesOff, Self::Offline];

    /// The metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::WritesOff => "writes_off",
            Self::Offline => "offline",
        }
    }
}

/// What an error means for a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The volume is full.
    Full,
    /// The volume takes no writes, or its index fails.
    NoWrites,
    /// The disk does not do its work.
    Broken,
    /// Not the disk's fault: limits of the process or the machine.
    Ours,
}

impl Fault {
    pub(crate) fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => Self::Full,
            Some(libc::EROFS) => Self::NoWrites,
            Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EINTR) => Self::Ours,
            _ => Self::Broken,
        }
    }
}

/// The health of one disk.
#[derive(Debug)]
pub(crate) struct Health {
    clock: SharedClock,
    state: AtomicU8,
    history: Mutex<History>,
}

#[derive(Debug, Default)]
struct History {
    errors: VecDeque<Instant>,
    paused_at: Option<Instant>,
    probed_at: Option<Instant>,
    clean_probes: u32,
}

impl Health {
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self { clock, state: AtomicU8::new(0), history: Mutex::default() }
    }

    pub(crate) fn state(&self) -> DiskState {
        DiskState::ALL[usize::from(self.state.load(Ordering::Acquire))]
    }

    pub(crate) fn can_read(&self) -> bool {
        self.state() != DiskState::Offline
    }

    pub(crate) fn can_write(&self) -> bool {
        self.state() == DiskState::Healthy
    }

    /// Takes an error into account; true if the disk's state is another one now.
    pub(crate) fn note(&self, fault: Fault) -> bool {
        let mut history = self.history.lock();
        let now = self.clock.now();
        match fault {
            Fault::Ours => false,
            Fault::Full | Fault::NoWrites => {
                history.paused_at = Some(now);
                self.state() == DiskState::Healthy && self.enter(DiskState::WritesOff)
            }
            Fault::Broken => {
                history.errors.retain(|at| now.duration_since(*at) < ERROR_WINDOW);
                history.errors.push_back(now);
                history.clean_probes = 0;
                let too_many = history.errors.len() >= MAX_ERRORS;
                too_many && self.can_read() && self.enter(DiskState::Offline)
            }
        }
    }

    /// Whether it is time to try whether the disk works again.
    pub(crate) fn probe_is_due(&self) -> bool {
        let history = self.history.lock();
        let (since, pause) = match self.state() {
            DiskState::Healthy => return false,
            DiskState::Offline => (history.probed_at, PROBE_INTERVAL),
            DiskState::WritesOff => (history.paused_at, WRITE_PAUSE),
        };
        since.is_none_or(|at| self.clock.now().duration_since(at) >= pause)
    }

    /// A probe begins.
    pub(crate) fn note_probe(&self) {
        self.history.lock().probed_at = Some(self.clock.now());
    }

    /// Takes a successful probe into account; true if the disk is healthy again.
    pub(crate) fn probe_succeeded(&self) -> bool {
        let mut history = self.history.lock();
        history.clean_probes += 1;
        match self.state() {
            DiskState::Healthy => false,
            DiskState::Offline if history.clean_probes < CLEAN_PROBES => false,
            DiskState::WritesOff | DiskState::Offline => {
                *history = History::default();
                self.enter(DiskState::Healthy)
            }
        }
    }

    fn enter(&self, state: DiskState) -> bool {
        self.state.store(state as u8, Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use forebay_rt::ManualClock;

    use super::*;

    fn health() -> (Health, ManualClock) {
        let clock = ManualClock::new();
        (Health::new(Arc::new(clock.clone())), clock)
    }

    #[test]
    fn a_full_volume_turns_writes_off_until_a_probe_succeeds_after_a_pause() {
        let (health, clock) = health();
        assert!(health.note(Fault::of(&io::Error::from_raw_os_error(libc::ENOSPC))));
        assert!(health.can_read() && !health.can_write());
        assert!(!health.probe_is_due());
        clock.advance(WRITE_PAUSE);
        assert!(health.probe_is_due());
        assert!(health.probe_succeeded());
        assert!(health.can_write());
    }

    #[test]
    fn errors_in_a_short_time_take_a_disk_out_and_clean_probes_bring_it_back() {
        let (health, clock) = health();
        let broken = Fault::of(&io::Error::from_raw_os_error(libc::EIO));
        for _ in 0..MAX_ERRORS * 2 {
            assert!(!health.note(broken));
            clock.advance(ERROR_WINDOW);
        }
        assert!(health.can_write());
        let changes = (0..MAX_ERRORS).filter(|_| health.note(broken)).count();
        assert_eq!((changes, health.state()), (1, DiskState::Offline));
        assert!(health.probe_is_due());
        health.note_probe();
        assert!(!health.probe_is_due());
        clock.advance(PROBE_INTERVAL);
        assert!(health.probe_is_due());
        for _ in 1..CLEAN_PROBES {
            assert!(!health.probe_succeeded());
        }
        health.note(broken);
        for _ in 1..CLEAN_PROBES {
            assert!(!health.probe_succeeded());
        }
        assert!(health.probe_succeeded());
        assert_eq!(health.state(), DiskState::Healthy);
    }

    #[test]
    fn limits_of_the_process_are_not_the_disks_fault() {
        let (health, clock) = health();
        for _ in 0..10 {
            health.note(Fault::of(&io::Error::from_raw_os_error(libc::EMFILE)));
            clock.advance(Duration::from_millis(1));
        }
        assert_eq!(health.state(), DiskState::Healthy);
    }
}
