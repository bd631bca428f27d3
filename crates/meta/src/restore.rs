//! A new group from what is left of an old one: for when a majority of voters is lost for good.
//!
//! The new group has one voter, to which others are added. It shares nothing with the old one but
//! the state: its voter has a disk id of its own, so voters of the old group that turn up again
//! cannot speak to it, and its views are newer than every view that anybody has kept.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_rt::Rng;
use openraft::{CommittedLeaderId, Membership};

use crate::raft::{self, Applied, Db, DbError, Identity, LogId, Member, StoredMembership, Vote};
use crate::snapshot_file::{self, SnapshotFileError};
use crate::state::State;

/// How far revision and epoch leap: past whatever the old group may have begun after the state
/// that is restored.
const LEAP: u64 = 1_000_000;

/// What `forebay meta restore` is told.
#[derive(Debug, Clone)]
pub struct Restore {
    /// A file that `forebay meta snapshot` wrote, or the directory of a voter that has ended.
    pub from: PathBuf,
    /// Where the new voter's directory is to be: empty, or not there yet.
    pub dir: PathBuf,
    /// The new voter's id.
    pub id: u64,
    /// `host:port` under which others will reach its control port.
    pub advertise: String,
}

/// What was restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// Of the view that the new group begins with.
    pub revision: u64,
    /// Of the ring that the new group begins with.
    pub epoch: u64,
    /// Workers that the new group knows.
    pub workers: usize,
}

/// Why nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Check name and rights.
    #[error("read {path}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Use another copy.
    #[error("restore from {path}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: SnapshotFileError,
    },
    /// Use another voter's directory, and end that voter first.
    #[error("restore from the directory {path}")]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: DbError,
    },
    /// Use the directory of a voter that belonged to the group.
    #[error("{0} never belonged to a group")]
    NoGroup(PathBuf),
    /// Name another directory: nothing is overwritten.
    #[error("{0} is not empty")]
    NotEmpty(PathBuf),
    /// Delete the directory and repeat.
    #[error("write {path}")]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: DbError,
    },
}

/// Makes the directory of the one voter of a new group. Blocks.
pub fn restore(request: &Restore, rng: &dyn Rng) -> Result<Restored, RestoreError> {
    must_be_empty(&request.dir)?;
    let from = &request.from;
    let mut state = if from.is_dir() { from_directory(from)? } else { from_file(from)? };
    state.leap(LEAP);
    let written = write(request, &state, rng);
    written.map_err(|source| RestoreError::Write { path: request.dir.clone(), source })?;
    let (revision, epoch, workers) = (state.revision(), state.epoch(), state.workers().count());
    Ok(Restored { revision, epoch, workers })
}

fn must_be_empty(dir: &Path) -> Result<(), RestoreError> {
    match std::fs::read_dir(dir) {
        Ok(mut files) => match files.next() {
            None => Ok(()),
            Some(_) => Err(RestoreError::NotEmpty(dir.to_owned())),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(RestoreError::Read { path: dir.to_owned(), source }),
    }
}

fn from_file(path: &Path) -> Result<State, RestoreError> {
    let bytes = std::fs::read(path);
    let bytes = bytes.map_err(|source| RestoreError::Read { path: path.to_owned(), source })?;
    let state = snapshot_file::decode(&bytes);
    state.map_err(|source| RestoreError::File { path: path.to_owned(), source })
}

/// The state with everything applied that is in the log. The last entries may never have been
/// committed, but they may have been, and then somebody was told so.
fn from_directory(path: &Path) -> Result<State, RestoreError> {
    let read = || {
        let db = Db::open_to_read(path)?;
        let (mut applied, mut state) = raft::read_machine(&db)?;
        let next = applied.last.map_or(0, |last| last.index + 1);
        for entry in raft::read_log(&db, next)? {
            // A refusal was the answer when it was applied elsewhere, too.
            let _ = raft::apply(&mut state, &mut applied, entry);
        }
        Ok((applied, state))
    };
    let (applied, state) =
        read().map_err(|source| RestoreError::Directory { path: path.to_owned(), source })?;
    if applied.last.is_none() {
        return Err(RestoreError::NoGroup(path.to_owned()));
    }
    Ok(state)
}

/// The directory looks as if the group had been formed, the state been the first thing that
/// happened, and the log been purged since.
fn write(request: &Restore, state: &State, rng: &dyn Rng) -> Result<(), DbError> {
    let db = Arc::new(Db::open(&request.dir)?);
    let identity = Identity::write(&db, request.id, rng)?;
    let me = Member { addr: request.advertise.clone(), disk_id: identity.disk_id };
    let voters = vec![[request.id].into()];
    let nodes = std::collections::BTreeMap::from([(request.id, me)]);
    let first = LogId { leader_id: CommittedLeaderId::new(1, request.id), index: 1 };
    let membership = StoredMembership::new(Some(first), Membership::new(voters, nodes));
    let applied = Applied { last: Some(first), membership };
    raft::write_machine_and_log(&db, &applied, state, first, Vote::new(1, request.id))?;
    db.close();
    Ok(())
}
