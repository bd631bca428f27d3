//! The promises of `docs/SEMANTICS.md`, one module each, proven through real processes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "real processes live in real time")]
#![allow(clippy::print_stderr, reason = "a proof prints its figures")]

mod authorized;
mod availability;
mod bad_input;
mod bounded;
mod bytes;
mod connections;
mod freshness;
mod keys;
mod once;
mod recoverable;
mod smuggling;
mod wire;
