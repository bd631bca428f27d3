//! Who a directory belongs to: written at its first start, and never again.

use super::db::{Db, DbError, Durability, Family};
use forebay_rt::Rng;
use serde::{Deserialize, Serialize};

const IDENTITY: &[u8] = b"identity";

/// A voter and its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The voter's id in the group.
    pub(crate) id: u64,
    /// Drawn when the directory was made; never 0.
    pub(crate) disk_id: u64,
}

impl Identity {
    /// Of the directory, if it has one.
    pub(crate) fn read(db: &Db) -> Result<Option<Self>, DbError> {
        db.get(Family::Meta, IDENTITY)
    }

    /// Gives an empty directory one.
    pub(crate) fn write(db: &Db, id: u64, rng: &dyn Rng) -> Result<Self, DbError> {
        let identity = Self { id, disk_id: rng.next_u64().max(1) };
        db.write(Durability::Synced, |batch| batch.put(Family::Meta, IDENTITY, &identity))?;
        Ok(identity)
    }
}
