//! A version of a name as somebody described it, and what is known of a name.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_types::{Freshness, ObjectHead, ObjectId, ObjectName, Stamp};

use crate::error::ReadError;
use crate::limits::ABSENT_TTL;
use crate::traits::OriginReply;

/// The bytes that a name stood for at some time: all that it takes to bring and to store them.
/// Says nothing of headers, so that whoever asks for bytes alone cannot change what is
/// remembered of a version.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) name: ObjectName,
    pub(crate) id: ObjectId,
}

/// A version of a name as the origin described it.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) content: Arc<Content>,
    pub(crate) head: Arc<ObjectHead>,
    pub(crate) asked: Asked,
}

/// Who asked the origin for a version, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asked {
    /// This worker, at this time.
    Here(Instant),
    /// Another worker, at about this time: to be told to a reader, never to be relied upon.
    Elsewhere(Instant),
    /// Somebody before a restart.
    Unknown,
}

impl Content {
    pub(crate) fn new(name: &ObjectName, stamp: &Stamp) -> Arc<Self> {
        Arc::new(Self { name: name.clone(), id: name.at(stamp.clone()) })
    }
}

impl Version {
    pub(crate) fn new(name: &ObjectName, head: ObjectHead, asked: Asked) -> Arc<Self> {
        let content = Content::new(name, &head.stamp);
        Arc::new(Self { content, head: Arc::new(head), asked })
    }

    /// How long ago the origin was asked, where that is known.
    pub(crate) fn age(&self, now: Instant) -> Option<Duration> {
        match self.asked {
            Asked::Here(at) | Asked::Elsewhere(at) => Some(now.saturating_duration_since(at)),
            Asked::Unknown => None,
        }
    }
}

/// What is known of a name.
#[derive(Debug, Clone)]
pub(crate) enum Known {
    Version(Arc<Version>),
    Absent { reply: OriginReply, asked_at: Instant },
}

impl Known {
    pub(crate) fn into_version(self) -> Result<Arc<Version>, ReadError> {
        match self {
            Self::Version(version) => Ok(version),
            Self::Absent { reply, .. } => Err(ReadError::Refused(reply)),
        }
    }

    /// Whether it may be used without asking. An object that is missing may appear under every
    /// freshness, so even where versions stand for ever its absence does not.
    pub(crate) fn stands(&self, terms: &Terms) -> bool {
        match self {
            Self::Version(version) => match version.asked {
                _ if terms.freshness == Freshness::Immutable => true,
                Asked::Here(at) => terms.allow(at),
                Asked::Elsewhere(_) | Asked::Unknown => false,
            },
            Self::Absent { asked_at, .. } => {
                let age = terms.now.saturating_duration_since(*asked_at);
                age < ABSENT_TTL && terms.allow(*asked_at)
            }
        }
    }
}

/// Which answers of the origin do for one who asks now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// How long an answer stands.
    pub(crate) freshness: Freshness,
    /// Only what was asked then or later: what was asked before, another worker may have
    /// promised to forget. `None`: only what is asked from now on.
    pub(crate) since: Option<Instant>,
    /// Whether a version that needs no asking does not do.
    pub(crate) must_ask: bool,
    pub(crate) now: Instant,
}

impl Terms {
    /// Whether the answer to a question put at `asked_at` does.
    pub(crate) fn allow(&self, asked_at: Instant) -> bool {
        let age = self.now.saturating_duration_since(asked_at);
        self.since.is_some_and(|since| asked_at >= since) && self.freshness.allows(age)
    }
}
