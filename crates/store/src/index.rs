//! The index in memory: for each block, where its extents are and how hot they are.
//!
//! Sharded so that no doubling stalls readers and no lock is contended. Holds hashes only: the
//! full name is in the extent's header. Knows neither disks nor RocksDB; while it is being
//! loaded, what was removed meanwhile is remembered, so that loading cannot bring it back.

use std::collections::hash_map::Entry as MapEntry;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use quick_cache::sync::Cache;

use crate::limits::MAX_KNOWN_BLOCKS;
use crate::place::{BlockHash, Entry, ExtentKey, PageMask, Pages, Place, SegmentId};

/// Shards; with 100 million entries the doubling of one takes a few milliseconds.
const SHARDS: usize = 1024;
/// Hits beyond this many say nothing new, as in S3-FIFO.
const MAX_HEAT: u8 = 3;

/// Bytes of an entry in a hash table, its control byte included.
const ENTRY_BYTES: usize = size_of::<(BlockHash, Stored)>() + 1;
const _: () = assert!(ENTRY_BYTES < 48, "100 million entries fit into 5 GB");

/// Where the extents of every block are.
pub(crate) struct Index {
    shards: Box<[RwLock<Shard>]>,
    extents: AtomicU64,
    loaded: AtomicBool,
    removed_while_loading: Mutex<HashSet<ExtentKey>>,
    /// Blocks of which all that is stored is in memory before everything is. A few of them:
    /// those that readers are at.
    known: Cache<BlockHash, ()>,
}

type Shard = HashMap<BlockHash, Stored, BuildHasherDefault<Prehashed>>;

/// The extents of one block. Nearly always it is one.
enum Stored {
    One(Extent),
    Many(Box<Extents>),
}

/// Two or more extents, by first page. Boxed as a whole: a boxed slice would widen every entry.
struct Extents(Vec<Extent>);

/// A [`Place`] and its heat, flat, so that it takes 12 bytes.
struct Extent {
    segment: SegmentId,
    at: u32,
    first_page: u8,
    pages: u8,
    heat: AtomicU8,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            extents: AtomicU64::new(0),
            loaded: AtomicBool::new(false),
            removed_while_loading: Mutex::default(),
            known: Cache::new(MAX_KNOWN_BLOCKS),
        }
    }

    /// The extent that holds a page.
    pub(crate) fn find(&self, hash: BlockHash, page: u8) -> Option<Place> {
        let shard = self.shard(hash).read();
        shard.get(&hash)?.all().iter().find(|e| e.place().pages.holds(page)).map(Extent::place)
    }

    /// Counts a hit.
    pub(crate) fn touch(&self, hash: BlockHash, place: Place) {
        let shard = self.shard(hash).read();
        let Some(stored) = shard.get(&hash) else { return };
        if let Some(extent) = stored.all().iter().find(|extent| extent.place() == place) {
            // Racing readers may lose a count; an atomic add would cost each of them more.
            let heat = extent.heat.load(Ordering::Relaxed);
            if heat < MAX_HEAT {
                extent.heat.store(heat + 1, Ordering::Relaxed);
            }
        }
    }

    /// Hits of an extent since it was written; `None` if it is not here.
    pub(crate) fn heat(&self, entry: Entry) -> Option<u8> {
        let shard = self.shard(entry.hash).read();
        let stored = shard.get(&entry.hash)?.all();
        let extent = stored.iter().find(|extent| extent.place() == entry.place)?;
        Some(extent.heat.load(Ordering::Relaxed))
    }

    /// Whether an extent is here.
    pub(crate) fn holds(&self, entry: Entry) -> bool {
        self.heat(entry).is_some()
    }

    /// Forgets the hits of a block.
    pub(crate) fn cool(&self, hash: BlockHash) {
        if let Some(stored) = self.shard(hash).read().get(&hash) {
            for extent in stored.all() {
                extent.heat.store(0, Ordering::Relaxed);
            }
        }
    }

    /// The pages of a block that are stored.
    pub(crate) fn stored(&self, hash: BlockHash) -> PageMask {
        let shard = self.shard(hash).read();
        shard.get(&hash).map(Stored::mask).unwrap_or_default()
    }

    /// Adds an extent, unless one of its pages is stored already: the first one stays.
    pub(crate) fn insert(&self, entry: Entry) -> bool {
        let mut shard = self.shard(entry.hash).write();
        self.insert_into(&mut shard, entry)
    }

    /// Adds an extent found by loading, unless it was removed since loading began.
    pub(crate) fn insert_loaded(&self, entry: Entry) {
        let mut shard = self.shard(entry.hash).write();
        if !self.removed_while_loading.lock().contains(&entry.place.key()) {
            self.insert_into(&mut shard, entry);
        }
    }

    /// Puts `new`, which holds the same pages, in the place of `old`, if that is still here.
    pub(crate) fn replace(&self, old: Entry, new: Place, heat: u8) -> bool {
        let mut shard = self.shard(old.hash).write();
        let Some(stored) = shard.get_mut(&old.hash) else { return false };
        match stored.all_mut().iter_mut().find(|extent| extent.place() == old.place) {
            Some(extent) => {
                *extent = Extent::new(new, heat);
                self.note_removed(old.place);
                true
            }
            None => false,
        }
    }

    /// Removes an extent; false if it was not here.
    pub(crate) fn remove(&self, entry: Entry) -> bool {
        let mut shard = self.shard(entry.hash).write();
        self.note_removed(entry.place);
        let MapEntry::Occupied(mut slot) = shard.entry(entry.hash) else { return false };
        let removed = match slot.get_mut() {
            Stored::One(extent) if extent.place() == entry.place => {
                slot.remove();
                true
            }
            Stored::One(_) => false,
            Stored::Many(many) => {
                let before = many.0.len();
                many.0.retain(|extent| extent.place() != entry.place);
                let removed = many.0.len() < before;
                if many.0.len() == 1
                    && let Some(last) = many.0.pop()
                {
                    *slot.get_mut() = Stored::One(last);
                }
                removed
            }
        };
        self.extents.fetch_sub(u64::from(removed), Ordering::Relaxed);
        removed
    }

    /// Extents known at present.
    pub(crate) fn len(&self) -> u64 {
        self.extents.load(Ordering::Relaxed)
    }

    /// Whether what is not in memory is not stored.
    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded.load(Ordering::Acquire)
    }

    /// Everything that was stored is in memory.
    pub(crate) fn set_loaded(&self) {
        self.loaded.store(true, Ordering::Release);
        *self.removed_while_loading.lock() = HashSet::new();
        self.known.clear();
    }

    /// Whether what is not in memory of this block is not stored.
    pub(crate) fn knows(&self, hash: BlockHash) -> bool {
        self.is_loaded() || self.known.get(&hash).is_some()
    }

    /// Everything that was stored of this block is in memory.
    pub(crate) fn set_known(&self, hash: BlockHash) {
        self.known.insert(hash, ());
    }

    fn insert_into(&self, shard: &mut Shard, Entry { hash, place }: Entry) -> bool {
        match shard.entry(hash) {
            MapEntry::Vacant(slot) => {
                slot.insert(Stored::One(Extent::new(place, 0)));
            }
            MapEntry::Occupied(slot) if slot.get().mask().overlaps(place.pages.mask()) => {
                return false;
            }
            MapEntry::Occupied(mut slot) => slot.get_mut().push(Extent::new(place, 0)),
        }
        self.extents.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn note_removed(&self, place: Place) {
        if !self.is_loaded() {
            self.removed_while_loading.lock().insert(place.key());
        }
    }

    fn shard(&self, hash: BlockHash) -> &RwLock<Shard> {
        &self.shards[hash.high as usize % SHARDS]
    }
}

impl Stored {
    fn all(&self) -> &[Extent] {
        match self {
            Self::One(extent) => std::slice::from_ref(extent),
            Self::Many(many) => &many.0,
        }
    }

    fn all_mut(&mut self) -> &mut [Extent] {
        match self {
            Self::One(extent) => std::slice::from_mut(extent),
            Self::Many(many) => &mut many.0,
        }
    }

    fn mask(&self) -> PageMask {
        self.all().iter().fold(PageMask::default(), |mask, e| mask.with(e.place().pages.mask()))
    }

    fn push(&mut self, extent: Extent) {
        match self {
            Self::One(_) => {
                let empty = Self::Many(Box::new(Extents(Vec::with_capacity(2))));
                if let (Self::One(first), Self::Many(many)) = (std::mem::replace(self, empty), self)
                {
                    many.0.extend([first, extent]);
                    many.0.sort_unstable_by_key(|extent| extent.first_page);
                }
            }
            Self::Many(many) => {
                let at = many.0.partition_point(|known| known.first_page < extent.first_page);
                many.0.insert(at, extent);
            }
        }
    }
}

impl Extent {
    fn new(place: Place, heat: u8) -> Self {
        let Place { segment, at, pages } = place;
        let heat = AtomicU8::new(heat.min(MAX_HEAT));
        Self { segment, at, first_page: pages.first, pages: pages.count, heat }
    }

    fn place(&self) -> Place {
        let pages = Pages { first: self.first_page, count: self.pages };
        Place { segment: self.segment, at: self.at, pages }
    }
}

/// A hasher for keys that are hashes.
#[derive(Default)]
struct Prehashed(u64);

impl Hasher for Prehashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    /// Called for the high word, then for the low one, which stands: the shard took the high one.
    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: BlockHash = BlockHash { high: 1, low: 2 };

    fn entry(at: u32, first: u8, count: u8) -> Entry {
        Entry { hash: HASH, place: Place { segment: 1, at, pages: Pages { first, count } } }
    }

    #[test]
    fn an_entry_takes_less_than_48_bytes() {
        assert_eq!(size_of::<Extent>(), 12);
        assert_eq!(ENTRY_BYTES, 33);
    }

    #[test]
    fn the_first_extent_of_a_page_stays() {
        let index = Index::new();
        assert!(index.insert(entry(1, 0, 4)));
        assert!(!index.insert(entry(2, 3, 2)));
        assert!(index.insert(entry(3, 4, 2)));
        assert_eq!(index.find(HASH, 3), Some(entry(1, 0, 4).place));
        assert_eq!(index.find(HASH, 5), Some(entry(3, 4, 2).place));
        assert_eq!(index.find(HASH, 6), None);
        assert_eq!(index.len(), 2);
    }

    #[test]
    fn extents_come_and_go_one_by_one() {
        let index = Index::new();
        for at in 0..5 {
            assert!(index.insert(entry(u32::from(at), 10 - 2 * at, 2)));
        }
        assert!(!index.remove(entry(9, 2, 2)));
        for at in [2u8, 0, 4, 3, 1] {
            assert!(index.remove(entry(u32::from(at), 10 - 2 * at, 2)));
            assert_eq!(index.find(HASH, 10 - 2 * at), None);
        }
        assert_eq!((index.len(), index.stored(HASH)), (0, PageMask::default()));
    }

    #[test]
    fn loading_does_not_bring_back_what_was_removed() {
        let index = Index::new();
        index.insert_loaded(entry(1, 0, 1));
        index.remove(entry(1, 0, 1));
        index.insert_loaded(entry(1, 0, 1));
        assert_eq!(index.find(HASH, 0), None);
        index.insert_loaded(entry(2, 0, 1));
        assert_eq!(index.find(HASH, 0), Some(entry(2, 0, 1).place));
    }

    #[test]
    fn blocks_become_known_one_by_one_and_then_all_at_once() {
        let (index, other) = (Index::new(), BlockHash { high: 3, low: 4 });
        assert!(!index.knows(HASH));
        index.set_known(HASH);
        assert_eq!((index.knows(HASH), index.knows(other)), (true, false));
        index.set_loaded();
        assert!(index.knows(HASH) && index.knows(other));
    }

    #[test]
    fn hits_count_up_to_a_few_and_cooling_forgets_them() {
        let index = Index::new();
        index.insert(entry(1, 0, 1));
        assert_eq!(index.heat(entry(1, 0, 1)), Some(0));
        for _ in 0..9 {
            index.touch(HASH, entry(1, 0, 1).place);
        }
        assert_eq!(index.heat(entry(1, 0, 1)), Some(MAX_HEAT));
        assert!(index.replace(entry(1, 0, 1), entry(7, 0, 1).place, 2));
        assert_eq!(index.heat(entry(7, 0, 1)), Some(2));
        index.cool(HASH);
        assert_eq!(index.heat(entry(7, 0, 1)), Some(0));
    }
}
