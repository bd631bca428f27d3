//! Byte ranges: the one a reader asked for, and the resolved one that has bytes in it.

use std::fmt;

/// A non-empty half-open range of bytes, `start..end`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ByteRange {
    start: u64,
    end: u64,
}

impl ByteRange {
    /// `start..end`, or `None` where that would be empty.
    pub const fn new(start: u64, end: u64) -> Option<Self> {
        if start < end { Some(Self { start, end }) } else { None }
    }

    /// First byte.
    pub const fn start(self) -> u64 {
        self.start
    }

    /// One past the last byte.
    pub const fn end(self) -> u64 {
        self.end
    }

    /// Bytes in the range; at least 1.
    #[allow(clippy::len_without_is_empty, reason = "a ByteRange is never empty")]
    pub const fn len(self) -> u64 {
        self.end - self.start
    }

    /// The part that both ranges have.
    pub fn intersect(self, other: Self) -> Option<Self> {
        Self::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// Whether every byte of `other` is in this range.
    pub const fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Whether byte `at` is in this range.
    pub const fn holds(self, at: u64) -> bool {
        self.start <= at && at < self.end
    }

    /// `bytes=a-b`, as a Range header says it.
    pub fn to_range_header(self) -> String {
        format!("bytes={}-{}", self.start, self.end - 1)
    }

    /// `bytes a-b/size`, as a Content-Range header says it.
    pub fn to_content_range(self, size: u64) -> String {
        format!("bytes {}-{}/{size}", self.start, self.end - 1)
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

impl fmt::Debug for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a reader asked for, before the size of the object is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeAsk {
    /// No Range header, or one that S3 ignores: the whole object, status 200.
    Whole,
    /// `bytes=first-last`, both included.
    FromTo {
        /// First byte asked for.
        first: u64,
        /// Last byte asked for; may lie past the end.
        last: u64,
    },
    /// `bytes=first-`.
    From {
        /// First byte asked for.
        first: u64,
    },
    /// `bytes=-len`.
    Suffix {
        /// How many bytes from the end; may exceed the object.
        len: u64,
    },
}

/// A range ask held against the size of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolved {
    /// The whole object with status 200; `None` where the object is empty.
    Whole(Option<ByteRange>),
    /// A part of it with status 206, clamped to the object.
    Part(ByteRange),
    /// Nothing of it: status 416.
    Unsatisfiable,
}

impl RangeAsk {
    /// Clamps the ask to an object of `size` bytes, as RFC 9110 section 14.1.2 and AWS do.
    pub fn resolve(self, size: u64) -> Resolved {
        let part = match self {
            Self::Whole => return Resolved::Whole(ByteRange::new(0, size)),
            Self::FromTo { first, last } => ByteRange::new(first, size.min(last.saturating_add(1))),
            Self::From { first } => ByteRange::new(first, size),
            Self::Suffix { len } => ByteRange::new(size.saturating_sub(len), size),
        };
        part.map_or(Resolved::Unsatisfiable, Resolved::Part)
    }

    /// The first byte, where it is known without the size.
    pub const fn first(self) -> Option<u64> {
        match self {
            Self::Whole => Some(0),
            Self::FromTo { first, .. } | Self::From { first } => Some(first),
            Self::Suffix { .. } => None,
        }
    }

    /// One past the last byte asked for, where the ask names one.
    pub const fn end(self) -> Option<u64> {
        match self {
            Self::FromTo { last, .. } => Some(last.saturating_add(1)),
            Self::Whole | Self::From { .. } | Self::Suffix { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(start: u64, end: u64) -> Resolved {
        Resolved::Part(ByteRange::new(start, end).unwrap())
    }

    #[test]
    fn ranges_past_the_end_are_clamped() {
        assert_eq!(RangeAsk::FromTo { first: 0, last: 8_388_607 }.resolve(8871), part(0, 8871));
        assert_eq!(RangeAsk::Suffix { len: 10 }.resolve(4), part(0, 4));
        assert_eq!(RangeAsk::From { first: 3 }.resolve(4), part(3, 4));
        assert_eq!(RangeAsk::FromTo { first: 0, last: u64::MAX }.resolve(9), part(0, 9));
    }

    #[test]
    fn a_range_with_no_byte_in_the_object_is_unsatisfiable() {
        assert_eq!(RangeAsk::From { first: 4 }.resolve(4), Resolved::Unsatisfiable);
        assert_eq!(RangeAsk::Suffix { len: 0 }.resolve(4), Resolved::Unsatisfiable);
        assert_eq!(RangeAsk::Suffix { len: 5 }.resolve(0), Resolved::Unsatisfiable);
        assert_eq!(RangeAsk::Whole.resolve(0), Resolved::Whole(None));
    }
}
