//! The NVMe store: blocks of objects in append-only segments, verified whenever they come off a
//! disk, evicted segment by segment, found again after a crash.
//!
//! The only crate that opens data files. It knows object versions and byte ranges, and nothing
//! of origins, requests or the cache that decides what to keep. A failure of a disk is a miss
//! or a [`NotStored`], never an error of a read.
//!
//! On disk, per directory: `FOREBAY` (who the disk is), `LOCK`, `segments/<id>.seg`, `index/`
//! (RocksDB). See [`Store`] for the face, `extent.rs` and `persist.rs` for the formats,
//! `reader.rs` and `loan.rs` for why only verified bytes leave.

mod checking;
mod config;
mod disk;
mod error;
mod evict;
mod extent;
mod heads;
mod health;
mod held;
mod identity;
mod index;
mod limits;
mod loan;
mod metrics;
mod persist;
mod place;
mod reader;
mod recover;
mod route;
mod segment;
mod segments;
mod space;
mod store;
#[expect(unsafe_code, reason = "system calls that std does not offer")]
mod sys;
mod upkeep;
mod writer;

pub use config::{DiskConfig, StoreConfig};
pub use error::{NotStored, StoreError};
pub use health::DiskState;
pub use held::{HeldCursor, HeldExtent, HeldPage};
pub use reader::Found;
pub use store::{DiskStatus, Store};
