//! Pages that are being checked: read off a disk, and not yet known to be right.
//!
//! They count as absent for everybody else, because the kernel says that they are resident
//! before their checksums are known. Whoever wants the same pages waits for the one who reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use crate::place::{ExtentKey, PageMask};

/// The checks under way on one disk. Their number is bounded by the disk's read permits, so a
/// list is enough.
#[derive(Debug, Default)]
pub(crate) struct Checking {
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

/// Held while pages are being checked.
#[derive(Debug)]
pub(crate) struct CheckGuard {
    owner: Arc<Checking>,
    extent: ExtentKey,
    pages: PageMask,
}

/// What had failed when somebody began to look at pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before(u64);

impl Checking {
    /// Marks pages as being checked, or gives what completes when somebody else is done.
    pub(crate) fn begin(
        self: &Arc<Self>,
        extent: ExtentKey,
        pages: PageMask,
    ) -> Result<CheckGuard, OwnedNotified> {
        let mut checks = self.checks.lock();
        let other = checks.iter().find(|c| c.extent == extent && c.pages.overlaps(pages));
        if let Some(other) = other {
            // Made under the lock, so that the notification cannot come first.
            return Err(Arc::clone(&other.done).notified_owned());
        }
        checks.push(Check { extent, pages, done: Arc::new(Notify::new()) });
        self.under_way.fetch_add(1, Ordering::SeqCst);
        Ok(CheckGuard { owner: Arc::clone(self), extent, pages })
    }

    /// To be taken before asking whether pages are resident.
    pub(crate) fn before(&self) -> Before {
        Before(self.failures.load(Ordering::SeqCst))
    }

    /// Whether pages seen to be resident since `before` are checked ones. A check that was
    /// under way at that moment is either still marked, or has failed and was counted, or
    /// found the pages right.
    pub(crate) fn vouches(&self, before: Before, extent: ExtentKey, pages: PageMask) -> bool {
        !self.marks(extent, pages) && self.failures.load(Ordering::SeqCst) == before.0
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
    /// The pages are wrong; to be called once they can no longer be found, before the guard goes.
    pub(crate) fn failed(&self) {
        self.owner.failures.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for CheckGuard {
    fn drop(&mut self) {
        let mut checks = self.owner.checks.lock();
        let own = checks.iter().position(|c| c.extent == self.extent && c.pages == self.pages);
        if let Some(at) = own {
            checks.swap_remove(at).done.notify_waiters();
            self.owner.under_way.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Pages;

    fn pages(first: u8, count: u8) -> PageMask {
        Pages { first, count }.mask()
    }

    #[tokio::test]
    async fn readers_of_the_same_pages_wait_for_the_one_who_checks_them() {
        let checking = Arc::new(Checking::default());
        let guard = checking.begin((1, 1), pages(0, 4)).unwrap();
        let other = checking.begin((1, 1), pages(4, 4)).unwrap();
        let busy = checking.begin((1, 1), pages(3, 1)).unwrap_err();
        drop(guard);
        busy.await;
        assert!(checking.begin((1, 1), pages(3, 1)).is_ok());
        drop(other);
    }

    #[test]
    fn pages_are_vouched_for_only_while_nobody_checks_them_and_no_check_failed() {
        let checking = Arc::new(Checking::default());
        let before = checking.before();
        assert!(checking.vouches(before, (1, 1), pages(0, 1)));
        let guard = checking.begin((1, 1), pages(0, 1)).unwrap();
        assert!(!checking.vouches(before, (1, 1), pages(0, 1)));
        assert!(checking.vouches(before, (1, 1), pages(1, 1)));
        assert!(checking.vouches(before, (2, 1), pages(0, 1)));
        guard.failed();
        drop(guard);
        assert!(!checking.vouches(before, (1, 1), pages(0, 1)));
        assert!(checking.vouches(checking.before(), (1, 1), pages(0, 1)));
    }
}
