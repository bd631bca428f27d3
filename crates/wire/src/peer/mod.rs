//! What workers ask each other on the data port.
//!
//! Each ask is one HTTP request whose message travels in a header ([`InHeader`]), except Forget,
//! whose messages are bodies ([`Message`]). Bytes of objects are bodies, never part of a message.
//! Ranges are absolute bytes of a version, never block numbers.

mod answers;
mod asks;
mod message;
mod parts;

use std::time::Duration;

use forebay_types::{ByteRange, Epoch, Freshness, ObjectHead, ObjectName, RangeAsk, Stamp};

pub use message::{InHeader, Message};

/// Asks the authority of a name which version is current, and for its first bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAsk {
    /// The ring that the asker placed the name by.
    pub epoch: Epoch,
    /// Which name.
    pub name: ObjectName,
    /// How long a known version may stand, by the asker's rules.
    pub freshness: Freshness,
    /// Whether the origin is to be asked whatever is known.
    pub anew: bool,
    /// The bytes wanted with the answer; `None` for the version alone.
    pub range: Option<RangeAsk>,
}

/// The answer of an authority. The body that follows holds the bytes of `range`.
#[derive(Debug, Clone)]
pub struct OpenAnswer {
    /// The ring that the answering worker knows.
    pub epoch: Epoch,
    /// The version.
    pub head: ObjectHead,
    /// Whether the origin was asked for it just now.
    pub asked: bool,
    /// How long ago the origin was asked; `None` where that is not known.
    pub age: Option<Duration>,
    /// The bytes in the body: the beginning of what was wanted, within one block. `None` where
    /// this worker does not own them, or nothing was wanted, or nothing lies in the range.
    pub range: Option<ByteRange>,
    /// Whether all bytes of the body were cached.
    pub hit: bool,
}

/// Asks the owner of a block for bytes of it.
#[derive(Debug, Clone)]
pub struct ReadAsk {
    /// The ring that the asker placed the block by.
    pub epoch: Epoch,
    /// Which name.
    pub name: ObjectName,
    /// Which version of it, as the authority described it.
    pub stamp: Stamp,
    /// Which bytes, all of one block.
    pub range: ByteRange,
}

/// The answer to a [`ReadAsk`]. The body that follows holds exactly the bytes asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadAnswer {
    /// The ring that the answering worker knows.
    pub epoch: Epoch,
    /// Whether all of them were cached.
    pub hit: bool,
}

/// Asks a worker for bytes that it owned under an earlier ring: only what is on its disks.
#[derive(Debug, Clone)]
pub struct PeekAsk {
    /// Which name.
    pub name: ObjectName,
    /// Which version of it.
    pub stamp: Stamp,
    /// Which bytes, all of one block.
    pub range: ByteRange,
}

/// The answer to a [`PeekAsk`]. The body that follows holds the bytes of `range`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeekAnswer {
    /// A prefix of what was asked; `None` where its first byte is not stored.
    pub range: Option<ByteRange>,
}

/// Asks a worker that was the authority of a name under an earlier ring which version of it
/// it remembers. What it remembers may be outdated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecallAsk {
    /// Which name.
    pub name: ObjectName,
}

/// The answer to a [`RecallAsk`].
#[derive(Debug, Clone)]
pub struct RecallAnswer {
    /// The version; `None` where nothing is remembered.
    pub head: Option<ObjectHead>,
}

/// Tells the owner of a block that bytes of it will be wanted soon, or are held by the sender,
/// who is leaving. Answered at once; the bytes are brought in the background.
#[derive(Debug, Clone)]
pub struct WarmAsk {
    /// The ring under which the asked worker is the owner.
    pub epoch: Epoch,
    /// Which name.
    pub name: ObjectName,
    /// Which version of it.
    pub stamp: Stamp,
    /// Which bytes, all of one block.
    pub range: ByteRange,
    /// Whether to answer only when the bytes are stored.
    pub wait: bool,
}

/// Tells an authority that names may have got other bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgetAsk {
    /// Which names, at most [`FORGET_NAMES_MAX`].
    pub names: Vec<ObjectName>,
}

/// Names in one [`ForgetAsk`]: one DeleteObjects request of S3.
pub const FORGET_NAMES_MAX: usize = 1_000;

/// The answer to a [`ForgetAsk`]: the names are forgotten, and this is what that is worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgetAnswer {
    /// The ring that the answering worker knows.
    pub epoch: Epoch,
    /// For each name asked, in order.
    pub vouching: Vec<Vouching>,
}

/// Whether a worker answers opens of a name from memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vouching {
    /// It does: it is the only one that may.
    Yes,
    /// It will, in this long; until then another worker may.
    NotYet(Duration),
    /// It owns the name in the ring that it knows, but has lost touch with the voters.
    Lapsed,
    /// It does not own the name in the ring that it knows.
    NotMine,
}

/// Why a worker did not give what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The origin's definite answer.
    Refused {
        /// HTTP status.
        status: u16,
        /// S3 error code.
        code: String,
        /// The origin's message.
        message: String,
    },
    /// The object cannot be cached.
    Uncacheable(String),
    /// The object is no longer the version asked for.
    Moved,
    /// A limit was reached, there or at the origin.
    SlowDown,
    /// The origin does not answer that worker.
    OriginUnavailable(String),
    /// That worker knows a newer ring, in which the block is another's, and does not have it.
    NotOwner(Epoch),
    /// That worker has no rule for the bucket, or another origin for it.
    NoSuchRule,
    /// A mistake of ours, there.
    Internal(String),
}

#[cfg(test)]
mod tests;
