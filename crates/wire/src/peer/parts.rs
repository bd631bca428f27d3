//! What messages are made of: names, versions, ranges.

use std::time::Duration;

use bytes::Bytes;
use forebay_types::{
    BlockIndex, BucketName, ByteRange, ETag, Freshness, ObjectHead, ObjectKey, ObjectName,
    RangeAsk, RuleId, Stamp,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::Vouching;
use super::message::{Form, Invalid, required};
use crate::generated::forebay::peer::v1 as proto;

/// Longer than any wait or age that is meant: about 584 years.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Refuses a range that lies in more than one block, or past the end of the version.
pub(super) fn check_piece(range: ByteRange, stamp: &Stamp) -> Result<(), Invalid> {
    if range.end() > stamp.size {
        let size = stamp.size;
        return Err(Invalid::because(format_args!("bytes {range} of {size}")));
    }
    if range.end() > BlockIndex::of(range.start()).end() {
        return Err(Invalid::because(format_args!("bytes {range} are of several blocks")));
    }
    Ok(())
}

impl Form for ObjectName {
    type Proto = proto::Name;

    fn to_proto(&self) -> proto::Name {
        proto::Name {
            rule: self.rule.0,
            bucket: self.bucket.as_str().into(),
            key: self.key.as_str().into(),
            version_id: self.version_id.as_deref().map(Into::into),
        }
    }

    fn from_proto(name: proto::Name) -> Result<Self, Invalid> {
        Ok(Self {
            rule: RuleId(name.rule),
            bucket: BucketName::new(&name.bucket)?,
            key: ObjectKey::new(&name.key)?,
            version_id: name.version_id.map(Into::into),
        })
    }
}

impl Form for Stamp {
    type Proto = proto::Stamp;

    fn to_proto(&self) -> proto::Stamp {
        proto::Stamp {
            etag: self.etag.as_str().into(),
            size: self.size,
            last_modified: self.last_modified.as_ref().into(),
            version_id: self.version_id.as_deref().map(Into::into),
        }
    }

    fn from_proto(stamp: proto::Stamp) -> Result<Self, Invalid> {
        let etag = ETag::new(&stamp.etag);
        if !etag.is_strong() {
            return Err(Invalid::because(format_args!("ETag {etag:?} names no version")));
        }
        Ok(Self {
            etag,
            size: stamp.size,
            last_modified: stamp.last_modified.into(),
            version_id: stamp.version_id.map(Into::into),
        })
    }
}

impl Form for ObjectHead {
    type Proto = proto::Head;

    fn to_proto(&self) -> proto::Head {
        proto::Head { stamp: Some(self.stamp.to_proto()), headers: lines_of(&self.headers) }
    }

    fn from_proto(head: proto::Head) -> Result<Self, Invalid> {
        Ok(Self { stamp: required(head.stamp, "stamp")?, headers: headers_of(&head.headers)? })
    }
}

/// `name:value\n` for each. Neither has a line break in it, nor the name a colon.
fn lines_of(headers: &HeaderMap) -> Bytes {
    let len = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 2).sum();
    let mut lines = Vec::with_capacity(len);
    for (name, value) in headers {
        for part in [name.as_str().as_bytes(), b":", value.as_bytes(), b"\n"] {
            lines.extend_from_slice(part);
        }
    }
    lines.into()
}

fn headers_of(lines: &Bytes) -> Result<HeaderMap, Invalid> {
    let mut headers = HeaderMap::new();
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\n").ok_or_else(|| Invalid::because("a header cut off"))?;
        let colon = line.iter().position(|byte| *byte == b':');
        let colon = colon.ok_or_else(|| Invalid::because("a header without a value"))?;
        let name = HeaderName::from_bytes(&line[..colon])?;
        let value = HeaderValue::from_maybe_shared(lines.slice_ref(&line[colon + 1..]))?;
        headers.try_append(name, value)?;
    }
    Ok(headers)
}

impl Form for ByteRange {
    type Proto = proto::Range;

    fn to_proto(&self) -> proto::Range {
        proto::Range { start: self.start(), end: self.end() }
    }

    fn from_proto(range: proto::Range) -> Result<Self, Invalid> {
        let proto::Range { start, end } = range;
        Self::new(start, end)
            .ok_or_else(|| Invalid::because(format_args!("range {start}..{end} is empty")))
    }
}

impl Form for RangeAsk {
    type Proto = proto::RangeAsk;

    fn to_proto(&self) -> proto::RangeAsk {
        use proto::range_ask::{Ask, FromTo, Whole};
        let ask = match *self {
            Self::Whole => Ask::Whole(Whole {}),
            Self::FromTo { first, last } => Ask::FromTo(FromTo { first, last }),
            Self::From { first } => Ask::From(first),
            Self::Suffix { len } => Ask::Suffix(len),
        };
        proto::RangeAsk { ask: Some(ask) }
    }

    fn from_proto(ask: proto::RangeAsk) -> Result<Self, Invalid> {
        use proto::range_ask::{Ask, FromTo, Whole};
        Ok(match ask.ask {
            Some(Ask::Whole(Whole {})) => Self::Whole,
            Some(Ask::FromTo(FromTo { first, last })) => Self::FromTo { first, last },
            Some(Ask::From(first)) => Self::From { first },
            Some(Ask::Suffix(len)) => Self::Suffix { len },
            None => return Err(Invalid::because("a range of no known kind")),
        })
    }
}

impl Form for Freshness {
    type Proto = proto::Freshness;

    fn to_proto(&self) -> proto::Freshness {
        use proto::freshness::{Freshness as Kind, Immutable, Strict};
        let kind = match *self {
            Self::Immutable => Kind::Immutable(Immutable {}),
            Self::Bounded(bound) => Kind::BoundedNs(nanos(bound)),
            Self::Strict => Kind::Strict(Strict {}),
        };
        proto::Freshness { freshness: Some(kind) }
    }

    fn from_proto(freshness: proto::Freshness) -> Result<Self, Invalid> {
        use proto::freshness::{Freshness as Kind, Immutable, Strict};
        Ok(match freshness.freshness {
            Some(Kind::Immutable(Immutable {})) => Self::Immutable,
            Some(Kind::BoundedNs(bound)) => Self::Bounded(Duration::from_nanos(bound)),
            Some(Kind::Strict(Strict {})) => Self::Strict,
            None => return Err(Invalid::because("freshness of no known kind")),
        })
    }
}

impl Form for Vouching {
    type Proto = proto::Vouching;

    fn to_proto(&self) -> proto::Vouching {
        use proto::vouching::{Lapsed, NotMine, Vouching as Kind, Yes};
        let kind = match *self {
            Self::Yes => Kind::Yes(Yes {}),
            Self::NotYet(wait) => Kind::NotYetNs(nanos(wait)),
            Self::Lapsed => Kind::Lapsed(Lapsed {}),
            Self::NotMine => Kind::NotMine(NotMine {}),
        };
        proto::Vouching { vouching: Some(kind) }
    }

    fn from_proto(vouching: proto::Vouching) -> Result<Self, Invalid> {
        use proto::vouching::{Lapsed, NotMine, Vouching as Kind, Yes};
        Ok(match vouching.vouching {
            Some(Kind::Yes(Yes {})) => Self::Yes,
            Some(Kind::NotYetNs(wait)) => Self::NotYet(Duration::from_nanos(wait)),
            Some(Kind::Lapsed(Lapsed {})) => Self::Lapsed,
            Some(Kind::NotMine(NotMine {})) => Self::NotMine,
            None => return Err(Invalid::because("vouching of no known kind")),
        })
    }
}
