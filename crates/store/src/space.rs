//! How much of a disk's capacity is used, unlinked but open segments included.
//!
//! Space is taken before a segment is created and given back when its last holder lets go of
//! it, so the sum never exceeds what it claims to be.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// The books of one disk.
#[derive(Debug)]
pub(crate) struct Space {
    capacity_bytes: u64,
    /// What may be used at present: less than the capacity after the volume was full.
    ceiling_bytes: AtomicU64,
    segment_bytes: AtomicU64,
    /// The part of it that is retired and comes back with its last reader.
    retiring_bytes: AtomicU64,
    index_bytes: AtomicU64,
    freed: Notify,
}

impl Space {
    pub(crate) fn new(capacity_bytes: u64) -> Self {
        Self {
            capacity_bytes,
            ceiling_bytes: AtomicU64::new(capacity_bytes),
            segment_bytes: AtomicU64::new(0),
            retiring_bytes: AtomicU64::new(0),
            index_bytes: AtomicU64::new(0),
            freed: Notify::new(),
        }
    }

    /// Takes room for a segment, if there is that much.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let limit = self.ceiling().saturating_sub(self.index_bytes.load(Ordering::Relaxed));
        self.segment_bytes
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
                used.checked_add(bytes).filter(|after| *after <= limit)
            })
            .is_ok()
    }

    /// Books a segment that is on the disk already, whether there is room for it or not.
    pub(crate) fn book(&self, bytes: u64) {
        self.segment_bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.segment_bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.freed.notify_waiters();
    }

    /// Says that a booked segment is retired.
    pub(crate) fn retire(&self, bytes: u64) {
        self.retiring_bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    /// As [`Space::give_back`], of a segment that was retired.
    pub(crate) fn give_back_retired(&self, bytes: u64) {
        // In this order: for a moment too much is expected back, never too little, for which
        // the evictor would retire another segment.
        self.give_back(bytes);
        self.retiring_bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Whether there is room once everything that is retired has come back.
    pub(crate) fn will_have_room(&self, bytes: u64) -> bool {
        let retiring_bytes = self.retiring_bytes.load(Ordering::Acquire);
        self.used().saturating_sub(retiring_bytes) + bytes <= self.ceiling()
    }

    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.used() + bytes <= self.ceiling()
    }

    /// Says how much the index takes, headroom included.
    pub(crate) fn set_index(&self, bytes: u64) {
        self.index_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn used(&self) -> u64 {
        self.segment_bytes.load(Ordering::Acquire) + self.index_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity_bytes
    }

    /// The volume is fuller than we knew: keeps to what is used now.
    pub(crate) fn lower_ceiling(&self) {
        self.ceiling_bytes.store(self.used().min(self.capacity_bytes), Ordering::Relaxed);
    }

    pub(crate) fn lift_ceiling(&self) {
        self.ceiling_bytes.store(self.capacity_bytes, Ordering::Relaxed);
    }

    /// Completes when space has been given back after the call.
    pub(crate) fn freed(&self) -> impl Future<Output = ()> + '_ {
        self.freed.notified()
    }

    fn ceiling(&self) -> u64 {
        self.ceiling_bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is() {
        let space = Space::new(100);
        space.set_index(10);
        assert!(space.take(60));
        assert!(!space.take(31));
        assert!(space.take(30));
        assert!(!space.will_have_room(60));
        space.retire(60);
        assert!(space.will_have_room(60) && !space.has_room(1));
        space.give_back_retired(60);
        assert!(!space.will_have_room(61));
        space.lower_ceiling();
        assert!(!space.has_room(1));
        space.lift_ceiling();
        assert!(space.has_room(60));
        assert!(!space.has_room(61));
    }
}
