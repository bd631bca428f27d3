//! The composition root: configuration, wiring, admin endpoints, and a worker's life.
//!
//! Imported only by the binary and by tests. What a part does is its own crate's business;
//! here it is only said which parts there are and in which order they start and end.

mod adapters;
mod admin;
mod cluster;
pub mod config;
pub mod control;
mod error;
mod identity;
mod live_rules;
mod origins;
mod page;
mod port;
mod probe;
mod process;
mod running;
mod state;
pub mod status;
mod tls_port;
mod voter;
mod wiring;
mod worker;

pub use config::{Config, ConfigError, ControlConfig, Environment, Flags, Knob, RawConfig};
pub use error::StartError;
pub use forebay_telemetry::init_logging;
pub use identity::IdentityError;
pub use running::Running;
pub use status::{Status, StatusError};
pub use tls_port::TlsError;
