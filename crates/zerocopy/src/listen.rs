//! Listening sockets, and which congestion control they give to the connections they accept.
//!
//! A system whose default is BBR paces loopback and LAN streams to a third of the speed of cubic
//! or reno, at four times the CPU. An accepted socket inherits the choice made on its listener.
//! Who accepts, and how many, is not decided here.

use std::io;
use std::net::SocketAddr;
use std::str::FromStr;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

/// Connections that may wait to be accepted, unless set otherwise; the kernel cuts it to
/// `net.core.somaxconn`.
pub const DEFAULT_BACKLOG: u32 = 4096;

/// What `auto` tries, in this order, where the system's default is BBR. cubic may need
/// CAP_NET_ADMIN, reno is allowed to everybody.
const UNPACED: [&str; 2] = ["cubic", "reno"];

/// Longest name of a congestion control: the kernel's TCP_CA_NAME_MAX without its NUL.
const CONGESTION_NAME_BYTES: usize = 15;

/// How to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenOptions {
    /// Congestion control of accepted connections.
    pub congestion: Congestion,
    /// Connections that may wait to be accepted.
    pub backlog: u32,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self { congestion: Congestion::Auto, backlog: DEFAULT_BACKLOG }
    }
}

/// Which congestion control accepted connections get.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Congestion {
    /// The system's default, unless that is BBR: then the first allowed one that does not pace.
    #[default]
    Auto,
    /// The system's default.
    Keep,
    /// This one, or the listener does not start.
    Named(String),
}

/// A word that cannot name a congestion control.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "congestion control {0:?}: write \"auto\", \"keep\", or a name that \
     /proc/sys/net/ipv4/tcp_available_congestion_control lists"
)]
pub struct BadCongestionName(String);

impl FromStr for Congestion {
    type Err = BadCongestionName;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let is_name = (1..=CONGESTION_NAME_BYTES).contains(&word.len())
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        match word {
            "auto" => Ok(Self::Auto),
            "keep" => Ok(Self::Keep),
            name if is_name => Ok(Self::Named(name.to_owned())),
            other => Err(BadCongestionName(other.to_owned())),
        }
    }
}

/// A listening socket, and what there is to tell of it.
#[derive(Debug)]
pub struct Listening {
    /// Accepts connections; give each to [`prepare`].
    pub listener: TcpListener,
    /// The congestion control that they have, for the log.
    pub congestion: String,
}

/// Why a listener did not start.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address cannot be had.
    #[error("listen on {addr}: {source}; free the port or configure another address")]
    Address {
        /// The address asked for.
        addr: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The congestion control named in the configuration cannot be had.
    #[error(
        "congestion control {name:?} on {addr}: {source}; configure \"auto\", load its kernel \
         module, or allow it in net.ipv4.tcp_allowed_congestion_control"
    )]
    Congestion {
        /// The name asked for.
        name: String,
        /// The address it was for.
        addr: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
}

/// Binds `addr` and listens. To be called within the tokio runtime that will accept.
pub fn listen(addr: SocketAddr, options: &ListenOptions) -> Result<Listening, ListenError> {
    let at_addr = |source| ListenError::Address { addr, source };
    let socket = open(addr).map_err(at_addr)?;
    choose_congestion(&socket, &options.congestion).map_err(|(name, source)| {
        ListenError::Congestion { name: name.to_owned(), addr, source }
    })?;
    let congestion = congestion_of(&socket).map_err(at_addr)?;
    let listener = start(socket, addr, options.backlog).map_err(at_addr)?;
    Ok(Listening { listener, congestion })
}

/// Readies an accepted connection: headers wait for their body by `MSG_MORE`, and without
/// TCP_NODELAY what follows could wait 40 ms for the client's delayed acknowledgement.
pub fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)
}

fn open(addr: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    Ok(socket)
}

fn choose_congestion<'a>(
    socket: &Socket,
    congestion: &'a Congestion,
) -> Result<(), (&'a str, io::Error)> {
    match congestion {
        Congestion::Keep => Ok(()),
        Congestion::Named(name) => {
            socket.set_tcp_congestion(name.as_bytes()).map_err(|error| (name.as_str(), error))
        }
        Congestion::Auto => {
            if congestion_of(socket).is_ok_and(|default| default.starts_with("bbr")) {
                // None allowed: slower, but no reason not to start.
                let _ =
                    UNPACED.iter().find(|name| socket.set_tcp_congestion(name.as_bytes()).is_ok());
            }
            Ok(())
        }
    }
}

fn congestion_of(socket: &Socket) -> io::Result<String> {
    let name = socket.tcp_congestion()?;
    Ok(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
}

fn start(socket: Socket, addr: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    socket.bind(&addr.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    TcpListener::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    use socket2::SockRef;

    use super::*;

    fn any_port() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    fn with(congestion: Congestion) -> ListenOptions {
        ListenOptions { congestion, ..ListenOptions::default() }
    }

    async fn accepted_congestion(listening: &Listening) -> String {
        let addr = listening.listener.local_addr().unwrap();
        let (_client, accepted) =
            tokio::join!(TcpStream::connect(addr), listening.listener.accept());
        let stream = accepted.unwrap().0;
        prepare(&stream).unwrap();
        assert!(stream.nodelay().unwrap());
        let name = SockRef::from(&stream).tcp_congestion().unwrap();
        String::from_utf8(name).unwrap().trim_end_matches('\0').to_owned()
    }

    fn system_default() -> String {
        let path = "/proc/sys/net/ipv4/tcp_congestion_control";
        std::fs::read_to_string(path).unwrap().trim().to_owned()
    }

    #[tokio::test]
    async fn accepted_connections_have_the_congestion_control_that_was_named() {
        // Every Linux has reno and allows it to everybody.
        let named = with(Congestion::Named("reno".to_owned()));
        let listening = listen(any_port(), &named).unwrap();
        assert_eq!(listening.congestion, "reno");
        assert_eq!(accepted_congestion(&listening).await, "reno");
    }

    #[tokio::test]
    async fn keep_leaves_the_default_of_the_system() {
        let listening = listen(any_port(), &with(Congestion::Keep)).unwrap();
        assert_eq!(listening.congestion, system_default());
        assert_eq!(accepted_congestion(&listening).await, system_default());
    }

    #[tokio::test]
    async fn auto_does_not_pace_and_else_leaves_the_default() {
        let listening = listen(any_port(), &with(Congestion::Auto)).unwrap();
        assert_eq!(accepted_congestion(&listening).await, listening.congestion);
        if system_default().starts_with("bbr") {
            assert!(UNPACED.contains(&listening.congestion.as_str()), "{}", listening.congestion);
        } else {
            assert_eq!(listening.congestion, system_default());
        }
    }

    #[tokio::test]
    async fn an_unknown_congestion_control_says_what_to_do() {
        let options = with("no_such_thing".parse().unwrap());
        let error = listen(any_port(), &options).unwrap_err().to_string();
        assert!(error.contains("\"no_such_thing\"") && error.contains("configure"), "{error}");
    }

    #[tokio::test]
    async fn a_taken_address_is_named_in_the_error() {
        let first = listen(any_port(), &ListenOptions::default()).unwrap();
        let addr = first.listener.local_addr().unwrap();
        let error = listen(addr, &ListenOptions::default()).unwrap_err().to_string();
        assert!(error.contains(&addr.to_string()), "{error}");
    }

    #[test]
    fn congestion_is_parsed_from_its_word() {
        assert_eq!("auto".parse(), Ok(Congestion::Auto));
        assert_eq!("keep".parse(), Ok(Congestion::Keep));
        assert_eq!("cubic".parse(), Ok(Congestion::Named("cubic".to_owned())));
        for word in ["", "two words", "longer-than-the-kernel-takes"] {
            assert_eq!(word.parse::<Congestion>(), Err(BadCongestionName(word.to_owned())));
        }
    }
}
