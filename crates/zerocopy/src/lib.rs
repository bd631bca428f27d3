//! Bytes that stand for a range of a file, and the socket that sends them without reading them.
//!
//! A [`FileWindow`] maps a segment file. Its [`FileWindow::token`]s are ordinary `Bytes` whose
//! address names a place in that file. hyper queues them like any other body chunk; a
//! [`Transport`] recognises the address and calls `sendfile(2)`, so the bytes go from the page
//! cache to the socket and nobody touches the map. Only a `Transport` knows tokens: TLS, or any
//! other I/O type, reads through the map into its own buffers, which is slower and still right.
//!
//! Nothing here knows what a segment holds, whether its bytes were verified, or what HTTP is.
//! Why a map and not a reserved address range: `docs/adr/0001-file-backed-bytes.md`.

mod listen;
mod registry;
mod residency;
mod send;
mod stall;
mod transport;
mod window;

pub use listen::{
    BadCongestionName, Congestion, DEFAULT_BACKLOG, ListenError, ListenOptions, Listening, listen,
    prepare,
};
pub use stall::STALL_LIMIT;
pub use transport::Transport;
pub use window::FileWindow;

#[cfg(test)]
mod tests;
