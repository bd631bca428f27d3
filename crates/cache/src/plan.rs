//! Planning: which bytes to ask the origin for. Pure arithmetic.

use forebay_types::block::round_to_pages;
use forebay_types::{BLOCK_BYTES, BlockIndex, ByteRange, RangeAsk};

use crate::ask::{Conditions, OpenAsk};

/// How to learn the version of an object of which nothing is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstAsk {
    /// Ask for these bytes; the answer brings the version along.
    Get(ByteRange),
    /// Ask for the version alone.
    Head,
}

/// A read that starts in the first block costs one request; a suffix, a read from the middle
/// and a reader that may already have the bytes, and wants none yet, cost a HEAD first.
pub(crate) fn first_ask(wanted: Option<RangeAsk>) -> FirstAsk {
    wanted.and_then(first_bytes).map_or(FirstAsk::Head, FirstAsk::Get)
}

/// The bytes that are worth having together with the version: none where the version may say
/// that the reader has them already, or that it wants others.
pub(crate) fn wanted_first(ask: &OpenAsk) -> Option<RangeAsk> {
    let Conditions { if_none_match, if_modified_since, if_range, .. } = &ask.conditions;
    let may_differ = if_none_match.is_some() || if_modified_since.is_some() || if_range.is_some();
    (ask.body && !may_differ).then_some(ask.range)
}

/// The part of the first block that `range` asks for, in whole pages.
fn first_bytes(range: RangeAsk) -> Option<ByteRange> {
    let first = range.first().filter(|first| *first < BLOCK_BYTES)?;
    let end = range.end().unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
    Some(round_to_pages(ByteRange::new(first, end)?, BLOCK_BYTES))
}

/// The part of `asked` that lies in the block of its first byte.
pub(crate) fn within_block(asked: ByteRange) -> ByteRange {
    let cut = asked.end().min(BlockIndex::of(asked.start()).end());
    ByteRange::new(asked.start(), cut).unwrap_or(asked)
}

/// What a new fill brings: `gap`, a run of pages that are not stored, up to the first page
/// that another fill has claimed already.
pub(crate) fn unclaimed(gap: ByteRange, claimed: impl Iterator<Item = ByteRange>) -> ByteRange {
    let starts = claimed.map(ByteRange::start).filter(|at| gap.holds(*at) && *at > gap.start());
    starts.min().and_then(|end| ByteRange::new(gap.start(), end)).unwrap_or(gap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::{BucketName, Freshness, ObjectKey, ObjectName, PAGE_BYTES, RuleId};

    fn ask(range: RangeAsk) -> OpenAsk {
        let name = ObjectName {
            rule: RuleId(1),
            bucket: BucketName::new("b").unwrap(),
            key: ObjectKey::new("k").unwrap(),
            version_id: None,
        };
        let conditions = Conditions::default();
        OpenAsk {
            name,
            freshness: Freshness::Strict,
            range,
            conditions,
            revalidate: false,
            body: true,
            pass: None,
        }
    }

    fn asks(ask: &OpenAsk) -> FirstAsk {
        first_ask(wanted_first(ask))
    }

    fn get(start: u64, end: u64) -> FirstAsk {
        FirstAsk::Get(ByteRange::new(start, end).unwrap())
    }

    #[test]
    fn a_read_in_the_first_block_asks_once_and_for_no_more_than_its_pages() {
        assert_eq!(asks(&ask(RangeAsk::Whole)), get(0, BLOCK_BYTES));
        let part = RangeAsk::FromTo { first: 70_000, last: 70_001 };
        assert_eq!(asks(&ask(part)), get(PAGE_BYTES, 2 * PAGE_BYTES));
        let over = RangeAsk::FromTo { first: 0, last: u64::MAX };
        assert_eq!(asks(&ask(over)), get(0, BLOCK_BYTES));
        assert_eq!(asks(&ask(RangeAsk::From { first: 1 })), get(0, BLOCK_BYTES));
    }

    #[test]
    fn reads_from_the_middle_suffixes_and_conditions_ask_for_the_version_first() {
        assert_eq!(asks(&ask(RangeAsk::Suffix { len: 8 })), FirstAsk::Head);
        assert_eq!(asks(&ask(RangeAsk::From { first: BLOCK_BYTES })), FirstAsk::Head);
        let mut conditional = ask(RangeAsk::Whole);
        conditional.conditions.if_none_match = Some(crate::TagList::Any);
        assert_eq!(asks(&conditional), FirstAsk::Head);
        let head = OpenAsk { body: false, ..ask(RangeAsk::Whole) };
        assert_eq!(asks(&head), FirstAsk::Head);
    }

    #[test]
    fn a_fill_stops_where_another_has_begun() {
        let range = |start: u64, end: u64| ByteRange::new(start, end).unwrap();
        let others = [range(900, 950), range(500, 600), range(0, 100)];
        assert_eq!(unclaimed(range(100, 1000), others.into_iter()), range(100, 500));
        assert_eq!(unclaimed(range(600, 800), others.into_iter()), range(600, 800));
    }
}
