//! Fits the store to the traits of the cache.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use forebay_cache::{Found, LocalBlocks, NotStored, Versions};
use forebay_store::Store;
use forebay_types::{ByteRange, ObjectHead, ObjectId, ObjectName};

/// The store as the cache sees it.
#[derive(Debug)]
pub(crate) struct Disks(pub(crate) Arc<Store>);

#[async_trait]
impl LocalBlocks for Disks {
    fn read_now(&self, id: &ObjectId, range: ByteRange) -> Found {
        found(self.0.read_now(id, range))
    }

    async fn read(&self, id: &ObjectId, range: ByteRange) -> Found {
        found(self.0.read(id, range).await)
    }

    fn gap(&self, id: &ObjectId, range: ByteRange) -> Option<ByteRange> {
        self.0.gap(id, range)
    }

    async fn store(
        &self,
        id: &ObjectId,
        range: ByteRange,
        frames: Vec<Bytes>,
    ) -> Result<(), NotStored> {
        self.0.put(id, range, frames).await.map_err(|forebay_store::NotStored| NotStored)
    }

    fn cool(&self, id: &ObjectId) {
        self.0.cool(id);
    }
}

#[async_trait]
impl Versions for Disks {
    async fn recall(&self, name: &ObjectName) -> Option<ObjectHead> {
        self.0.recall(name).await
    }

    async fn remember(&self, name: &ObjectName, head: &ObjectHead) {
        self.0.remember(name, head).await;
    }

    async fn forget(&self, name: &ObjectName) {
        self.0.forget(name).await;
    }
}

fn found(found: forebay_store::Found) -> Found {
    match found {
        forebay_store::Found::Hit { bytes, tier } => Found::Hit(bytes, tier),
        forebay_store::Found::Cold => Found::Cold,
        forebay_store::Found::Miss => Found::Miss,
    }
}
