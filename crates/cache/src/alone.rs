//! A worker without others: it owns everything, and everybody else is gone.

use std::time::Instant;

use async_trait::async_trait;
use forebay_telemetry::ReadCtx;
use forebay_types::{BlockIndex, ByteRange, ObjectName, Stamp, WorkerId};

use crate::peers::{
    Fence, NoVoters, Peek, PeerBlocks, PeerBody, PeerFailure, PeerOpenAsk, PeerOpened, Place,
    Placement, Recalled, Vouching,
};

/// Stands for the cluster where there is none.
#[derive(Debug, Clone, Copy)]
pub struct Alone {
    since: Instant,
}

impl Alone {
    /// A worker that has owned everything since `start`, by the clock of its cache.
    pub fn new(start: Instant) -> Self {
        Self { since: start }
    }
}

impl Placement for Alone {
    fn is_alone(&self) -> bool {
        true
    }

    fn owners(&self, _: &ObjectName, _: BlockIndex) -> Vec<Place> {
        vec![Place::Here]
    }

    fn previous_owners(&self, _: &ObjectName, _: BlockIndex) -> Vec<WorkerId> {
        Vec::new()
    }

    fn vouching(&self, _: &ObjectName) -> Vouching {
        Vouching::Since(self.since)
    }

    fn others(&self) -> Vec<WorkerId> {
        Vec::new()
    }
}

#[async_trait]
impl PeerBlocks for Alone {
    async fn open(
        &self,
        _: &ReadCtx,
        _: WorkerId,
        _: PeerOpenAsk,
    ) -> Result<PeerOpened, PeerFailure> {
        Err(PeerFailure::Gone)
    }

    async fn read(
        &self,
        _: &ReadCtx,
        _: WorkerId,
        _: &ObjectName,
        _: &Stamp,
        _: ByteRange,
    ) -> Result<PeerBody, PeerFailure> {
        Err(PeerFailure::Gone)
    }

    fn warm(&self, _: WorkerId, _: &ObjectName, _: &Stamp, _: ByteRange) {}

    async fn forget(&self, _: WorkerId, _: &[ObjectName]) -> Result<Vec<Vouching>, PeerFailure> {
        Err(PeerFailure::Gone)
    }
}

#[async_trait]
impl Peek for Alone {
    async fn recall(&self, _: WorkerId, _: &ObjectName) -> Recalled {
        Recalled::NoAnswer
    }

    async fn peek(&self, _: WorkerId, _: &ObjectName, _: &Stamp, _: ByteRange) -> Option<PeerBody> {
        None
    }
}

#[async_trait]
impl Fence for Alone {
    async fn fence(&self) -> Result<(), NoVoters> {
        Err(NoVoters)
    }
}
