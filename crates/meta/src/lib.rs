//! The Raft group that says who is in the ring, and the workers' and operators' way to it.
//!
//! [`state`] is what the voters agree on, as a pure function. [`Voter`] replicates it: `raft` is
//! the adapter to openraft, `control` answers the control port, `leader` listens to the workers.
//! [`worker`] and [`admin`] are the other side of the control port. Nothing here is on the way of
//! a read: workers go on with the last view they saw.

pub mod admin;
mod control;
mod format;
mod leader;
pub mod limits;
mod metrics;
mod raft;
mod restore;
mod snapshot_file;
pub mod state;
mod voter;
pub mod worker;

pub use format::FormatError;
pub use raft::DbError;
pub use restore::{Restore, RestoreError, Restored, restore};
pub use snapshot_file::SnapshotFileError;
pub use voter::{Timings, Voter, VoterConfig, VoterError};
