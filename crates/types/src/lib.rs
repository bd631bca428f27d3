//! The words of Forebay: names, ranges, blocks and pages, object versions, error codes, limits.
//!
//! Pure data and arithmetic. Nothing here is async, does I/O or knows another crate of ours;
//! what every other crate says about an object is said in these types.

pub mod block;
pub mod cluster;
pub mod code;
pub mod limits;
pub mod names;
pub mod object;
pub mod range;
pub mod rule;

pub use block::{BLOCK_BYTES, BlockIndex, CRC_GRAIN_BYTES, PAGE_BYTES, Span};
pub use cluster::{
    Epoch, PREVIOUS_RINGS, RingConfig, RingMember, RingSpec, Rules, View, WorkerId, WorkerInfo,
    WorkerState,
};
pub use code::ErrorCode;
pub use names::{BucketName, NameError, ObjectKey};
pub use object::{ETag, ObjectHead, ObjectId, ObjectName, Stamp};
pub use range::{ByteRange, RangeAsk};
pub use rule::{Freshness, RuleId};
