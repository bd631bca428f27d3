//! The shelf: what is on the disks of this worker, and nothing else.
//!
//! What a worker that owns a block now asks of one that owned it before is answered from here:
//! by something that can neither fill nor ask anybody.

use std::sync::Arc;

use bytes::Bytes;
use forebay_types::{ByteRange, ObjectHead, ObjectId, ObjectName};
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};

use crate::error::ReadError;
use crate::traits::{Found, LocalBlocks, Versions};

/// The disks of this worker, to be looked at.
#[derive(Clone)]
pub struct Shelf {
    local: Arc<dyn LocalBlocks>,
    versions: Arc<dyn Versions>,
}

/// Bytes off the shelf: all that were promised, or an error in the place of the missing ones.
pub type ShelfFrames = BoxStream<'static, Result<Bytes, ReadError>>;

impl Shelf {
    pub(crate) fn new(local: Arc<dyn LocalBlocks>, versions: Arc<dyn Versions>) -> Self {
        Self { local, versions }
    }

    /// The version that the disks remember under `name`. It may be outdated.
    pub async fn recall(&self, name: &ObjectName) -> Option<ObjectHead> {
        self.versions.recall(name).await
    }

    /// The stored prefix of `range`, which lies in one block; `None` where there is none.
    pub async fn peek(&self, id: &ObjectId, range: ByteRange) -> Option<(ByteRange, ShelfFrames)> {
        let first = self.next(id, range).await?;
        let end = self.local.gap(id, range).map_or(range.end(), ByteRange::start);
        // The gap is looked up last: what was there at first may have gone since.
        let stored = ByteRange::new(range.start(), end.max(range.start() + first.len() as u64))?;
        let rest = ByteRange::new(range.start() + first.len() as u64, stored.end());
        let frames = stream::once(async { Ok(first) }).chain(self.clone().frames(id, rest));
        Some((stored, frames.boxed()))
    }

    fn frames(self, id: &ObjectId, rest: Option<ByteRange>) -> ShelfFrames {
        let state = (self, id.clone(), rest);
        stream::unfold(state, |(shelf, id, rest)| async move {
            let rest = rest?;
            let Some(bytes) = shelf.next(&id, rest).await else {
                let evicted = ReadError::internal("evicted while another worker looked at it");
                return Some((Err(evicted), (shelf, id, None)));
            };
            let left = ByteRange::new(rest.start() + bytes.len() as u64, rest.end());
            Some((Ok(bytes), (shelf, id, left)))
        })
        .boxed()
    }

    async fn next(&self, id: &ObjectId, range: ByteRange) -> Option<Bytes> {
        match self.local.read(id, range).await {
            Found::Hit(bytes, _) => Some(bytes),
            Found::Cold | Found::Miss => None,
        }
    }
}

impl std::fmt::Debug for Shelf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shelf").finish_non_exhaustive()
    }
}
