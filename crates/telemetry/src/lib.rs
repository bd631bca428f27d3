//! What Forebay says about itself: metrics, logs, and the context a read carries with it.
//!
//! The only crate that knows the metrics exporter. Every crate keeps its metric names in a
//! `metrics.rs` of its own and records through the `metrics` facade re-exported here.

mod apps;
mod context;
mod exporter;
mod logging;
mod secret;

pub use apps::{AppCounters, AppName, Apps};
pub use context::{ReadCtx, RequestId, Tier};
pub use exporter::{Exporter, ExporterError};
pub use logging::{LogFormat, init_logging};
pub use metrics;
pub use secret::Secret;
