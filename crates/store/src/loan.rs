//! Extents whose bytes are on their way out: of which tokens are held by connections.
//!
//! What a token names was verified when it was handed out. A slow client takes it over minutes;
//! should its pages leave memory meanwhile, or a check of them fail, then the connection asks
//! here before it sends on, and they are verified again, as for any other reader. The loan has
//! all that this takes, so it works for extents that were evicted in the meantime, too.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::{Arc, Weak};

use forebay_rt::spawn_blocking;
use forebay_types::{CRC_GRAIN_BYTES, PAGE_BYTES};
use forebay_zerocopy::{Keeper, Proof, Recheck};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::checking::{Before, CheckGuard, Checking};
use crate::disk::Disk;
use crate::extent::ExtentHeader;
use crate::limits::{MAX_CHECK_TURNS, align};
use crate::metrics::Where;
use crate::place::{Entry, PageMask, Pages};
use crate::reader::{Grains, verify_in_steps};
use crate::segment::OpenSegment;

/// The extents of one open segment of which tokens are out, by where their data begin. It
/// answers for the segment's window.
#[derive(Debug, Default)]
pub(crate) struct Loans(Mutex<BTreeMap<u64, Weak<Loan>>>);

/// An extent of which tokens are out; they hold it as their pin.
pub(crate) struct Loan {
    disk: Weak<Disk>,
    checking: Arc<Checking>,
    /// Taken by `drop` alone.
    handle: ManuallyDrop<Arc<OpenSegment>>,
    entry: Entry,
    header: Arc<ExtentHeader>,
    /// From when on what the tokens name was right.
    before: Before,
}

impl Disk {
    /// A pin for a token of an extent whose bytes were right at `before`.
    pub(crate) fn lend(
        self: &Arc<Self>,
        handle: &Arc<OpenSegment>,
        entry: Entry,
        header: &Arc<ExtentHeader>,
        before: Before,
    ) -> Arc<Loan> {
        let mut loans = handle.loans().0.lock();
        let known = loans.entry(entry.place.offset_bytes() + header.len()).or_default();
        // One that is out already stands for both: its `before` is the older one.
        known.upgrade().unwrap_or_else(|| {
            let loan = Arc::new(Loan {
                disk: Arc::downgrade(self),
                checking: Arc::clone(&self.checking),
                handle: ManuallyDrop::new(Arc::clone(handle)),
                entry,
                header: Arc::clone(header),
                before,
            });
            *known = Arc::downgrade(&loan);
            loan
        })
    }

    /// Verifies a piece of a loan, off the disk if need be.
    async fn recheck(self: Arc<Self>, loan: Arc<Loan>, piece: Range<u64>) -> io::Result<Proof> {
        for _ in 0..MAX_CHECK_TURNS {
            // Somebody else may have brought it back.
            if let Some(proof) = loan.proof(&piece) {
                return Ok(proof);
            }
            let permit = Arc::clone(&self.limits.reads).acquire_owned().await;
            let permit = permit.map_err(|_| io::Error::other("the store is closed"))?;
            match self.checking.begin(loan.entry, loan.pages(&piece)) {
                Ok(guard) => {
                    let rechecking = spawn_blocking(move || {
                        let _permit = permit;
                        self.recheck_off_reactor(&loan, &piece, guard)
                    });
                    return rechecking.await.map_err(io::Error::other)?;
                }
                Err(busy) => {
                    drop(permit);
                    busy.await;
                }
            }
        }
        Err(io::Error::other("others check the same pages all the time"))
    }

    fn recheck_off_reactor(
        &self,
        loan: &Loan,
        piece: &Range<u64>,
        guard: CheckGuard,
    ) -> io::Result<Proof> {
        let started = self.clock.now();
        match verify_in_steps(&loan.handle, &loan.header, &loan.grains(piece)) {
            Ok(()) => {
                // While the pages are still marked: what fails later is counted later.
                let Before(proof) = self.checking.before();
                guard.passed();
                self.metrics.read_took(self.clock.now().duration_since(started));
                Ok(Proof(proof))
            }
            Err(failure) => {
                self.drop_checked(loan.entry, &failure, Where::Send, guard);
                Err(io::Error::new(io::ErrorKind::InvalidData, failure))
            }
        }
    }
}

impl Keeper for Loans {
    fn vouches(&self, piece: &Range<u64>, proof: Option<Proof>) -> bool {
        self.find(piece).is_some_and(|loan| {
            let before = proof.map_or(loan.before, |Proof(before)| Before(before));
            loan.checking.vouches(before, loan.entry, loan.pages(piece))
        })
    }

    fn recheck(&self, piece: Range<u64>) -> Recheck {
        let loan = self.find(&piece);
        Box::pin(async move {
            let gone = || io::Error::other("the store is gone");
            let loan = loan.ok_or_else(gone)?;
            let disk = loan.disk.upgrade().ok_or_else(gone)?;
            disk.recheck(loan, piece).await
        })
    }
}

impl Loans {
    /// The loan that a piece of a token belongs to.
    fn find(&self, piece: &Range<u64>) -> Option<Arc<Loan>> {
        self.0.lock().range(..=piece.start).next_back()?.1.upgrade()
    }
}

impl Loan {
    /// A proof for a piece that is in memory and right.
    fn proof(&self, piece: &Range<u64>) -> Option<Proof> {
        let now = self.checking.before();
        let is_resident = self.handle.window().is_resident(piece.clone()).unwrap_or(false);
        let is_right = || self.checking.vouches(self.before, self.entry, self.pages(piece));
        (is_resident && is_right()).then_some(Proof(now.0))
    }

    /// The pages of the block that a piece touches.
    fn pages(&self, piece: &Range<u64>) -> PageMask {
        let (from, to) = (piece.start - self.data_at(), piece.end - self.data_at());
        let first = from / PAGE_BYTES;
        let count = to.div_ceil(PAGE_BYTES) - first;
        let first = self.entry.place.pages.first + first as u8;
        Pages { first, count: count as u8 }.mask()
    }

    /// The grains that a piece touches.
    fn grains(&self, piece: &Range<u64>) -> Grains {
        let data_at = self.data_at();
        let first = (piece.start - data_at) / CRC_GRAIN_BYTES;
        let end = align(piece.end - data_at).min(self.header.range().len());
        Grains { first, range: data_at + first * CRC_GRAIN_BYTES..data_at + end }
    }

    fn data_at(&self) -> u64 {
        self.entry.place.offset_bytes() + self.header.len()
    }
}

impl Drop for Loan {
    #[expect(unsafe_code, reason = "moves the handle out, so that nothing is left to drop here")]
    fn drop(&mut self) {
        let mut loans = self.handle.loans().0.lock();
        // Another one may have taken its place.
        if let MapEntry::Occupied(own) = loans.entry(self.data_at())
            && own.get().strong_count() == 0
        {
            own.remove();
        }
        drop(loans);
        // SAFETY: the loan is going, and nobody uses its handle after this.
        let handle = unsafe { ManuallyDrop::take(&mut self.handle) };
        // Tokens are dropped by connections. Closing an unlinked file of 1 GiB takes the kernel
        // a tenth of a second or three.
        if handle.segment().is_retired() && Handle::try_current().is_ok() {
            drop(spawn_blocking(move || drop(handle)));
        }
    }
}

impl std::fmt::Debug for Loan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loan").field("entry", &self.entry).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use forebay_rt::{SharedClock, SystemClock};
    use forebay_types::{
        BlockIndex, BucketName, ByteRange, ETag, ObjectId, ObjectKey, RuleId, Stamp,
    };

    use super::*;
    use crate::config::DiskConfig;
    use crate::recover;

    const START: u64 = 3 * PAGE_BYTES;
    const SIZE: u64 = 9 * PAGE_BYTES + 5_000;

    fn object() -> ObjectId {
        let last_modified = "Wed, 21 Oct 2015 07:28:00 GMT".into();
        let stamp = Stamp { etag: ETag::new("\"1\""), size: SIZE, last_modified, version_id: None };
        let (bucket, key) = (BucketName::new("b").unwrap(), ObjectKey::new("k").unwrap());
        ObjectId::new(RuleId(1), bucket, key, stamp)
    }

    /// Pages 3 to 9 of a block, the last one short.
    async fn lent(disk: &Arc<Disk>) -> Arc<Loan> {
        let ask = disk.ask(&object(), BlockIndex(0), ByteRange::new(START, SIZE).unwrap());
        let bytes: Vec<u8> = (0..SIZE - START).map(|at| (at >> 8) as u8 ^ at as u8).collect();
        disk.put(ask.clone(), [Bytes::from(bytes)].into()).await.unwrap();
        let place = disk.index.find(ask.hash, 3).unwrap();
        let handle = disk.open(place).unwrap();
        let header = disk.header(&handle, place).unwrap();
        let before = disk.checking.before();
        disk.lend(&handle, Entry { hash: ask.hash, place }, &header, before)
    }

    fn disk(dir: &std::path::Path) -> Arc<Disk> {
        let config = DiskConfig { path: dir.to_owned(), capacity_bytes: Some(64 << 20) };
        let clock: SharedClock = Arc::new(SystemClock);
        recover::open(&config, None, &clock).unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_piece_of_a_loan_is_checked_as_the_pages_and_grains_that_it_touches() {
        let dir = tempfile::tempdir().unwrap();
        let disk = disk(dir.path());
        let loan = lent(&disk).await;
        let (data, end) = (loan.data_at(), loan.data_at() + SIZE - START);
        for (piece, pages, grains) in [
            (data..end, (3, 7), (0, data..end)),
            (data..data + 1, (3, 1), (0, data..data + 4_096)),
            (data + 65_535..data + 65_537, (3, 2), (15, data + 61_440..data + 69_632)),
            (end - 1..end, (9, 1), (97, data + 97 * 4_096..end)),
        ] {
            let (first, count) = pages;
            assert_eq!(loan.pages(&piece), Pages { first, count }.mask(), "{piece:?}");
            let found = loan.grains(&piece);
            verify_in_steps(&loan.handle, &loan.header, &found).unwrap();
            assert_eq!((found.first, found.range), grains, "{piece:?}");
            let proof = loan.handle.loans().recheck(piece.clone()).await.unwrap();
            assert!(loan.handle.loans().vouches(&piece, Some(proof)));
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_loan_is_shared_and_forgotten_with_its_last_holder() {
        let dir = tempfile::tempdir().unwrap();
        let disk = disk(dir.path());
        let one = lent(&disk).await;
        let two = disk.lend(&one.handle, one.entry, &one.header, disk.checking.before());
        assert!(Arc::ptr_eq(&one, &two));
        let (handle, piece) = (Arc::clone(&one.handle), one.data_at()..one.data_at() + 1);
        drop(one);
        assert!(handle.loans().vouches(&piece, None));
        drop(two);
        assert!(!handle.loans().vouches(&piece, None));
        assert!(handle.loans().0.lock().is_empty());
    }
}
