//! Keep-alive connections to one address.
//!
//! hyper's own pool may send a request again; this one never does. A request that a
//! connection handed back unsent goes on another: no byte of it was on the wire.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use forebay_rt::spawn;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;

use super::ReadError;
use crate::socket;

/// Most connections that wait for a next request.
const MAX_IDLE: usize = 4096;

type Sender = SendRequest<Full<Bytes>>;

/// The idle connections.
#[derive(Debug)]
pub(super) struct Pool {
    address: SocketAddr,
    idle: Mutex<Vec<Sender>>,
}

/// A connection in use. Given back when its answer has been read to the end; dropped, and
/// with it closed, otherwise.
#[derive(Debug)]
pub(super) struct Lease {
    pool: Arc<Pool>,
    sender: Sender,
}

impl Pool {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, idle: Mutex::new(Vec::new()) }
    }

    pub(super) async fn send(
        self: &Arc<Self>,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Lease), ReadError> {
        loop {
            let idle = self.idle.lock().pop();
            let is_new = idle.is_none();
            let mut sender = match idle {
                Some(sender) => sender,
                None => self.connect().await?,
            };
            if sender.ready().await.is_err() && !is_new {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => {
                    return Ok((response, Lease { pool: Arc::clone(self), sender }));
                }
                Err(mut failure) => match failure.take_message() {
                    Some(unsent) if !is_new => request = unsent,
                    _ => return Err(ReadError::Broken(failure.into_error())),
                },
            }
        }
    }

    async fn connect(&self) -> Result<Sender, ReadError> {
        let stream = socket::connect(self.address).await.map_err(ReadError::Connect)?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(ReadError::Broken)?;
        spawn(async move {
            // What goes wrong reaches whoever waits for the answer.
            let _ = connection.await;
        });
        Ok(sender)
    }
}

impl Lease {
    pub(super) fn give_back(self) {
        let mut idle = self.pool.idle.lock();
        if idle.len() < MAX_IDLE && !self.sender.is_closed() {
            idle.push(self.sender);
        }
    }
}
