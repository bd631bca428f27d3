//! Pages that are being checked: read off a disk, and not yet known to be right.
//!
//! They count as absent for everybody else, because the kernel says that they are resident
//! before their checksums are known. Whoever wants the same pages waits for the one who reads.
//! A check that does not pass, a panic included, takes the extent out of the index.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use crate::index::Index;
use crate::place::{Entry, ExtentKey, PageMask};

/// The checks under way on one disk. Their number is bounded by the disk's read permits, so a
/// list is enough.
pub(crate) struct Checking {
    index: Arc<Index>,
    under_way: AtomicUsize,
    failures: AtomicU64,
    checks: Mutex<Vec<Check>>,
}

#[derive(Debug)]
struct Check {
    extent: ExtentKey,
    pages: PageMask,
    done: Arc<Notify>,
}

/// Held while pages are being checked. Dropped without a verdict, the check has failed.
pub(crate) struct CheckGuard {
    owner: Arc<Checking>,
    entry: Entry,
    pages: PageMask,
    may_stay: bool,
}

/// What had failed when somebody began to look at pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before(pub(crate) u64);

impl Checking {
    pub(crate) fn new(index: Arc<Index>) -> Self {
        Self {
            index,
            under_way: AtomicUsize::new(0),
            failures: AtomicU64::new(0),
            checks: Mutex::default(),
        }
    }

    /// Marks pages as being checked, or gives what completes when somebody else is done.
    pub(crate) fn begin(
        self: &Arc<Self>,
        entry: Entry,
        pages: PageMask,
    ) -> Result<CheckGuard, OwnedNotified> {
        let extent = entry.place.key();
        let mut checks = self.checks.lock();
        let other = checks.iter().find(|c| c.extent == extent && c.pages.overlaps(pages));
        if let Some(other) = other {
            // Made under the lock, so that the notification cannot come first.
            return Err(Arc::clone(&other.done).notified_owned());
        }
        checks.push(Check { extent, pages, done: Arc::new(Notify::new()) });
        self.under_way.fetch_add(1, Ordering::SeqCst);
        Ok(CheckGuard { owner: Arc::clone(self), entry, pages, may_stay: false })
    }

    /// To be taken before asking whether pages are resident.
    pub(crate) fn before(&self) -> Before {
        Before(self.failures.load(Ordering::SeqCst))
    }

    /// Whether pages that were right at `before`, and seen to be resident after it, are checked
    /// ones. A check that was under way at that moment is either still marked, or has failed
    /// and was counted, or found the pages right. If any check has failed, what counts is
    /// whether the extent is still in the index, which the ones that fail theirs leave first.
    pub(crate) fn vouches(&self, before: Before, entry: Entry, pages: PageMask) -> bool {
        !self.marks(entry.place.key(), pages)
            && (self.failures.load(Ordering::SeqCst) == before.0 || self.index.holds(entry))
    }

    fn marks(&self, extent: ExtentKey, pages: PageMask) -> bool {
        if self.under_way.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let checks = self.checks.lock();
        checks.iter().any(|check| check.extent == extent && check.pages.overlaps(pages))
    }
}

impl CheckGuard {
    /// The pages are what was stored.
    pub(crate) fn passed(mut self) {
        self.may_stay = true;
    }

    /// Nobody has read any of the pages.
    pub(crate) fn untouched(mut self) {
        self.may_stay = true;
    }
}

impl Drop for CheckGuard {
    fn drop(&mut self) {
        if !self.may_stay {
            // In this order, and before the mark goes: see `vouches`.
            self.owner.index.remove(self.entry);
            self.owner.failures.fetch_add(1, Ordering::SeqCst);
        }
        let extent = self.entry.place.key();
        let mut checks = self.owner.checks.lock();
        let own = checks.iter().position(|c| c.extent == extent && c.pages == self.pages);
        if let Some(at) = own {
            checks.swap_remove(at).done.notify_waiters();
            self.owner.under_way.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::{BlockHash, Pages, Place};

    fn pages(first: u8, count: u8) -> PageMask {
        Pages { first, count }.mask()
    }

    fn entry(segment: u32) -> Entry {
        let pages = Pages { first: 0, count: 8 };
        let hash = BlockHash { high: 1, low: u64::from(segment) };
        Entry { hash, place: Place { segment, at: 1, pages } }
    }

    fn checking() -> Arc<Checking> {
        let index = Arc::new(Index::new());
        assert!(index.insert(entry(1)) && index.insert(entry(2)));
        Arc::new(Checking::new(index))
    }

    #[tokio::test]
    async fn readers_of_the_same_pages_wait_for_the_one_who_checks_them() {
        let checking = checking();
        let guard = checking.begin(entry(1), pages(0, 4)).ok().unwrap();
        let other = checking.begin(entry(1), pages(4, 4)).ok().unwrap();
        let busy = checking.begin(entry(1), pages(3, 1)).err().unwrap();
        guard.passed();
        busy.await;
        assert!(checking.begin(entry(1), pages(3, 1)).is_ok());
        drop(other);
    }

    #[test]
    fn pages_are_vouched_for_only_while_nobody_checks_them_and_no_check_failed() {
        let checking = checking();
        let (one, two) = (entry(1), entry(2));
        let before = checking.before();
        assert!(checking.vouches(before, one, pages(0, 1)));
        let guard = checking.begin(entry(1), pages(0, 1)).ok().unwrap();
        assert!(!checking.vouches(before, one, pages(0, 1)));
        assert!(checking.vouches(before, one, pages(1, 1)));
        assert!(checking.vouches(before, two, pages(0, 1)));
        drop(guard);
        assert!(!checking.vouches(before, one, pages(0, 1)));
        assert!(checking.vouches(before, two, pages(0, 1)), "another extent's failure");
    }

    #[test]
    fn an_extent_whose_check_panics_is_found_no_more_and_one_that_passes_is() {
        let checking = checking();
        checking.begin(entry(2), pages(0, 1)).ok().unwrap().passed();
        checking.begin(entry(2), pages(0, 1)).ok().unwrap().untouched();
        assert!(checking.index.find(entry(2).hash, 0).is_some());
        let guard = checking.begin(entry(1), pages(0, 1)).ok().unwrap();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _guard = guard;
            panic!("while reading");
        }));
        assert!(panicked.is_err());
        assert!(checking.index.find(entry(1).hash, 0).is_none());
    }
}
