//! The cache as a whole: its parts, its settings, its state. It is the gateway of a worker: it
//! finds out who answers, this worker's [`Owner`] or another's, and puts the answer together.

use std::sync::Arc;

use forebay_rt::{SharedClock, SharedRng};

use crate::authority::Authority;
use crate::fills::Fills;
use crate::metrics::Metrics;
use crate::name_locks::NameLocks;
use crate::owner::Owner;
use crate::peers::{Fence, Peek, PeerBlocks, Placement};
use crate::sequential::Sequential;
use crate::shelf::Shelf;
use crate::traits::{Forward, LocalBlocks, OriginObjects, Versions};

/// What the cache is made of. A worker without others plugs [`crate::Alone`] in for them.
pub struct CacheParts {
    /// Blocks on this worker's disks.
    pub local: Arc<dyn LocalBlocks>,
    /// Versions that survive a restart.
    pub versions: Arc<dyn Versions>,
    /// Objects at the origin.
    pub origin: Arc<dyn OriginObjects>,
    /// The way of everything that is not a read.
    pub forward: Arc<dyn Forward>,
    /// Who owns what.
    pub placement: Arc<dyn Placement>,
    /// Asking other workers.
    pub peers: Arc<dyn PeerBlocks>,
    /// Looking at the disks of earlier owners.
    pub previous: Arc<dyn Peek>,
    /// The last resort of a writer.
    pub fence: Arc<dyn Fence>,
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
    pub(crate) owner: Arc<Owner>,
    pub(crate) forward: Arc<dyn Forward>,
    pub(crate) placement: Arc<dyn Placement>,
    pub(crate) peers: Arc<dyn PeerBlocks>,
    pub(crate) fence: Arc<dyn Fence>,
    pub(crate) clock: SharedClock,
    pub(crate) read_ahead_blocks: u64,
    pub(crate) sequential: Sequential,
    shelf: Shelf,
}

impl Cache {
    /// Puts the parts together.
    pub fn new(parts: CacheParts) -> Arc<Self> {
        let CacheConfig { read_ahead_blocks, fill_budget_bytes, versions_in_memory } = parts.config;
        let shelf = Shelf::new(parts.local.clone(), parts.versions.clone());
        let owner = Arc::new(Owner {
            local: parts.local,
            versions: parts.versions,
            previous: parts.previous,
            origin: parts.origin,
            placement: parts.placement.clone(),
            clock: parts.clock.clone(),
            rng: parts.rng,
            read_ahead_blocks,
            authority: Authority::new(versions_in_memory),
            fills: Fills::new(fill_budget_bytes),
            remembering: NameLocks::new(),
            metrics: Metrics::new(),
        });
        Arc::new(Self {
            owner,
            forward: parts.forward,
            placement: parts.placement,
            peers: parts.peers,
            fence: parts.fence,
            clock: parts.clock,
            read_ahead_blocks,
            sequential: Sequential::new(),
            shelf,
        })
    }

    /// What this worker answers for by itself.
    pub fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    /// What this worker has on its disks.
    pub fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    /// Fills under way.
    pub fn fills_in_flight(&self) -> usize {
        self.owner.fills.in_flight()
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.owner.metrics
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("fills_in_flight", &self.fills_in_flight()).finish()
    }
}
