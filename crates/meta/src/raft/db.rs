//! A voter's directory: one RocksDB with a family each for log, votes, state and snapshot.
//!
//! Small on purpose: a megabyte of write buffer a family, two background jobs, no cache to speak
//! of. Knows nothing of Raft.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType,
    Direction, IteratorMode, LogLevel, Options, ReadOptions, WriteBatch, WriteOptions,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::format::{self, FormatError};

const WRITE_BUFFER_BYTES: usize = 1 << 20;
/// A write-ahead log is kept until every family with something in it was flushed, so this, not
/// the write buffers, bounds what rarely written families let pile up.
const WAL_BYTES: u64 = 4 << 20;
const BLOCK_CACHE_BYTES: usize = 1 << 20;
const BACKGROUND_JOBS: i32 = 2;
const MANIFEST_BYTES: usize = 256 << 10;
const INFO_LOG_BYTES: usize = 256 << 10;
const INFO_LOG_FILES: usize = 2;
const OPEN_FILES: i32 = 64;

/// Where a value is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// Index, big-endian -> entry.
    Log,
    /// Identity, vote, committed, purged.
    Meta,
    /// The state, and up to where the log was applied to it.
    Machine,
    /// The last snapshot.
    Snapshot,
}

/// A directory cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// The disk, or what is on it: see the message.
    #[error("rocksdb: {0}")]
    Rocks(#[from] rocksdb::Error),
    /// What is on it was not written by this release.
    #[error("stored value: {0}")]
    Format(#[from] FormatError),
    /// The voter is being shut down.
    #[error("closed")]
    Closed,
}

/// When a write counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The disk has it, and all writes before it.
    Synced,
    /// In order behind all writes before it, and no later than the next one that is synced.
    Ordered,
}

/// An open directory.
pub(crate) struct Db {
    dir: PathBuf,
    /// `None` once closed.
    rocks: RwLock<Option<DB>>,
}

/// Changes that happen together or not at all.
pub(crate) struct Batch<'a> {
    rocks: &'a DB,
    writes: WriteBatch,
}

impl Db {
    /// Opens `dir`, which is made if it does not exist.
    pub(crate) fn open(dir: &Path) -> Result<Self, DbError> {
        let families =
            Family::ALL.map(|family| ColumnFamilyDescriptor::new(family.name(), family_options()));
        let rocks = DB::open_cf_descriptors(&db_options(), dir, families)?;
        Ok(Self { dir: dir.to_owned(), rocks: RwLock::new(Some(rocks)) })
    }

    /// Opens a directory that nobody is to write to any more, and leaves it as it is.
    pub(crate) fn open_to_read(dir: &Path) -> Result<Self, DbError> {
        let families = Family::ALL.map(Family::name);
        let rocks = DB::open_cf_for_read_only(&Options::default(), dir, families, false)?;
        Ok(Self { dir: dir.to_owned(), rocks: RwLock::new(Some(rocks)) })
    }

    /// Lets go of the directory. Whoever asks it afterwards gets [`DbError::Closed`].
    pub(crate) fn close(&self) {
        self.rocks.write().take();
    }

    /// Bytes that its files take.
    pub(crate) fn bytes_on_disk(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        let Ok(files) = std::fs::read_dir(&self.dir) else { return 0 };
        let sizes = files.flatten().filter_map(|file| file.metadata().ok());
        sizes.map(|meta| meta.blocks() * 512).sum()
    }

    pub(crate) fn get<T: DeserializeOwned>(
        &self,
        family: Family,
        key: &[u8],
    ) -> Result<Option<T>, DbError> {
        self.with(|rocks| {
            let bytes = rocks.get_pinned_cf(family.of(rocks)?, key)?;
            Ok(bytes.map(|bytes| format::from_bytes(&bytes)).transpose()?)
        })
    }

    /// The last value of `family`.
    pub(crate) fn last<T: DeserializeOwned>(&self, family: Family) -> Result<Option<T>, DbError> {
        self.with(|rocks| {
            let mut backwards = rocks.iterator_cf(family.of(rocks)?, IteratorMode::End);
            let Some(item) = backwards.next() else { return Ok(None) };
            let (_, bytes) = item?;
            Ok(Some(format::from_bytes(&bytes)?))
        })
    }

    /// Hands out the values under keys in `from..until`, in order, with their size, until `take`
    /// has had enough.
    pub(crate) fn scan<T: DeserializeOwned>(
        &self,
        family: Family,
        from: &[u8],
        until: Option<&[u8]>,
        mut take: impl FnMut(T, usize) -> bool,
    ) -> Result<(), DbError> {
        self.with(|rocks| {
            for item in rocks.iterator_cf_opt(family.of(rocks)?, below(until), forward(from)) {
                let (_, bytes) = item?;
                if !take(format::from_bytes(&bytes)?, bytes.len()) {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Makes the changes that `fill` puts into the batch.
    pub(crate) fn write(
        &self,
        durability: Durability,
        fill: impl FnOnce(&mut Batch<'_>) -> Result<(), DbError>,
    ) -> Result<(), DbError> {
        self.with(|rocks| {
            let mut batch = Batch { rocks, writes: WriteBatch::default() };
            fill(&mut batch)?;
            let mut options = WriteOptions::default();
            options.set_sync(durability == Durability::Synced);
            Ok(rocks.write_opt(batch.writes, &options)?)
        })
    }

    /// Runs `work` where waiting for the disk holds up nobody.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, DbError> + Send + 'static,
    ) -> Result<T, DbError> {
        let db = self.clone();
        // It fails only where the runtime ends, or the work panicked, which ends the voter.
        forebay_rt::spawn_blocking(move || work(&db)).await.unwrap_or(Err(DbError::Closed))
    }

    fn with<T>(&self, work: impl FnOnce(&DB) -> Result<T, DbError>) -> Result<T, DbError> {
        work(self.rocks.read().as_ref().ok_or(DbError::Closed)?)
    }
}

impl Batch<'_> {
    pub(crate) fn put<T: Serialize>(
        &mut self,
        family: Family,
        key: &[u8],
        value: &T,
    ) -> Result<(), DbError> {
        self.writes.put_cf(family.of(self.rocks)?, key, format::to_bytes(value)?);
        Ok(())
    }

    /// Deletes what is there under keys in `from..until`, one by one: each range tombstone would
    /// stay in the way of every later read.
    pub(crate) fn delete(
        &mut self,
        family: Family,
        from: &[u8],
        until: Option<&[u8]>,
    ) -> Result<(), DbError> {
        let handle = family.of(self.rocks)?;
        for item in self.rocks.iterator_cf_opt(handle, below(until), forward(from)) {
            self.writes.delete_cf(handle, item?.0);
        }
        Ok(())
    }
}

impl Family {
    const ALL: [Self; 4] = [Self::Log, Self::Meta, Self::Machine, Self::Snapshot];

    const fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Meta => "meta",
            Self::Machine => "machine",
            Self::Snapshot => "snapshot",
        }
    }

    fn of(self, rocks: &DB) -> Result<&ColumnFamily, DbError> {
        // Every family was opened with the database.
        rocks.cf_handle(self.name()).ok_or(DbError::Closed)
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Db").field(&self.dir).finish()
    }
}

fn forward(from: &[u8]) -> IteratorMode<'_> {
    IteratorMode::From(from, Direction::Forward)
}

fn below(until: Option<&[u8]>) -> ReadOptions {
    let mut options = ReadOptions::default();
    if let Some(until) = until {
        options.set_iterate_upper_bound(until);
    }
    options
}

fn db_options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_max_background_jobs(BACKGROUND_JOBS);
    options.set_max_total_wal_size(WAL_BYTES);
    options.set_max_open_files(OPEN_FILES);
    options.set_log_level(LogLevel::Warn);
    options.set_manifest_preallocation_size(MANIFEST_BYTES);
    options.set_max_manifest_file_size(MANIFEST_BYTES);
    options.set_max_log_file_size(INFO_LOG_BYTES);
    options.set_keep_log_file_num(INFO_LOG_FILES);
    options
}

fn family_options() -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&Cache::new_lru_cache(BLOCK_CACHE_BYTES));
    let mut options = Options::default();
    options.set_block_based_table_factory(&blocks);
    options.set_write_buffer_size(WRITE_BUFFER_BYTES);
    options.set_compression_type(DBCompressionType::Lz4);
    options
}
