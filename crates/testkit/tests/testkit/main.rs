//! What the tools of every other test promise.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod auth;
mod child;
mod conformance;
mod faults;
mod proxies;
mod shaping;
mod writes;

use forebay_testkit::origin::OriginConfig;
use forebay_testkit::{AccessKey, FaultOrigin, PatternSet, Reader};
use forebay_types::ByteRange;

const MIB: u64 = 1 << 20;

/// An origin with bucket `b` and pattern objects `data/00000000` to `data/00000009` of 1 MiB,
/// which lets everybody in.
async fn open_origin() -> FaultOrigin {
    FaultOrigin::start(OriginConfig {
        patterns: vec![PatternSet::new("b", "data/", 10, MIB)],
        anonymous: true,
        ..OriginConfig::default()
    })
    .await
    .unwrap()
}

fn reader(origin: &FaultOrigin) -> Reader {
    Reader::new(&origin.endpoint()).unwrap()
}

fn key() -> AccessKey {
    AccessKey::new("AKTEST", "not-a-secret")
}

fn range(start: u64, end: u64) -> Option<ByteRange> {
    assert!(start < end, "an empty range would ask for the whole object");
    ByteRange::new(start, end)
}
