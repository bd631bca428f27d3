//! Ports: taken before anything else, so that a second process fails before it touches a disk.

use std::net::SocketAddr;

use forebay_zerocopy::{ListenOptions, listen};
use tokio::net::TcpListener;

use crate::error::StartError;

/// A port that is listened at.
pub(crate) struct Port {
    /// The address that was really taken, where any port was asked for.
    pub(crate) addr: SocketAddr,
    pub(crate) listener: TcpListener,
    /// The congestion control of its connections.
    pub(crate) congestion: String,
}

impl Port {
    pub(crate) fn take(addr: SocketAddr, options: &ListenOptions) -> Result<Self, StartError> {
        let listening = listen(addr, options)?;
        let addr = listening.listener.local_addr().unwrap_or(addr);
        let congestion = listening.congestion.clone();
        Ok(Self { addr, listener: listening.listener, congestion })
    }
}
