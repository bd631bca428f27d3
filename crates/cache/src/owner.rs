//! The owner: what this worker answers for by itself, to its gateway and to other workers.
//!
//! It looks on its own disks, on the disks of earlier owners ([`Peek`]) and at the origin. It
//! has no way to ask another owner: what a peer asks of this worker cannot be passed on, and a
//! loop cannot be written.

use std::sync::Arc;
use std::time::Duration;

use forebay_rt::{SharedClock, SharedRng};
use forebay_telemetry::ReadCtx;
use forebay_types::range::Resolved;
use forebay_types::{BlockIndex, ByteRange, ObjectHead, ObjectName, Stamp};

use crate::authority::Authority;
use crate::error::ReadError;
use crate::fills::{Fills, Joined};
use crate::flight::{Flight, Outcome};
use crate::limits::BRING_ATTEMPTS;
use crate::metrics::Metrics;
use crate::name_locks::NameLocks;
use crate::own_reader::OwnReader;
use crate::peers::{Peek, PeerOpenAsk, Place, Placement, Vouching};
use crate::plan::within_block;
use crate::question::Current;
use crate::traits::{LocalBlocks, OriginObjects, Versions};
use crate::version::{Content, Version};

/// What this worker answers for by itself. See the module's documentation.
pub struct Owner {
    pub(crate) local: Arc<dyn LocalBlocks>,
    pub(crate) versions: Arc<dyn Versions>,
    pub(crate) previous: Arc<dyn Peek>,
    pub(crate) origin: Arc<dyn OriginObjects>,
    pub(crate) placement: Arc<dyn Placement>,
    pub(crate) clock: SharedClock,
    pub(crate) rng: SharedRng,
    pub(crate) read_ahead_blocks: u64,
    pub(crate) authority: Authority,
    pub(crate) fills: Fills,
    /// Held while what the disk remembers of a name changes.
    pub(crate) remembering: NameLocks,
    pub(crate) metrics: Metrics,
}

/// The answer to a [`PeerOpenAsk`].
#[derive(Debug)]
pub struct OwnerOpened {
    /// The version.
    pub head: Arc<ObjectHead>,
    /// Whether the origin was asked for it just now.
    pub asked: bool,
    /// How long ago the origin was asked; `None` where that is not known.
    pub age: Option<Duration>,
    /// The beginning of what was wanted, within one block, where this worker owns that block.
    pub body: Option<OwnerBody>,
}

/// Bytes of one block.
#[derive(Debug)]
pub struct OwnerBody {
    /// Which.
    pub range: ByteRange,
    /// Whether all of them were stored here.
    pub hit: bool,
    /// Gives exactly them. The first chunk is there already.
    pub reader: OwnReader,
}

impl Owner {
    /// Says which version of a name is current, and gives the beginning of the bytes wanted.
    ///
    /// Where this worker does not speak for the name, the origin is asked on each call.
    pub async fn open(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        ask: PeerOpenAsk,
    ) -> Result<OwnerOpened, ReadError> {
        let Current { version, asked, brought } = self.current(ctx, &ask).await?;
        let body = match self.first_bytes(&ask, &version) {
            Some(range) => Some(self.body(ctx, &version.content, range, brought).await?),
            None => None,
        };
        let age = version.age(self.clock.now());
        Ok(OwnerOpened { head: version.head.clone(), asked, age, body })
    }

    /// Gives bytes of one block of a version, bringing what is missing. When this returns, the
    /// first of them are there.
    pub async fn read(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        name: &ObjectName,
        stamp: &Stamp,
        range: ByteRange,
    ) -> Result<OwnerBody, ReadError> {
        let content = content_of_peer(name, stamp, range)?;
        self.body(ctx, &content, range, None).await
    }

    /// Begins to bring bytes of one block that will be wanted, if there is memory for it.
    pub fn warm(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        name: &ObjectName,
        stamp: &Stamp,
        range: ByteRange,
    ) {
        if let Ok(content) = content_of_peer(name, stamp, range) {
            self.warm_content(ctx, &content, range);
        }
    }

    /// Brings bytes of one block; when this returns `Ok`, they are stored.
    pub async fn bring(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        name: &ObjectName,
        stamp: &Stamp,
        range: ByteRange,
    ) -> Result<(), ReadError> {
        let content = content_of_peer(name, stamp, range)?;
        for _ in 0..BRING_ATTEMPTS {
            let Some(gap) = self.local.gap(&content.id, range) else { return Ok(()) };
            let Some(flight) = self.join(ctx, &content, gap) else { continue };
            match flight.landed().await {
                Outcome::Stored => {}
                Outcome::Kept => return Err(ReadError::internal("the store took no bytes")),
                Outcome::NoBudget => return Err(ReadError::slow_down("no memory for a fill")),
                Outcome::Failed(error) => return Err(error),
            }
        }
        Err(ReadError::internal("the store does not keep what it takes"))
    }

    /// Whether the first byte of `range` is stored here.
    pub fn holds(&self, name: &ObjectName, stamp: &Stamp, range: ByteRange) -> bool {
        let gap = self.local.gap(&name.at(stamp.clone()), range);
        gap.is_none_or(|gap| gap.start() > range.start())
    }

    /// Forgets which versions `names` are, and refuses the answers to all questions that were
    /// asked before. Then says what this worker vouches for: for what is [`Vouching::Since`], it
    /// alone answers from memory, and it remembers nothing from before this call.
    pub async fn forget(self: &Arc<Self>, ctx: &ReadCtx, names: &[ObjectName]) -> Vec<Vouching> {
        for name in names {
            let known = self.authority.known_version(name);
            self.forget_in_memory(ctx, name);
            self.forget_remembered(name).await;
            // Whoever asked in between may have recalled what was just being forgotten.
            self.forget_in_memory(ctx, name);
            if let Some(version) = known {
                self.local.cool(&version.content.id);
            }
        }
        names.iter().map(|name| self.placement.vouching(name)).collect()
    }

    fn forget_in_memory(self: &Arc<Self>, ctx: &ReadCtx, name: &ObjectName) {
        if let Some(to_put) = self.authority.forget(name) {
            self.put(ctx, to_put);
        }
    }

    /// The bytes to send along with a version. Of the first block always: who is asked for the
    /// version is its owner, or stands in for it.
    fn first_bytes(&self, ask: &PeerOpenAsk, version: &Version) -> Option<ByteRange> {
        let range = match ask.range?.resolve(version.head.stamp.size) {
            Resolved::Whole(range) => range?,
            Resolved::Part(range) => range,
            Resolved::Unsatisfiable => return None,
        };
        let block = BlockIndex::of(range.start());
        let is_mine = || self.placement.owners(&ask.name, block).first() == Some(&Place::Here);
        (block == BlockIndex(0) || is_mine()).then(|| within_block(range))
    }

    async fn body(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        content: &Arc<Content>,
        range: ByteRange,
        brought: Option<Arc<Flight>>,
    ) -> Result<OwnerBody, ReadError> {
        let hit = brought.is_none() && self.local.gap(&content.id, range).is_none();
        let mut reader = OwnReader::new(self, ctx, content, range, range.end());
        reader.follow_first(brought);
        reader.prime().await?;
        Ok(OwnerBody { range, hit, reader })
    }

    /// As [`Owner::warm`], of a version that is at hand.
    pub(crate) fn warm_content(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        content: &Arc<Content>,
        range: ByteRange,
    ) {
        if let Some(gap) = self.local.gap(&content.id, range)
            && self.fills.has_room(gap.len())
        {
            self.join(ctx, content, gap);
        }
    }

    /// The fill that brings the first byte of `gap`, sent on its way where there was none.
    fn join(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        content: &Arc<Content>,
        gap: ByteRange,
    ) -> Option<Arc<Flight>> {
        match self.fills.join(&*self.local, &content.id, gap) {
            Joined::Local => None,
            Joined::Existing(flight) => Some(flight),
            Joined::New(flight) => {
                self.launch(ctx, content, flight.clone());
                Some(flight)
            }
        }
    }
}

/// The version that a peer asks for. A range that no version of this size has in one block is
/// the peer's mistake, not a sign that the object moved.
fn content_of_peer(
    name: &ObjectName,
    stamp: &Stamp,
    range: ByteRange,
) -> Result<Arc<Content>, ReadError> {
    if range.end() > stamp.size || within_block(range) != range {
        return Err(ReadError::internal("the range asked does not lie in one block of the object"));
    }
    Ok(Content::new(name, stamp))
}

impl std::fmt::Debug for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Owner")
            .field("fills_in_flight", &self.fills.in_flight())
            .finish_non_exhaustive()
    }
}
