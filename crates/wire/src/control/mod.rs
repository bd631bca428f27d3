//! The control port's transport: gRPC over connections that began with the handshake.

mod admission;
mod channel;
mod incoming;

pub use channel::channel;
pub use incoming::{Admitted, incoming, server};
