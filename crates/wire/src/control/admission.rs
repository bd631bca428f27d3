//! Letting in those who complete the handshake, and nobody else.
//!
//! Handshakes run side by side, as many as the [`Gate`] has places for.

use std::net::SocketAddr;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, FuturesUnordered, Stream, StreamExt};
use tokio::net::{TcpListener, TcpStream};

use crate::gate::Gate;
use crate::handshake::{Handshake, HandshakeError, Purpose};
use crate::limits::{ACCEPT_PAUSE, HANDSHAKES_MAX};

/// Connections to `listener` whose other side holds the cluster secret, with `TCP_NODELAY` and
/// nothing read beyond the handshake. Never ends and never fails: strangers are logged and
/// dropped. Drop the stream to close the port.
pub(super) fn admissions(
    listener: TcpListener,
    handshake: Handshake,
) -> impl Stream<Item = (TcpStream, SocketAddr)> + Send + 'static {
    let port = Port {
        listener,
        handshake,
        gate: Gate::new(HANDSHAKES_MAX),
        running: FuturesUnordered::new(),
    };
    stream::unfold(port, |mut port| async {
        let admitted = port.next().await;
        Some((admitted, port))
    })
}

struct Port {
    listener: TcpListener,
    handshake: Handshake,
    gate: Gate,
    running: FuturesUnordered<BoxFuture<'static, (SocketAddr, Option<Outcome>)>>,
}

type Outcome = Result<TcpStream, HandshakeError>;

impl Port {
    async fn next(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            // Those who have to give way are let go of before others come.
            tokio::select! {
                biased;
                Some((from, outcome)) = self.running.next() => match outcome {
                    Some(Ok(stream)) => return (stream, from),
                    Some(Err(error)) => log_refusal(from, &error),
                    None => tracing::debug!(%from, "dropped an unfinished handshake"),
                },
                (stream, from) = accept(&self.listener, &self.handshake) => self.begin(stream, from),
            }
        }
    }

    fn begin(&mut self, stream: TcpStream, from: SocketAddr) {
        let (turn, handshake) = (self.gate.enter(), self.handshake.clone());
        let admission = async move {
            tokio::select! {
                outcome = admit(stream, handshake) => (from, Some(outcome)),
                () = turn.over() => (from, None),
            }
        };
        self.running.push(admission.boxed());
    }
}

async fn accept(listener: &TcpListener, handshake: &Handshake) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(connection) => return connection,
            Err(error) => {
                tracing::warn!(%error, "the control port cannot accept a connection");
                handshake.clock().sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn admit(mut stream: TcpStream, handshake: Handshake) -> Outcome {
    stream.set_nodelay(true).map_err(HandshakeError::Broken)?;
    handshake.admit(&mut stream, Purpose::Control).await?;
    Ok(stream)
}

/// A mistake in someone's configuration is worth a warning, a port scan is not.
fn log_refusal(from: SocketAddr, error: &HandshakeError) {
    match error {
        HandshakeError::Secret
        | HandshakeError::Version { .. }
        | HandshakeError::Purpose { .. } => {
            tracing::warn!(%from, %error, "the control port refused a connection");
        }
        HandshakeError::NotForebay | HandshakeError::TimedOut | HandshakeError::Broken(_) => {
            tracing::debug!(%from, %error, "the control port refused a connection");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_rt::{ManualClock, SystemRng, spawn};
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::secret::ClusterSecret;

    fn holder() -> Handshake {
        let secret = ClusterSecret::from_text(&"s".repeat(32)).unwrap();
        // Its time stands still: nothing here is decided by a time limit.
        Handshake::new(secret, Arc::new(ManualClock::new()), Arc::new(SystemRng))
    }

    /// A port that is being accepted from, and what was admitted.
    async fn port() -> (SocketAddr, tokio::sync::mpsc::Receiver<SocketAddr>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (admitted, seen) = tokio::sync::mpsc::channel(8);
        spawn(async move {
            let mut port = std::pin::pin!(admissions(listener, holder()));
            while let Some((_stream, from)) = port.next().await {
                admitted.send(from).await.unwrap();
            }
        });
        (addr, seen)
    }

    #[tokio::test]
    async fn strangers_who_send_nothing_do_not_keep_a_holder_out() {
        let (addr, mut seen) = port().await;
        let mut strangers = Vec::new();
        for _ in 0..HANDSHAKES_MAX + 8 {
            strangers.push(TcpStream::connect(addr).await.unwrap());
        }
        let mut stream = TcpStream::connect(addr).await.unwrap();
        holder().offer(&mut stream, Purpose::Control).await.unwrap();
        assert_eq!(seen.recv().await, Some(stream.local_addr().unwrap()));
        assert_eq!(strangers[0].read(&mut [0]).await.unwrap(), 0, "the oldest had to go");
        let newest = strangers.last().unwrap().try_read(&mut [0]);
        assert_eq!(newest.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }

    #[tokio::test]
    async fn a_port_goes_on_after_it_refused_someone() {
        let (addr, mut seen) = port().await;
        let mut stream = TcpStream::connect(addr).await.unwrap();
        let refused = holder().offer(&mut stream, Purpose::Data).await;
        assert!(matches!(refused, Err(HandshakeError::Purpose { .. })), "{refused:?}");
        let mut stream = TcpStream::connect(addr).await.unwrap();
        holder().offer(&mut stream, Purpose::Control).await.unwrap();
        assert_eq!(seen.recv().await, Some(stream.local_addr().unwrap()));
    }
}
