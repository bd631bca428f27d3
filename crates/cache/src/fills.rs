//! The table of fills: at most one on its way for any page.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use forebay_rt::{Clock, timeout};
use forebay_types::block::round_to_pages;
use forebay_types::{BlockIndex, ByteRange, ObjectId, PAGE_BYTES};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::flight::Flight;
use crate::limits::BUDGET_WAIT;
use crate::plan::unclaimed;
use crate::traits::LocalBlocks;

const SHARDS: usize = 16;

type BlockName = (ObjectId, BlockIndex);
type Shard = Mutex<HashMap<BlockName, Vec<Arc<Flight>>>>;

/// The fills on their way, and the memory they may hold.
pub(crate) struct Fills {
    shards: [Shard; SHARDS],
    budget: Arc<Semaphore>,
    budget_pages: u32,
    in_flight: AtomicUsize,
}

/// What a reader whose bytes are not stored is to follow.
pub(crate) enum Joined {
    /// They have been stored in the meantime.
    Local,
    /// A fill that was already on its way.
    Existing(Arc<Flight>),
    /// A fill that the caller has to send on its way.
    New(Arc<Flight>),
}

impl Fills {
    pub(crate) fn new(budget_bytes: u64) -> Self {
        let pages = (budget_bytes / PAGE_BYTES).clamp(1, Semaphore::MAX_PERMITS as u64) as u32;
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            budget: Arc::new(Semaphore::new(pages as usize)),
            budget_pages: pages,
            in_flight: AtomicUsize::new(0),
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Finds or begins the fill that brings the first byte of `wanted`, which lies in one block.
    ///
    /// The store is asked again under the lock: a fill leaves the table only after its bytes
    /// can be read, so a page is either stored, on its way, or nobody's yet.
    pub(crate) fn join(&self, local: &dyn LocalBlocks, id: &ObjectId, wanted: ByteRange) -> Joined {
        let block = BlockIndex::of(wanted.start());
        let mut shard = self.shard(id, block).lock();
        let flights = shard.entry((id.clone(), block)).or_default();
        if let Some(flight) = flights.iter().find(|flight| flight.range().holds(wanted.start())) {
            return Joined::Existing(flight.clone());
        }
        let joined = match missing(local, id, wanted, flights) {
            None => Joined::Local,
            Some(range) => {
                let flight = Arc::new(Flight::new(range));
                flights.push(flight.clone());
                self.in_flight.fetch_add(1, Ordering::Relaxed);
                Joined::New(flight)
            }
        };
        if flights.is_empty() {
            shard.remove(&(id.clone(), block));
        }
        joined
    }

    /// A share of the budget, or `None` where there is none within [`BUDGET_WAIT`].
    pub(crate) async fn reserve(
        &self,
        clock: &dyn Clock,
        bytes: u64,
    ) -> Option<OwnedSemaphorePermit> {
        let waiting = self.budget.clone().acquire_many_owned(self.pages(bytes));
        timeout(clock, BUDGET_WAIT, waiting).await.ok()?.ok()
    }

    /// Whether a fill of this size would find memory right now.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.budget.available_permits() >= self.pages(bytes) as usize
    }

    /// Makes a share of the budget one of `bytes`; `None` where there is not enough right now.
    pub(crate) fn resize(
        &self,
        mut share: OwnedSemaphorePermit,
        bytes: u64,
    ) -> Option<OwnedSemaphorePermit> {
        let (reserved, needed) = (share.num_permits() as u32, self.pages(bytes));
        if reserved > needed {
            drop(share.split((reserved - needed) as usize));
        } else if reserved < needed {
            share.merge(self.budget.clone().try_acquire_many_owned(needed - reserved).ok()?);
        }
        Some(share)
    }

    fn pages(&self, bytes: u64) -> u32 {
        bytes.div_ceil(PAGE_BYTES).min(u64::from(self.budget_pages)) as u32
    }

    /// Takes a fill out that has landed.
    pub(crate) fn remove(&self, id: &ObjectId, flight: &Arc<Flight>) {
        let block = BlockIndex::of(flight.range().start());
        let mut shard = self.shard(id, block).lock();
        let name = (id.clone(), block);
        let Some(flights) = shard.get_mut(&name) else { return };
        flights.retain(|other| !Arc::ptr_eq(other, flight));
        if flights.is_empty() {
            shard.remove(&name);
        }
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    fn shard(&self, id: &ObjectId, block: BlockIndex) -> &Shard {
        let mut hasher = std::hash::DefaultHasher::new();
        std::hash::Hash::hash(&(id, block), &mut hasher);
        &self.shards[std::hash::Hasher::finish(&hasher) as usize % SHARDS]
    }
}

/// The pages around `wanted` that are neither stored nor on their way, from its first on;
/// `None` where that one is stored.
fn missing(
    local: &dyn LocalBlocks,
    id: &ObjectId,
    wanted: ByteRange,
    flights: &[Arc<Flight>],
) -> Option<ByteRange> {
    let gap = local.gap(id, round_to_pages(wanted, id.size()))?;
    gap.holds(wanted.start()).then(|| unclaimed(gap, flights.iter().map(|flight| flight.range())))
}
