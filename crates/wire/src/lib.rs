//! What processes of ours say to each other: messages, their bytes, and the handshake before
//! the first of them. The only crate that knows prost.

pub mod control;
pub mod gate;
mod generated;
pub mod handshake;
pub mod limits;
pub mod peer;
pub mod secret;
pub mod view;

/// Services and messages of the control port.
pub mod meta {
    pub use crate::generated::forebay::meta::v1::*;
}

pub use handshake::{Handshake, HandshakeError, Purpose};
pub use secret::{ClusterSecret, SecretError};

/// Bytes that are not the message they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a valid {message}: {reason}")]
pub struct WireError {
    /// The message expected.
    pub message: &'static str,
    /// What is wrong with it.
    pub reason: String,
}
