//! What must hold of whatever a parser takes, as plain assertions: proptest asks them here, and
//! libFuzzer in `crates/s3/fuzz`.

pub(crate) mod head;
pub(crate) mod key;
pub(crate) mod query;
pub(crate) mod range;
pub(crate) mod xml;
