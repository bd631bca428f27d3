//! The cache as a whole: its parts, its settings, its state.

use std::sync::Arc;

use forebay_rt::{SharedClock, SharedRng};

use crate::authority::Authority;
use crate::fills::Fills;
use crate::metrics::Metrics;
use crate::name_locks::NameLocks;
use crate::sequential::Sequential;
use crate::traits::{Forward, LocalBlocks, OriginObjects, Versions};

/// What the cache is made of.
pub struct CacheParts {
    /// Blocks on this worker's disks.
    pub local: Arc<dyn LocalBlocks>,
    /// Versions that survive a restart.
    pub versions: Arc<dyn Versions>,
    /// Objects at the origin.
    pub origin: Arc<dyn OriginObjects>,
    /// The way of everything that is not a read.
    pub forward: Arc<dyn Forward>,
    /// Time.
    pub clock: SharedClock,
    /// Chance, for jitter.
    pub rng: SharedRng,
    /// Numbers.
    pub config: CacheConfig,
}

/// The numbers of the cache.
#[derive(Debug, Clone)]
pub struct CacheConfig {
    /// Blocks fetched ahead of a reader, the one being read not counted.
    pub read_ahead_blocks: u64,
    /// Memory that fills may hold, in bytes, all of them together. At least two blocks.
    pub fill_budget_bytes: u64,
    /// Versions of names kept in memory.
    pub versions_in_memory: usize,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self { read_ahead_blocks: 8, fill_budget_bytes: 512 << 20, versions_in_memory: 1 << 20 }
    }
}

/// A read-through cache in front of object origins. See the crate's documentation.
pub struct Cache {
    pub(crate) local: Arc<dyn LocalBlocks>,
    pub(crate) versions: Arc<dyn Versions>,
    pub(crate) origin: Arc<dyn OriginObjects>,
    pub(crate) forward: Arc<dyn Forward>,
    pub(crate) clock: SharedClock,
    pub(crate) rng: SharedRng,
    pub(crate) read_ahead_blocks: u64,
    pub(crate) authority: Authority,
    pub(crate) fills: Fills,
    /// Held while what the disk remembers of a name changes.
    pub(crate) remembering: NameLocks,
    pub(crate) sequential: Sequential,
    pub(crate) metrics: Metrics,
}

impl Cache {
    /// Puts the parts together.
    pub fn new(parts: CacheParts) -> Arc<Self> {
        let CacheParts { local, versions, origin, forward, clock, rng, config } = parts;
        Arc::new(Self {
            local,
            versions,
            origin,
            forward,
            authority: Authority::new(config.versions_in_memory),
            fills: Fills::new(config.fill_budget_bytes),
            clock,
            rng,
            read_ahead_blocks: config.read_ahead_blocks,
            remembering: NameLocks::new(),
            sequential: Sequential::new(),
            metrics: Metrics::new(),
        })
    }

    /// Fills under way.
    pub fn fills_in_flight(&self) -> usize {
        self.fills.in_flight()
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("fills_in_flight", &self.fills_in_flight()).finish()
    }
}
