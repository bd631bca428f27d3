//! The same promises, kept by several workers together: three voters and three workers as real
//! processes. One cluster at a time, so that no test is slowed down by another.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "real processes live in real time")]
#![allow(clippy::print_stderr, reason = "a proof prints its figures")]

mod admission;
mod authorization;
mod availability;
mod freshness;
mod native_client;
mod newer_ring;
mod once;
mod partition;
mod placement;
mod relay;
mod voters;
