//! Reading from another worker: a client with bounded pools, and the server of the data port.
//!
//! HTTP/1.1 keep-alive with the zero-copy transport, behind a handshake that only a holder of
//! the cluster secret completes. Nothing here decides who is asked: that is the cache's.
//!
//! A peer's request cannot be forwarded: the server answers from an [`OwnerService`], which can
//! fill from its own disks, from a previous owner's disks and from the origin, and from a
//! [`ShelfService`], which asks nobody. Neither can reach another worker's `OwnerService`.

mod client;
mod limits;
mod metrics;
mod protocol;
mod server;
mod service;

#[cfg(test)]
mod tests;

pub use client::{EpochNews, PeerBody, PeerError, Peers, PeersConfig};
pub use limits::{PeerLimits, ServerLimits};
pub use server::{ServerConfig, serve};
pub use service::{OpenReply, OwnerService, PeekReply, ReadReply, ShelfService};

use bytes::Bytes;
use futures_util::stream::BoxStream;

/// Bytes on their way to another worker. An error cuts the connection.
pub type Frames = BoxStream<'static, Result<Bytes, std::io::Error>>;
