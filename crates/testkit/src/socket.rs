//! Loopback sockets that are as fast as loopback is.
//!
//! Where the machine's default congestion control paces (BBR), a loopback stream runs at a
//! third of its speed and four times its CPU; that would be what a test measures.

use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};

use crate::cluster::Namespaces;

const CONGESTION_CONTROL: [&[u8]; 2] = [b"cubic", b"reno"];

/// Listens on a loopback address, or in a network that only this test is in: what testkit serves
/// is nobody else's business.
pub(crate) async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    if !is_loopback(address.ip()) && !Namespaces::are_private() {
        let why = format!("{address} is not a loopback address: testkit serves only this machine");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let listener = TcpListener::bind(address).await?;
    choose_congestion_control(&SockRef::from(&listener));
    Ok(listener)
}

/// Connects, and sends small writes at once.
pub(crate) async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    choose_congestion_control(&SockRef::from(&stream));
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

fn choose_congestion_control(socket: &SockRef<'_>) {
    // A kernel without either keeps its default: slower, not wrong.
    let _ = CONGESTION_CONTROL.iter().any(|name| socket.set_tcp_congestion(name).is_ok());
}
