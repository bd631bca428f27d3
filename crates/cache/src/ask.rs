//! What a reader asks for, already parsed.

use std::time::SystemTime;

use forebay_types::{Freshness, ObjectName, RangeAsk};
use forebay_zerocopy::PipePass;

/// One GET or HEAD.
#[derive(Debug, Clone)]
pub struct OpenAsk {
    /// What is asked for.
    pub name: ObjectName,
    /// How long a known version may stand.
    pub freshness: Freshness,
    /// Which bytes.
    pub range: RangeAsk,
    /// Under which conditions.
    pub conditions: Conditions,
    /// `Cache-Control: no-cache`: ask the origin whatever the rule says.
    pub revalidate: bool,
    /// False for HEAD: nothing is fetched but the version.
    pub body: bool,
    /// Where the bytes go, if nobody reads them on their way: those of other workers may then
    /// come in a pipe.
    pub pass: Option<PipePass>,
}

/// The tags of an If-Match or If-None-Match header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagList {
    /// `*`.
    Any,
    /// The listed tags, verbatim, quotes included where the client sent them.
    Tags(Vec<String>),
}

/// The conditional headers of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conditions {
    /// If-Match.
    pub if_match: Option<TagList>,
    /// If-None-Match.
    pub if_none_match: Option<TagList>,
    /// If-Modified-Since.
    pub if_modified_since: Option<SystemTime>,
    /// If-Unmodified-Since.
    pub if_unmodified_since: Option<SystemTime>,
    /// If-Range, as a tag.
    pub if_range: Option<String>,
}
