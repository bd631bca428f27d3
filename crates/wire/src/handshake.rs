//! The first bytes of every connection between our processes: each side proves to the other
//! that it holds the cluster secret, and that it does so now.
//!
//! ```text
//! client  greeting (magic, version, purpose) + nonce
//! server  greeting                           + nonce + HMAC("server", purpose, both nonces)
//! client                                               HMAC("client", purpose, both nonces)
//! server  one byte: admitted
//! ```
//!
//! It keeps out strangers and replays: what was recorded from one connection proves nothing on
//! another, because the other side's nonce is new. It does not encrypt or sign what follows, nor
//! say which of our processes answers. Someone who can alter an established TCP connection, or
//! stand between two of our processes, can wait until they have agreed and then speak for them:
//! use a network that you trust. Any stranger is given one proof and may test guesses of the
//! secret against it at home, hence the least length of a secret.

use std::fmt;
use std::io;

use forebay_rt::{Clock, Rng, SharedClock, SharedRng, timeout};
use ring::hmac;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::limits::HANDSHAKE_TIME_MAX;
use crate::secret::ClusterSecret;

const MAGIC: [u8; 6] = *b"4ebay\n";
const VERSION: u8 = 1;
const GREETING_BYTES: usize = MAGIC.len() + 2;
const NONCE_BYTES: usize = 32;
const PROOF_BYTES: usize = 32;
const ADMITTED: u8 = 1;

/// What a connection is for. One that was opened for the one is refused by the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Bytes of objects, between workers.
    Data,
    /// gRPC, with voters.
    Control,
}

/// Why a connection is not used.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The other side is no process of ours: check the address, or ignore the stranger.
    #[error("the other side does not speak this protocol: is this the right port?")]
    NotForebay,
    /// The other side is of another release: upgrade one of the two.
    #[error("the other side speaks version {theirs} of the handshake, this side {VERSION}")]
    Version {
        /// The other side's.
        theirs: u8,
    },
    /// A data port was taken for a control port, or the other way round: check the address.
    #[error("the other side is not there for {ours} connections: is this the right port?")]
    Purpose {
        /// This side's.
        ours: Purpose,
    },
    /// The other side does not hold this side's secret: check both.
    #[error("the other side has another cluster secret")]
    Secret,
    /// The other side took too long.
    #[error("the other side did not finish the handshake in {HANDSHAKE_TIME_MAX:?}")]
    TimedOut,
    /// The connection ended before the handshake did. As a client: the server refused.
    #[error("the connection broke in the handshake")]
    Broken(#[source] io::Error),
}

/// Everything that one side needs for handshakes.
#[derive(Debug, Clone)]
pub struct Handshake {
    secret: ClusterSecret,
    clock: SharedClock,
    rng: SharedRng,
}

impl Handshake {
    /// Handshakes of a holder of `secret`. Nobody must be able to choose what `rng` draws.
    pub fn new(secret: ClusterSecret, clock: SharedClock, rng: SharedRng) -> Self {
        Self { secret, clock, rng }
    }

    /// The side that connected. Returns when the other side has admitted this one; not one byte
    /// that follows the handshake has been read.
    pub async fn offer<S>(&self, stream: &mut S, purpose: Purpose) -> Result<(), HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.in_time(self.offer_unbounded(stream, purpose)).await
    }

    /// The side that accepted. Returns when the other side has proved itself; not one byte that
    /// follows the handshake has been read. After an error, drop the stream.
    pub async fn admit<S>(&self, stream: &mut S, purpose: Purpose) -> Result<(), HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.in_time(self.admit_unbounded(stream, purpose)).await
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    async fn in_time(
        &self,
        exchange: impl Future<Output = Result<(), HandshakeError>>,
    ) -> Result<(), HandshakeError> {
        let ended = timeout(self.clock(), HANDSHAKE_TIME_MAX, exchange).await;
        ended.unwrap_or(Err(HandshakeError::TimedOut))
    }

    async fn offer_unbounded<S>(
        &self,
        stream: &mut S,
        purpose: Purpose,
    ) -> Result<(), HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let client_nonce = nonce(&*self.rng);
        send(stream, &[&greeting(purpose), &client_nonce]).await?;
        read_greeting(stream).await?.check(purpose)?;
        let session = Session { purpose, client_nonce, server_nonce: read(stream).await? };
        let proof: [u8; PROOF_BYTES] = read(stream).await?;
        session.verify(&self.secret, Side::Server, &proof)?;
        send(stream, &[session.prove(&self.secret, Side::Client).as_ref()]).await?;
        match read(stream).await? {
            [ADMITTED] => Ok(()),
            _ => Err(HandshakeError::NotForebay),
        }
    }

    async fn admit_unbounded<S>(
        &self,
        stream: &mut S,
        purpose: Purpose,
    ) -> Result<(), HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let theirs = read_greeting(stream).await?;
        let client_nonce = read(stream).await?;
        if let Err(unfit) = theirs.check(purpose) {
            // So that the other side can say what is wrong as well.
            send(stream, &[&greeting(purpose)]).await?;
            return Err(unfit);
        }
        let session = Session { purpose, client_nonce, server_nonce: nonce(&*self.rng) };
        let proof = session.prove(&self.secret, Side::Server);
        send(stream, &[&greeting(purpose), &session.server_nonce, proof.as_ref()]).await?;
        let proof: [u8; PROOF_BYTES] = read(stream).await?;
        session.verify(&self.secret, Side::Client, &proof)?;
        send(stream, &[&[ADMITTED]]).await
    }
}

/// What both sides know once the nonces have crossed.
struct Session {
    purpose: Purpose,
    client_nonce: [u8; NONCE_BYTES],
    server_nonce: [u8; NONCE_BYTES],
}

/// Who proves. In the proof, so that neither can be answered with its own.
#[derive(Clone, Copy)]
enum Side {
    Client,
    Server,
}

impl Session {
    fn prove(&self, secret: &ClusterSecret, side: Side) -> hmac::Tag {
        hmac::sign(secret.key(), &self.claim(side))
    }

    /// Compares in constant time.
    fn verify(
        &self,
        secret: &ClusterSecret,
        side: Side,
        proof: &[u8],
    ) -> Result<(), HandshakeError> {
        let verified = hmac::verify(secret.key(), &self.claim(side), proof);
        verified.map_err(|_| HandshakeError::Secret)
    }

    /// What the proof is of. Every part has a fixed length.
    fn claim(&self, side: Side) -> Vec<u8> {
        let label: &[u8] = match side {
            Side::Client => b"forebay handshake client",
            Side::Server => b"forebay handshake server",
        };
        let fitness = [VERSION, self.purpose.byte()];
        [label, &fitness, &self.client_nonce, &self.server_nonce].concat()
    }
}

/// What the other side says it is.
struct Greeting {
    version: u8,
    purpose: u8,
}

impl Greeting {
    fn check(&self, ours: Purpose) -> Result<(), HandshakeError> {
        if self.version != VERSION {
            return Err(HandshakeError::Version { theirs: self.version });
        }
        if self.purpose != ours.byte() {
            return Err(HandshakeError::Purpose { ours });
        }
        Ok(())
    }
}

impl Purpose {
    const fn byte(self) -> u8 {
        match self {
            Self::Data => b'd',
            Self::Control => b'c',
        }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Data => "data",
            Self::Control => "control",
        })
    }
}

fn nonce(rng: &dyn Rng) -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    for part in nonce.chunks_exact_mut(8) {
        part.copy_from_slice(&rng.next_u64().to_le_bytes());
    }
    nonce
}

fn greeting(purpose: Purpose) -> [u8; GREETING_BYTES] {
    let mut greeting = [0; GREETING_BYTES];
    let (magic, fitness) = greeting.split_at_mut(MAGIC.len());
    magic.copy_from_slice(&MAGIC);
    fitness.copy_from_slice(&[VERSION, purpose.byte()]);
    greeting
}

async fn read_greeting<S>(stream: &mut S) -> Result<Greeting, HandshakeError>
where
    S: AsyncRead + Unpin,
{
    if read(stream).await? != MAGIC {
        return Err(HandshakeError::NotForebay);
    }
    let [version, purpose] = read(stream).await?;
    Ok(Greeting { version, purpose })
}

async fn read<const N: usize, S>(stream: &mut S) -> Result<[u8; N], HandshakeError>
where
    S: AsyncRead + Unpin,
{
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await.map_err(HandshakeError::Broken)?;
    Ok(bytes)
}

async fn send<S>(stream: &mut S, parts: &[&[u8]]) -> Result<(), HandshakeError>
where
    S: AsyncWrite + Unpin,
{
    stream.write_all(&parts.concat()).await.map_err(HandshakeError::Broken)?;
    stream.flush().await.map_err(HandshakeError::Broken)
}

#[cfg(test)]
mod tests;
