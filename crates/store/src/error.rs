//! Why a store does not open. Once it is open, nothing but a miss or [`NotStored`] comes out.

use std::io;
use std::path::{Path, PathBuf};

/// A store that cannot be opened as configured.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No disk was named.
    #[error("no disk configured: name at least one directory to keep blocks in")]
    NoDisks,
    /// The directory was written by another version of Forebay.
    #[error(
        "{path}: format version {found}, this build knows {known}: \
         run the build that wrote it, or empty the directory (it holds only cached data)"
    )]
    UnknownFormat {
        /// The disk's directory.
        path: PathBuf,
        /// The version found there.
        found: u64,
        /// The version that this build reads and writes.
        known: u32,
    },
    /// Another process, or another disk of this configuration, holds the directory.
    #[error("{path}: in use by another store: stop it, or name each directory once")]
    InUse {
        /// The disk's directory.
        path: PathBuf,
    },
    /// The directory has data but no valid identity file.
    #[error("{path}: not a Forebay disk ({reason}): name an empty directory, or empty this one")]
    NotOurs {
        /// The disk's directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The capacity cannot hold a working set of segments.
    #[error("{path}: capacity {capacity_bytes} bytes is too small: give at least {least_bytes}")]
    TooSmall {
        /// The disk's directory.
        path: PathBuf,
        /// What was configured or derived.
        capacity_bytes: u64,
        /// What is needed.
        least_bytes: u64,
    },
    /// A page of the page cache could hold bytes of two extents, one of them not verified.
    #[error(
        "this kernel has pages of {page_bytes} bytes, the store works with up to {most_bytes}: \
         boot a kernel with pages of {most_bytes} bytes"
    )]
    PageSize {
        /// The kernel's page size.
        page_bytes: u64,
        /// The largest one that the format allows.
        most_bytes: u64,
    },
    /// The file system refused.
    #[error("{path}: {action}: {source}: check that the disk is mounted, writable and healthy")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// RocksDB refused to open the index.
    #[error("{path}: open index: {source}: check the disk; an emptied directory starts cold")]
    Index {
        /// The disk's directory.
        path: PathBuf,
        /// Why it failed.
        source: rocksdb::Error,
    },
}

impl StoreError {
    /// Whether the disk is to blame, so that the store can do without it.
    pub(crate) fn is_disk_failure(&self) -> bool {
        match self {
            Self::Io { .. } | Self::Index { .. } => true,
            Self::NoDisks
            | Self::PageSize { .. }
            | Self::UnknownFormat { .. }
            | Self::InUse { .. }
            | Self::NotOurs { .. }
            | Self::TooSmall { .. } => false,
        }
    }
}

/// Names the file and the action of an I/O error.
pub(crate) fn io_at(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { path, action, source }
}

/// Bytes that the store did not take: full, failed or being evicted faster than filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not stored: the disk is full, failing or busy; serve the bytes without keeping them")]
pub struct NotStored;
