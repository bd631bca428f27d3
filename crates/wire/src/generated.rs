//! What build.rs made of proto/. Not ours to lint.

#![allow(
    clippy::all,
    clippy::pedantic,
    missing_docs,
    unreachable_pub,
    reason = "written by a generator"
)]

include!(concat!(env!("OUT_DIR"), "/forebay.rs"));
