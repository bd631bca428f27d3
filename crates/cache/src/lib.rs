//! The core of Forebay: which version, which bytes, from where.
//!
//! A read is opened ([`Cache::open`]: version, freshness, preconditions, range), then polled
//! chunk by chunk ([`Reader`]): from a local segment, from a fill that is on its way, or from
//! the origin. The cache sees four narrow traits and no transport: it knows neither S3's
//! dialect nor disks nor sockets. A failure of the cache itself is a miss, never an error.

mod ask;
mod authority;
mod cache;
mod conditions;
mod error;
mod fills;
mod flight;
mod forward;
mod limits;
mod metrics;
mod name_locks;
mod open;
mod plan;
mod question;
mod reader;
mod sequential;
mod traits;

pub use ask::{Conditions, OpenAsk, TagList};
pub use cache::{Cache, CacheConfig, CacheParts};
pub use error::ReadError;
pub use open::{Answer, Opened, Source};
pub use reader::Reader;
pub use traits::{
    BoxError, Forward, ForwardBody, Found, LocalBlocks, NotStored, OriginBody, OriginFailure,
    OriginObjects, OriginReply, Versions,
};
