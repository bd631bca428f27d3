//! The composition root: configuration, wiring, admin endpoints, and a worker's life.
//!
//! Imported only by the binary and by tests. What a part does is its own crate's business;
//! here it is only said which parts there are and in which order they start and end.

mod adapters;
mod admin;
pub mod config;
mod error;
mod page;
mod probe;
mod process;
mod state;
pub mod status;
mod wiring;
mod worker;

pub use config::{Config, ConfigError, Environment, Flags, Knob, RawConfig};
pub use error::StartError;
pub use forebay_telemetry::init_logging;
pub use status::{Status, StatusError};
pub use worker::Worker;
