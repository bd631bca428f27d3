//! libFuzzer over the parsers of `forebay-s3`, with the checks of that crate's own fuzz test.
//!
//! The parsers are private, so their sources are compiled here once more. Coverage flags are in
//! `.cargo/config.toml`; the toolchain is the usual one. In this folder, for each of `head`,
//! `range`, `query`, `key` and `xml`:
//!
//! ```text
//! mkdir -p corpus/head
//! FOREBAY_FUZZ=head cargo run --release -- -max_total_time=600 corpus/head
//! ```

#![no_main]
#![allow(dead_code, reason = "parsers have more than what is checked")]

#[path = "../../src/address.rs"]
mod address;
#[path = "../../src/fuzz/checks/mod.rs"]
mod checks;
#[path = "../../src/code.rs"]
mod code;
#[path = "../../src/conditions.rs"]
mod conditions;
#[path = "../../src/copy_source.rs"]
mod copy_source;
#[path = "../../src/error.rs"]
mod error;
#[path = "../../src/overrides.rs"]
mod overrides;
#[path = "../../src/query.rs"]
mod query;
#[path = "../../src/range.rs"]
mod range;
#[path = "../../src/route.rs"]
mod route;
#[path = "../../src/xml.rs"]
mod xml;

use std::sync::OnceLock;

static CHECK: OnceLock<fn(&str)> = OnceLock::new();

libfuzzer_sys::fuzz_target!(
    init: {
        let name = std::env::var("FOREBAY_FUZZ").unwrap_or_default();
        CHECK.set(check_of(&name)).expect("libFuzzer begins once");
    },
    |text: &str| (CHECK.get().expect("it has begun"))(text)
);

fn check_of(name: &str) -> fn(&str) {
    match name {
        "head" => checks::head::check,
        "range" => check_range,
        "query" => checks::query::check,
        "key" => checks::key::check,
        "xml" => checks::xml::check,
        _ => panic!("FOREBAY_FUZZ is {name:?}: say head, range, query, key or xml"),
    }
}

/// The size of the object is what stands before the first line break, if that is a number.
fn check_range(text: &str) {
    let (size, value) = text.split_once('\n').unwrap_or(("1000", text));
    checks::range::check(value, size.parse().unwrap_or(u64::MAX));
}
