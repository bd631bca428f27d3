//! The core of Forebay: which version, which bytes, from where.
//!
//! A read is opened ([`Cache::open`]: version, freshness, preconditions, range), then polled
//! chunk by chunk ([`Reader`]): from a local segment, from a fill that is on its way, from the
//! worker that owns the block, or from the origin. The cache sees narrow traits and no
//! transport: it knows neither S3's dialect nor disks nor sockets. A failure of the cache itself
//! is a miss, never an error.
//!
//! Three types hold a wall: the [`Cache`] is a client's gateway and may ask other workers, the
//! [`Owner`] answers them and may not, and the [`Shelf`] gives what is stored and asks nobody.

mod ahead;
mod alone;
mod announce;
mod ask;
mod authority;
mod cache;
mod conditions;
mod error;
mod fill;
mod fills;
mod flight;
mod forward;
mod limits;
mod metrics;
mod name_locks;
mod open;
mod own_reader;
mod owner;
mod peers;
mod plan;
mod question;
mod reach;
mod reader;
mod sequential;
mod shelf;
mod spread;
mod traits;
mod version;
mod walk;

pub use alone::Alone;
pub use ask::{Conditions, OpenAsk, TagList};
pub use cache::{Cache, CacheConfig, CacheParts};
pub use error::ReadError;
pub use open::{Answer, Opened, Source};
pub use own_reader::OwnReader;
pub use owner::{Owner, OwnerBody, OwnerOpened};
pub use peers::{
    Fence, NoVoters, Peek, PeerBlocks, PeerBody, PeerFailure, PeerFrames, PeerOpenAsk, PeerOpened,
    Place, Placement, Recalled, Vouching,
};
pub use reader::Reader;
pub use shelf::{Shelf, ShelfFrames};
pub use traits::{
    BoxError, Forward, ForwardBody, Found, LocalBlocks, NotStored, OriginBody, OriginFailure,
    OriginObjects, OriginReply, Versions,
};
