//! Bytes that stand for a range of a file, and the socket that sends them without reading them.
//!
//! A [`FileWindow`] maps a segment file. Its [`FileWindow::token`]s are ordinary `Bytes` whose
//! address names a place in that file. hyper queues them like any other body chunk; a
//! [`Transport`] recognises the address and calls `sendfile(2)`, so the bytes go from the page
//! cache to the socket and nobody touches the map. Only a `Transport` knows tokens: TLS, or any
//! other I/O type, reads through the map into its own buffers, which is slower and still right.
//!
//! [`receive`] makes tokens of another kind, for bytes that go from socket to socket through a
//! pipe: these a `Transport` alone can send, and who has one shows it by a [`PipePass`].
//!
//! Nothing here knows what a segment holds, what makes its bytes right, or what HTTP is. Whether
//! bytes may be sent is asked of the window's [`Keeper`], before every piece.
//! Why a map and not a reserved address range: `docs/adr/0001-file-backed-bytes.md`.

mod accept;
mod keeper;
mod listen;
mod pipe;
mod registry;
mod residency;
mod sealed;
mod send;
mod sightings;
mod stall;
mod transport;
mod trust;
mod window;

pub use accept::accept;
pub use keeper::{Keeper, Proof, Recheck};
pub use listen::{
    BadCongestionName, Congestion, DEFAULT_BACKLOG, ListenError, ListenOptions, Listening, listen,
    prepare,
};
pub use pipe::{PIPE_BYTES, PIPES_MAX, PipePass, Received, receive};
pub use stall::STALL_LIMIT;
pub use transport::Transport;
pub use window::FileWindow;

#[cfg(test)]
mod tests;
