//! The index on disk: one RocksDB a disk, on that disk.
//!
//! Owns keys and values of its column families and RocksDB's tuning. Every extent is there
//! twice: by block, to be found, and by segment, to be evicted without reading the segment.
//! Writes are not synced (what is missing after a crash is garbage in a segment, what is stale
//! is found out by the extent's header), but for segment ids and forgotten heads.

use std::path::{Path, PathBuf};

use parking_lot::RwLock;
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType,
    Direction, IteratorMode, LogLevel, Options, ReadOptions, WriteBatch, WriteOptions,
};

use crate::limits::BATCH_ENTRIES;
use crate::place::{BlockHash, Entry, NameHash, Pages, Place, SegmentId};

/// block hash, first page, segment, place -> pages
const EXTENTS: &str = "extents";
/// segment, kind, place or name hash -> block hash, first page, pages
const SEGMENTS: &str = "segments";
/// name hash -> owning segment, head
const HEADS: &str = "heads";
/// In the default family: segment ids below this one may be in use.
const SEGMENT_IDS: &[u8] = b"segment ids";

/// In the default family: written to see whether that works.
const PROBE: &[u8] = b"probe";

const EXTENT_KIND: u8 = 0;
const HEAD_KIND: u8 = 1;
const BLOCK_CACHE_BYTES: usize = 4 << 20;
const LOG_BYTES: usize = 256 << 10;
const LOG_FILES: usize = 2;
const OPEN_FILES: i32 = 64;

/// The index of one disk.
pub(crate) struct Persist {
    path: PathBuf,
    memtable_bytes: u64,
    state: RwLock<State>,
}

enum State {
    Open(DB),
    /// Reopening failed; it may be tried again.
    Failed,
    Closed,
}

/// The index cannot be asked or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IndexError {
    #[error("index: {0}")]
    Rocks(#[from] rocksdb::Error),
    #[error("index is not open")]
    Closed,
}

/// A head as it is stored.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoredHead {
    /// The segment with which the head goes, unless the object's bytes are elsewhere.
    pub(crate) owner: SegmentId,
    pub(crate) bytes: Vec<u8>,
}

impl Persist {
    pub(crate) fn open(path: &Path, memtable_bytes: u64) -> Result<Self, rocksdb::Error> {
        let db = open_db(path, memtable_bytes)?;
        Ok(Self { path: path.to_owned(), memtable_bytes, state: RwLock::new(State::Open(db)) })
    }

    /// Opens it anew: RocksDB stays read-only after an error of the disk.
    pub(crate) fn reopen(&self) -> Result<(), IndexError> {
        let mut state = self.state.write();
        if matches!(*state, State::Closed) {
            return Err(IndexError::Closed);
        }
        // Closed before it is opened: RocksDB locks its directory.
        *state = State::Failed;
        *state = State::Open(open_db(&self.path, self.memtable_bytes)?);
        Ok(())
    }

    /// Flushes and closes it.
    pub(crate) fn close(&self) -> Result<(), IndexError> {
        let before = std::mem::replace(&mut *self.state.write(), State::Closed);
        let State::Open(db) = before else { return Ok(()) };
        for name in [EXTENTS, SEGMENTS, HEADS] {
            db.flush_cf(family(&db, name)?)?;
        }
        db.flush()?;
        Ok(())
    }

    /// Bytes that its files take.
    pub(crate) fn bytes_on_disk(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        let Ok(files) = std::fs::read_dir(&self.path) else { return 0 };
        files
            .flatten()
            .filter_map(|file| file.metadata().ok())
            .map(|meta| meta.blocks() * 512)
            .sum()
    }

    /// Whether it takes writes.
    pub(crate) fn probe(&self) -> Result<(), IndexError> {
        self.with(|db| Ok(db.put_opt(PROBE, [], &synced())?))
    }

    /// Notes that ids below `end` may be in use, so that no crash can bring one back.
    pub(crate) fn use_segment_ids(&self, end: SegmentId) -> Result<(), IndexError> {
        self.with(|db| Ok(db.put_opt(SEGMENT_IDS, end.to_be_bytes(), &synced())?))
    }

    /// The first segment id that was certainly never used.
    pub(crate) fn unused_segment_id(&self) -> Result<Option<SegmentId>, IndexError> {
        let value = self.with(|db| Ok(db.get(SEGMENT_IDS)?))?;
        Ok(value.and_then(|bytes| Some(SegmentId::from_be_bytes(bytes.try_into().ok()?))))
    }

    pub(crate) fn add_extent(&self, entry: Entry) -> Result<(), IndexError> {
        self.with(|db| {
            let mut batch = WriteBatch::default();
            batch.put_cf(family(db, EXTENTS)?, extent_key(entry), [entry.place.pages.count]);
            batch.put_cf(family(db, SEGMENTS)?, segment_key(entry.place), segment_value(entry));
            Ok(db.write(batch)?)
        })
    }

    pub(crate) fn remove_extents(&self, entries: &[Entry]) -> Result<(), IndexError> {
        self.with(|db| {
            let (extents, segments) = (family(db, EXTENTS)?, family(db, SEGMENTS)?);
            for some in entries.chunks(BATCH_ENTRIES) {
                let mut batch = WriteBatch::default();
                for entry in some {
                    batch.delete_cf(extents, extent_key(*entry));
                    batch.delete_cf(segments, segment_key(entry.place));
                }
                db.write(batch)?;
            }
            Ok(())
        })
    }

    /// The extents of one block.
    pub(crate) fn block(&self, hash: BlockHash) -> Result<Vec<Entry>, IndexError> {
        let prefix = hash.to_bytes();
        self.with(|db| {
            let mut found = Vec::new();
            for item in
                db.iterator_cf_opt(family(db, EXTENTS)?, prefix_only(&prefix), from(&prefix))
            {
                let (key, value) = item?;
                found.extend(parse_extent(&key, &value));
            }
            Ok(found)
        })
    }

    /// The extents of one segment.
    pub(crate) fn segment(&self, id: SegmentId) -> Result<Vec<Entry>, IndexError> {
        self.segment_part(id, 0, usize::MAX)
    }

    /// The first `most` extents of one segment that are at `from` or behind it.
    pub(crate) fn segment_part(
        &self,
        id: SegmentId,
        from: u32,
        most: usize,
    ) -> Result<Vec<Entry>, IndexError> {
        let prefix = kind_prefix(id, EXTENT_KIND);
        let first = extent_in_segment_key(id, from);
        self.with(|db| {
            let mut found = Vec::new();
            let start = IteratorMode::From(&first, Direction::Forward);
            for item in db.iterator_cf_opt(family(db, SEGMENTS)?, prefix_only(&prefix), start) {
                if found.len() == most {
                    break;
                }
                let (key, value) = item?;
                found.extend(parse_in_segment(id, &key, &value));
            }
            Ok(found)
        })
    }

    /// All extents, in batches, until `take` has had enough.
    pub(crate) fn scan(&self, mut take: impl FnMut(&[Entry]) -> bool) -> Result<(), IndexError> {
        self.with(|db| {
            let mut batch = Vec::with_capacity(BATCH_ENTRIES);
            let mut options = ReadOptions::default();
            options.fill_cache(false);
            for item in db.iterator_cf_opt(family(db, EXTENTS)?, options, IteratorMode::Start) {
                let (key, value) = item?;
                batch.extend(parse_extent(&key, &value));
                if batch.len() >= BATCH_ENTRIES {
                    if !take(&batch) {
                        return Ok(());
                    }
                    batch.clear();
                }
            }
            take(&batch);
            Ok(())
        })
    }

    pub(crate) fn head(&self, name: &NameHash) -> Result<Option<StoredHead>, IndexError> {
        let value = self.with(|db| Ok(db.get_cf(family(db, HEADS)?, name)?))?;
        Ok(value.and_then(|value| {
            let (owner, bytes) = value.split_first_chunk()?;
            Some(StoredHead { owner: SegmentId::from_be_bytes(*owner), bytes: bytes.to_vec() })
        }))
    }

    pub(crate) fn put_head(&self, name: &NameHash, head: &StoredHead) -> Result<(), IndexError> {
        self.with(|db| {
            let value = [&head.owner.to_be_bytes()[..], &head.bytes].concat();
            let mut batch = WriteBatch::default();
            batch.put_cf(family(db, HEADS)?, name, value);
            batch.put_cf(family(db, SEGMENTS)?, owned_head_key(head.owner, name), []);
            Ok(db.write(batch)?)
        })
    }

    /// Removes a head for good, power loss included.
    pub(crate) fn remove_head(&self, name: &NameHash) -> Result<(), IndexError> {
        self.with(|db| {
            let heads = family(db, HEADS)?;
            if db.get_pinned_cf(heads, name)?.is_some() {
                db.delete_cf_opt(heads, name, &synced())?;
            }
            Ok(())
        })
    }

    /// The names whose heads go with a segment.
    pub(crate) fn heads_of(&self, owner: SegmentId) -> Result<Vec<NameHash>, IndexError> {
        let prefix = kind_prefix(owner, HEAD_KIND);
        self.with(|db| {
            let mut names = Vec::new();
            for item in
                db.iterator_cf_opt(family(db, SEGMENTS)?, prefix_only(&prefix), from(&prefix))
            {
                let (key, _) = item?;
                names
                    .extend(key.get(prefix.len()..).and_then(|name| NameHash::try_from(name).ok()));
            }
            Ok(names)
        })
    }

    /// Forgets that a head goes with a segment, and removes it if it is an orphan.
    pub(crate) fn release_head(
        &self,
        owner: SegmentId,
        name: &NameHash,
        is_orphan: bool,
    ) -> Result<(), IndexError> {
        self.with(|db| {
            let mut batch = WriteBatch::default();
            batch.delete_cf(family(db, SEGMENTS)?, owned_head_key(owner, name));
            if is_orphan {
                batch.delete_cf(family(db, HEADS)?, name);
            }
            Ok(db.write(batch)?)
        })
    }

    /// Removes every head: for a disk that may have missed that some were to be forgotten.
    pub(crate) fn remove_all_heads(&self) -> Result<(), IndexError> {
        // The end is exclusive, and longer than any name hash.
        self.with(|db| {
            let (start, end) = (&[0; 16][..], &[u8::MAX; 17][..]);
            Ok(db.delete_range_cf(family(db, HEADS)?, start, end)?)
        })
    }

    fn with<T>(&self, work: impl FnOnce(&DB) -> Result<T, IndexError>) -> Result<T, IndexError> {
        // Recursive, because whoever scans also removes what it finds to be dead.
        match &*self.state.read_recursive() {
            State::Open(db) => work(db),
            State::Failed | State::Closed => Err(IndexError::Closed),
        }
    }
}

impl IndexError {
    /// Whether the disk is to blame.
    pub(crate) fn is_disk_failure(&self) -> bool {
        matches!(self, Self::Rocks(_))
    }
}

fn open_db(path: &Path, memtable_bytes: u64) -> Result<DB, rocksdb::Error> {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_db_write_buffer_size(2 * memtable_bytes as usize);
    options.set_max_total_wal_size(2 * memtable_bytes);
    options.set_manifest_preallocation_size(64 << 10);
    options.set_max_manifest_file_size(1 << 20);
    options.set_max_open_files(OPEN_FILES);
    options.set_max_background_jobs(2);
    options.set_stats_dump_period_sec(0);
    options.set_stats_persist_period_sec(0);
    options.set_log_level(LogLevel::Warn);
    options.set_max_log_file_size(LOG_BYTES);
    options.set_keep_log_file_num(LOG_FILES);
    let families = [EXTENTS, SEGMENTS, HEADS]
        .map(|name| ColumnFamilyDescriptor::new(name, family_options(memtable_bytes)));
    DB::open_cf_descriptors(&options, path, families)
}

fn family_options(memtable_bytes: u64) -> Options {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache(BLOCK_CACHE_BYTES));
    table.set_cache_index_and_filter_blocks(true);
    table.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.set_block_based_table_factory(&table);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_write_buffer_size(memtable_bytes as usize);
    options.set_max_write_buffer_number(2);
    options.set_target_file_size_base(8 * memtable_bytes);
    options
}

fn family<'db>(db: &'db DB, name: &str) -> Result<&'db ColumnFamily, IndexError> {
    db.cf_handle(name).ok_or(IndexError::Closed)
}

fn synced() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set_sync(true);
    options
}

fn prefix_only(prefix: &[u8]) -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_iterate_range(rocksdb::PrefixRange(prefix));
    options
}

fn from(prefix: &[u8]) -> IteratorMode<'_> {
    IteratorMode::From(prefix, Direction::Forward)
}

fn extent_key(Entry { hash, place }: Entry) -> [u8; 25] {
    let mut key = [0; 25];
    key[..16].copy_from_slice(&hash.to_bytes());
    key[16] = place.pages.first;
    key[17..21].copy_from_slice(&place.segment.to_be_bytes());
    key[21..].copy_from_slice(&place.at.to_be_bytes());
    key
}

fn parse_extent(key: &[u8], value: &[u8]) -> Option<Entry> {
    let (hash, rest) = key.split_first_chunk::<16>()?;
    let (first, rest) = rest.split_first()?;
    let (segment, at) = rest.split_first_chunk::<4>()?;
    let place = Place {
        segment: SegmentId::from_be_bytes(*segment),
        at: u32::from_be_bytes(at.try_into().ok()?),
        pages: pages(*first, *value.first()?)?,
    };
    Some(Entry { hash: BlockHash::from_u128(u128::from_be_bytes(*hash)), place })
}

fn kind_prefix(segment: SegmentId, kind: u8) -> [u8; 5] {
    let [a, b, c, d] = segment.to_be_bytes();
    [a, b, c, d, kind]
}

fn segment_key(place: Place) -> [u8; 9] {
    extent_in_segment_key(place.segment, place.at)
}

fn extent_in_segment_key(segment: SegmentId, at: u32) -> [u8; 9] {
    let mut key = [0; 9];
    key[..5].copy_from_slice(&kind_prefix(segment, EXTENT_KIND));
    key[5..].copy_from_slice(&at.to_be_bytes());
    key
}

fn segment_value(Entry { hash, place }: Entry) -> [u8; 18] {
    let mut value = [0; 18];
    value[..16].copy_from_slice(&hash.to_bytes());
    value[16] = place.pages.first;
    value[17] = place.pages.count;
    value
}

fn parse_in_segment(segment: SegmentId, key: &[u8], value: &[u8]) -> Option<Entry> {
    let at = u32::from_be_bytes(key.get(5..)?.try_into().ok()?);
    let (hash, rest) = value.split_first_chunk::<16>()?;
    let [first, count] = *rest else { return None };
    let place = Place { segment, at, pages: pages(first, count)? };
    Some(Entry { hash: BlockHash::from_u128(u128::from_be_bytes(*hash)), place })
}

/// Pages that a block can have.
fn pages(first: u8, count: u8) -> Option<Pages> {
    let possible = count > 0 && u64::from(first) + u64::from(count) <= crate::limits::BLOCK_PAGES;
    possible.then_some(Pages { first, count })
}

fn owned_head_key(owner: SegmentId, name: &NameHash) -> [u8; 21] {
    let mut key = [0; 21];
    key[..5].copy_from_slice(&kind_prefix(owner, HEAD_KIND));
    key[5..].copy_from_slice(name);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(hash: u128, segment: SegmentId, at: u32, first: u8) -> Entry {
        let place = Place { segment, at, pages: Pages { first, count: 2 } };
        Entry { hash: BlockHash::from_u128(hash), place }
    }

    #[test]
    fn extents_are_found_by_block_and_by_segment_until_removed() {
        let dir = tempfile::tempdir().unwrap();
        let persist = Persist::open(dir.path(), 1 << 20).unwrap();
        let all =
            [entry(1, 1, 5, 0), entry(1, 2, 5, 2), entry(2, 1, 9, 0), entry(u128::MAX, 1, 20, 126)];
        for one in all {
            persist.add_extent(one).unwrap();
        }
        assert_eq!(persist.block(all[0].hash).unwrap(), [all[0], all[1]]);
        assert_eq!(persist.block(all[3].hash).unwrap(), [all[3]]);
        assert_eq!(persist.segment(1).unwrap(), [all[0], all[2], all[3]]);
        assert_eq!(persist.segment_part(1, 6, 1).unwrap(), [all[2]]);
        assert_eq!(persist.segment_part(1, 9, 9).unwrap(), [all[2], all[3]]);
        assert_eq!(persist.segment_part(1, 21, 9).unwrap(), []);
        persist.remove_extents(&[all[0], all[3]]).unwrap();
        persist.close().unwrap();
        assert!(matches!(persist.block(all[1].hash), Err(IndexError::Closed)));

        let persist = Persist::open(dir.path(), 1 << 20).unwrap();
        let mut found = Vec::new();
        persist
            .scan(|batch| {
                found.extend_from_slice(batch);
                true
            })
            .unwrap();
        assert_eq!(found, [all[1], all[2]]);
    }

    #[test]
    fn heads_go_with_their_segment() {
        let dir = tempfile::tempdir().unwrap();
        let persist = Persist::open(dir.path(), 1 << 20).unwrap();
        let head = |owner| StoredHead { owner, bytes: b"head".to_vec() };
        persist.put_head(&[1; 16], &head(3)).unwrap();
        persist.put_head(&[2; 16], &head(3)).unwrap();
        persist.put_head(&[255; 16], &head(4)).unwrap();
        assert_eq!(persist.heads_of(3).unwrap(), [[1; 16], [2; 16]]);
        persist.release_head(3, &[1; 16], false).unwrap();
        persist.release_head(3, &[2; 16], true).unwrap();
        assert_eq!(persist.heads_of(3).unwrap(), [[0; 16]; 0]);
        assert_eq!(persist.head(&[1; 16]).unwrap(), Some(head(3)));
        assert_eq!(persist.head(&[2; 16]).unwrap(), None);
        persist.remove_all_heads().unwrap();
        assert_eq!(persist.head(&[1; 16]).unwrap(), None);
        assert_eq!(persist.head(&[255; 16]).unwrap(), None);
    }
}
