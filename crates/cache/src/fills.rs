//! Fills: at most one on its way for any page, each a task of its own that outlives whoever
//! began it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use forebay_rt::{Clock, spawn, timeout};
use forebay_telemetry::ReadCtx;
use forebay_types::block::round_to_pages;
use forebay_types::{BlockIndex, ByteRange, ObjectId, PAGE_BYTES};
use futures_util::StreamExt;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::authority::{Question, Version};
use crate::cache::Cache;
use crate::error::ReadError;
use crate::flight::{Flight, Outcome};
use crate::limits::{BUDGET_WAIT, FILL_RESUME};
use crate::metrics::NotAdmitted;
use crate::plan::unclaimed;
use crate::traits::{LocalBlocks, OriginBody, OriginFailure};

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

    fn pages(&self, bytes: u64) -> u32 {
        bytes.div_ceil(PAGE_BYTES).min(u64::from(self.budget_pages)) as u32
    }

    fn remove(&self, id: &ObjectId, flight: &Arc<Flight>) {
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

impl Cache {
    /// Sends a fill on its way.
    pub(crate) fn launch(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        version: &Arc<Version>,
        flight: Arc<Flight>,
    ) {
        let (cache, ctx, version) = (self.clone(), ctx.clone(), version.clone());
        spawn(async move {
            let question = None;
            let fill =
                Fill { cache: &cache, ctx: &ctx, version: &version, flight: &flight, question };
            let landing = Landing { fill: &fill, landed: false };
            let outcome = match cache.fills.reserve(&*cache.clock, flight.range().len()).await {
                None => Outcome::NoBudget,
                Some(budget) => {
                    flight.hold(budget);
                    fill.run(None).await
                }
            };
            landing.land(outcome);
        });
    }

    /// Makes a fill of a body that came along with the version; drops the body where its
    /// pages are already stored or on their way. Returns the fill that brings them.
    pub(crate) fn adopt(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        version: Arc<Version>,
        body: OriginBody,
        budget: OwnedSemaphorePermit,
        question: &Arc<Question>,
    ) -> Option<Arc<Flight>> {
        let flight = match self.fills.join(&*self.local, &version.id, body.range) {
            Joined::Local => return None,
            Joined::Existing(flight) => return Some(flight),
            Joined::New(flight) => flight,
        };
        let (cache, ctx, adopted) = (self.clone(), ctx.clone(), flight.clone());
        let question = Some(question.clone());
        spawn(async move {
            let fill =
                Fill { cache: &cache, ctx: &ctx, version: &version, flight: &flight, question };
            let landing = Landing { fill: &fill, landed: false };
            landing.land(fill.run_adopted(body, budget).await);
        });
        Some(adopted)
    }
}

/// One fill while it runs.
struct Fill<'a> {
    cache: &'a Arc<Cache>,
    ctx: &'a ReadCtx,
    version: &'a Arc<Version>,
    flight: &'a Arc<Flight>,
    /// The question whose answer brought the body.
    question: Option<Arc<Question>>,
}

impl Fill<'_> {
    /// The size was unknown when the first share of the budget was taken: trims it, or takes
    /// the rest where there is some. It does not wait for memory: the body has a place at the
    /// origin, which those who have memory may be waiting for.
    async fn run_adopted(&self, body: OriginBody, mut budget: OwnedSemaphorePermit) -> Outcome {
        let fills = &self.cache.fills;
        let (reserved, needed) =
            (budget.num_permits() as u32, fills.pages(self.flight.range().len()));
        if reserved > needed {
            drop(budget.split((reserved - needed) as usize));
        } else if reserved < needed {
            match fills.budget.clone().try_acquire_many_owned(needed - reserved) {
                Ok(rest) => budget.merge(rest),
                Err(_) => return Outcome::NoBudget,
            }
        }
        self.flight.hold(budget);
        // The body may begin with pages that somebody else is already filling, or go past ours.
        let fits = body.range == self.flight.range();
        self.run(fits.then_some(body)).await
    }

    async fn run(&self, first: Option<OriginBody>) -> Outcome {
        let started = self.cache.clock.now();
        if let Err(failure) = self.fetch(first).await {
            return self.failed(&failure).await;
        }
        self.cache.metrics.filled(self.cache.clock.now().saturating_duration_since(started));
        self.store().await
    }

    /// Brings all bytes of the range, carrying on where an attempt broke off.
    async fn fetch(&self, first: Option<OriginBody>) -> Result<(), OriginFailure> {
        let mut body = first;
        let mut failures = 0;
        loop {
            let Some(rest) = ByteRange::new(self.flight.arrived(), self.flight.range().end())
            else {
                return Ok(());
            };
            let arrived_before = rest.start();
            let Err(failure) = self.attempt(body.take(), rest).await else { continue };
            if !is_worth_resuming(&failure) {
                return Err(failure);
            }
            failures = if self.flight.arrived() > arrived_before { 1 } else { failures + 1 };
            match FILL_RESUME.wait_after(failures, &*self.cache.rng) {
                Some(wait) => self.cache.clock.sleep(wait).await,
                None => return Err(failure),
            }
        }
    }

    async fn attempt(
        &self,
        body: Option<OriginBody>,
        rest: ByteRange,
    ) -> Result<(), OriginFailure> {
        let version = self.version;
        let pin = Some(&version.head.stamp);
        let mut body = match body {
            Some(body) => body,
            None => self.cache.origin.get(self.ctx, &version.name, rest, pin).await?,
        };
        if body.head.stamp != version.head.stamp || body.range != rest {
            return Err(OriginFailure::Moved);
        }
        while let Some(frame) = body.frames.next().await {
            let frame = frame?;
            if frame.len() as u64 > rest.end() - self.flight.arrived() {
                return Err(OriginFailure::Moved);
            }
            if !frame.is_empty() {
                self.flight.push(frame);
            }
        }
        Ok(())
    }

    async fn store(&self) -> Outcome {
        let (cache, version) = (self.cache, self.version);
        let Some(frames) = self.flight.frames() else {
            return Outcome::Failed(ReadError::internal("a fill ended before its last byte"));
        };
        if cache.local.store(&version.id, self.flight.range(), frames).await.is_err() {
            cache.metrics.not_admitted(NotAdmitted::Store);
            return Outcome::Kept;
        }
        // A small body can be here before its version is known to be current.
        if let Some(question) = &self.question {
            let _ = question.answer().await;
        }
        cache.remember(version).await;
        Outcome::Stored
    }

    /// An object that moved is no longer what its name means: the next reader asks anew.
    async fn failed(&self, failure: &OriginFailure) -> Outcome {
        let error = ReadError::from(failure.clone());
        if error.is_moved() {
            self.cache.disbelieve(self.version).await;
        }
        Outcome::Failed(error)
    }
}

fn is_worth_resuming(failure: &OriginFailure) -> bool {
    match failure {
        OriginFailure::SlowDown | OriginFailure::Unavailable(_) => true,
        OriginFailure::Refused(_)
        | OriginFailure::Unsatisfiable
        | OriginFailure::Moved
        | OriginFailure::Uncacheable(_) => false,
    }
}

/// Takes the fill out of the table and tells its followers, also when its task panics.
struct Landing<'a> {
    fill: &'a Fill<'a>,
    landed: bool,
}

impl Landing<'_> {
    fn land(mut self, outcome: Outcome) {
        self.landed = true;
        self.end(outcome);
    }

    fn end(&self, outcome: Outcome) {
        let Fill { cache, version, flight, .. } = self.fill;
        cache.fills.remove(&version.id, flight);
        flight.land(outcome);
    }
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        if !self.landed {
            self.end(Outcome::Failed(ReadError::internal("a fill ended unexpectedly")));
        }
    }
}
