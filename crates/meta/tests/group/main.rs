//! Real voters on loopback, in one process: what the group promises workers and operators.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod changes;
mod churn;
mod forming;
mod heartbeats;
mod restoring;
mod support;
