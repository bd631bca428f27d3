//! Opening a read: the first answer settles the version, the rest of the range is held to it.

use std::sync::Arc;

use forebay_types::range::Resolved;
use forebay_types::{BLOCK_BYTES, BlockIndex, ByteRange, ObjectHead, RangeAsk, Stamp};
use http::StatusCode;

use crate::answer::{Answer, is_pinnable};
use crate::ask::{Ask, Name};
use crate::body::Body;
use crate::error::ReadError;
use crate::part::{Part, Version};
use crate::route::Route;
use crate::servers::Servers;

/// An object, or part of one, that is being read.
#[derive(Debug)]
pub struct Object {
    /// The version: its stamp and its headers.
    pub head: ObjectHead,
    /// The bytes of it that `body` holds; `None` where the object is empty.
    pub range: Option<ByteRange>,
    /// They.
    pub body: Body,
}

/// The version that a name has now.
pub(crate) async fn head(servers: &Servers, name: &Name) -> Result<ObjectHead, ReadError> {
    let mut route = Route::new(BlockIndex(0));
    let answer = servers.ask_in_turn(&mut route, name, &name.head(), None).await?;
    Ok(answer.head)
}

/// Opens a read of what `asked` names. Returns with the first answer.
pub(crate) async fn open(
    servers: Arc<Servers>,
    name: Name,
    asked: RangeAsk,
) -> Result<Object, ReadError> {
    let (asked, pin) = settle(&servers, &name, asked).await?;
    let first = within_first_block(asked);
    let route = Route::new(first_block(asked));
    let mut opening = Opening { servers, name, pin, route };

    let answer = match opening.ask(first).await {
        Err(ReadError::Refused { status: StatusCode::RANGE_NOT_SATISFIABLE, .. })
            if asked == RangeAsk::Whole =>
        {
            // The object is empty, and no range of it can be asked for.
            opening.ask(asked).await?
        }
        answer => answer?,
    };
    let rest = rest(asked, &answer);
    if rest.is_none() || is_pinnable(&answer.head.stamp) {
        return Ok(opening.into_object(answer, rest));
    }
    // Without a strong tag, only one answer is sure to be of one version.
    let answer = opening.ask(asked).await?;
    Ok(opening.into_object(answer, None))
}

/// A read without an answer yet.
struct Opening {
    servers: Arc<Servers>,
    name: Name,
    pin: Option<Stamp>,
    route: Route,
}

impl Opening {
    /// Begins with the owner, also where another question went before.
    async fn ask(&mut self, range: RangeAsk) -> Result<Answer, ReadError> {
        self.route.begin_anew();
        let ask = self.name.get().range(range);
        let ask = self.pin.iter().fold(ask, |ask, pin| Ask::if_match(ask, &pin.etag));
        self.servers.ask_in_turn(&mut self.route, &self.name, &ask, self.pin.as_ref()).await
    }

    fn into_object(self, answer: Answer, rest: Option<ByteRange>) -> Object {
        let Self { servers, name, route, .. } = self;
        let head = answer.head.clone();
        let end = rest.or(answer.range).map(ByteRange::end);
        let range = answer.range.and_then(|first| ByteRange::new(first.start(), end?));
        let version = Arc::new(Version { servers, name, stamp: head.stamp.clone() });
        Object { head, range, body: Body::new(Part::answered(version, route, answer), rest) }
    }
}

/// The place of a long suffix is known only with the size; so the version is settled before.
async fn settle(
    servers: &Servers,
    name: &Name,
    asked: RangeAsk,
) -> Result<(RangeAsk, Option<Stamp>), ReadError> {
    match asked {
        RangeAsk::Suffix { len } if len > BLOCK_BYTES => {
            let stamp = head(servers, name).await?.stamp;
            if !is_pinnable(&stamp) {
                return Ok((asked, None));
            }
            let first = stamp.size.saturating_sub(len);
            Ok((RangeAsk::From { first }, Some(stamp)))
        }
        RangeAsk::FromTo { first, last } if last < first => Err(no_such_range()),
        _ => Ok((asked, None)),
    }
}

fn no_such_range() -> ReadError {
    let status = StatusCode::RANGE_NOT_SATISFIABLE;
    ReadError::Refused { status, code: "InvalidRange".into() }
}

fn first_block(asked: RangeAsk) -> BlockIndex {
    BlockIndex::of(asked.first().unwrap_or(0))
}

/// What of a range lies in the block where it begins.
fn within_first_block(asked: RangeAsk) -> RangeAsk {
    let Some(first) = asked.first() else { return asked };
    let end = asked.end().unwrap_or(u64::MAX).min(first_block(asked).end());
    RangeAsk::FromTo { first, last: first.max(end - 1) }
}

/// What of a range the first answer left out.
fn rest(asked: RangeAsk, answer: &Answer) -> Option<ByteRange> {
    let (Resolved::Whole(Some(all)) | Resolved::Part(all)) = asked.resolve(answer.head.stamp.size)
    else {
        return None;
    };
    ByteRange::new(answer.range?.end(), all.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_stays_within_one_block() {
        let cut = |asked| match within_first_block(asked) {
            RangeAsk::FromTo { first, last } => (first, last),
            other => panic!("{other:?}"),
        };
        assert_eq!(cut(RangeAsk::Whole), (0, BLOCK_BYTES - 1));
        assert_eq!(
            cut(RangeAsk::From { first: BLOCK_BYTES + 5 }),
            (BLOCK_BYTES + 5, 2 * BLOCK_BYTES - 1)
        );
        assert_eq!(cut(RangeAsk::FromTo { first: 3, last: 9 }), (3, 9));
        assert_eq!(cut(RangeAsk::FromTo { first: 3, last: u64::MAX }), (3, BLOCK_BYTES - 1));
        assert_eq!(cut(RangeAsk::FromTo { first: u64::MAX - 1, last: u64::MAX }).0, u64::MAX - 1);
        let suffix = RangeAsk::Suffix { len: 4 };
        assert_eq!(within_first_block(suffix), suffix);
    }
}
