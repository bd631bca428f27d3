//! Accepting connections, however long the system is short of something.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use forebay_rt::Clock;
use tokio::net::{TcpListener, TcpStream};

/// How long to wait after the system had no file handle or memory for a connection: others get
/// a chance to end first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The next connection, and where it comes from.
pub async fn accept(listener: &TcpListener, clock: &dyn Clock) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(connection) => return connection,
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                let port = listener.local_addr().ok().map(|addr| addr.port());
                tracing::warn!(%error, port, "cannot accept connections: waiting");
                clock.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Whether an error of accept is only about the connection that would have been accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}
