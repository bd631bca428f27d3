//! A TCP proxy that is a bad network: slow, narrow, cut, silent.
//!
//! Stands between two real processes where `tc netem` cannot. Each direction has its own
//! [`Link`]; links change while connections run. Bytes are never changed.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use forebay_rt::{SharedClock, Shutdown, SystemClock, spawn};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use crate::pace::Pace;
use crate::socket;

/// Pieces on their way in one direction of one connection: what a slow link holds back.
const MAX_PIECES_IN_FLIGHT: usize = 256;
/// Largest piece.
const MAX_PIECE_BYTES: usize = 64 << 10;
/// A reset throws away what the kernel has not sent yet; this long it gets to send it.
const DRAIN: Duration = Duration::from_millis(20);
/// How long accepting rests after an error.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// One direction of every connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Link {
    /// How long each byte is on its way.
    pub latency: Duration,
    /// How many bytes a second; `None` is as many as go.
    pub bytes_per_second: Option<u64>,
    /// Where it ends.
    pub cut: Option<Cut>,
}

/// The end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// After this many bytes of the connection in this direction; at once where more have
    /// already passed.
    pub after_bytes: u64,
    /// In which manner.
    pub ending: Ending,
}

/// How a link ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Both sides see the connection closed in good order.
    Close,
    /// Both sides see a reset.
    Reset,
    /// Nothing more gets through in this direction, and nobody is told: half-open. Goes on
    /// where it stopped when the cut is taken away.
    Stall,
}

/// Both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weather {
    /// From the client to the upstream.
    pub up: Link,
    /// From the upstream to the client.
    pub down: Link,
}

impl Weather {
    /// Cuts the upstream's answers like this.
    pub fn cut_down(after_bytes: u64, ending: Ending) -> Self {
        let cut = Some(Cut { after_bytes, ending });
        Self { down: Link { cut, ..Link::default() }, ..Self::default() }
    }
}

/// What a proxy did: evidence that its faults fired.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProxyCounts {
    /// Connections accepted.
    pub connections: u64,
    /// Bytes passed on to the upstream.
    pub up_bytes: u64,
    /// Bytes passed on to clients.
    pub down_bytes: u64,
    /// Connections closed by a cut.
    pub closed: u64,
    /// Connections reset by a cut.
    pub reset: u64,
    /// Times that a direction fell silent.
    pub stalled: u64,
}

/// A proxy that runs until it is dropped.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    tally: Arc<Tally>,
    shutdown: Shutdown,
}

#[derive(Debug, Default)]
struct Tally {
    connections: AtomicU64,
    up_bytes: AtomicU64,
    down_bytes: AtomicU64,
    closed: AtomicU64,
    reset: AtomicU64,
    stalled: AtomicU64,
}

impl FaultProxy {
    /// Starts a proxy to `upstream` on a free loopback port, in fair weather.
    pub async fn start(upstream: SocketAddr) -> io::Result<Self> {
        let listener = socket::listen(([127, 0, 0, 1], 0).into()).await?;
        let address = listener.local_addr()?;
        let weather = watch::Sender::new(Weather::default());
        let (tally, shutdown) = (Arc::new(Tally::default()), Shutdown::new());
        let relay = Relay {
            upstream,
            clock: Arc::new(SystemClock),
            weather: weather.subscribe(),
            tally: Arc::clone(&tally),
        };
        spawn(accept(listener, relay, shutdown.clone()));
        Ok(Self { address, weather, tally, shutdown })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as an HTTP endpoint.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Changes both links, of connections that are open as well.
    pub fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }

    /// What it did so far.
    pub fn counts(&self) -> ProxyCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Tally { connections, up_bytes, down_bytes, closed, reset, stalled } = &*self.tally;
        ProxyCounts {
            connections: read(connections),
            up_bytes: read(up_bytes),
            down_bytes: read(down_bytes),
            closed: read(closed),
            reset: read(reset),
            stalled: read(stalled),
        }
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shutdown.begin();
    }
}

/// What every connection needs.
#[derive(Debug, Clone)]
struct Relay {
    upstream: SocketAddr,
    clock: SharedClock,
    weather: watch::Receiver<Weather>,
    tally: Arc<Tally>,
}

#[derive(Debug, Clone, Copy)]
enum Direction {
    Up,
    Down,
}

/// Why a direction stopped before its source did.
#[derive(Debug)]
enum Broken {
    Cut(Ending),
    Failed,
}

/// What is on its way through a link.
#[derive(Debug)]
enum Piece {
    Bytes { due: Instant, bytes: Bytes },
    Cut { due: Instant, ending: Ending },
}

async fn accept(listener: TcpListener, relay: Relay, shutdown: Shutdown) {
    loop {
        let accepted = tokio::select! {
            () = shutdown.begun() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((client, _)) = accepted else {
            relay.clock.sleep(ACCEPT_PAUSE).await;
            continue;
        };
        relay.tally.connections.fetch_add(1, Ordering::Relaxed);
        let (relay, shutdown) = (relay.clone(), shutdown.clone());
        spawn(async move {
            tokio::select! {
                () = shutdown.begun() => {}
                () = relay.run(client) => {}
            }
        });
    }
}

impl Relay {
    /// Carries one connection to its end. A reset follows only after the kernel had a moment
    /// to send what was passed on before.
    async fn run(&self, mut client: TcpStream) {
        let Ok(mut server) = socket::connect(self.upstream).await else { return };
        if client.set_nodelay(true).is_err() {
            return;
        }
        let outcome = {
            let (from_client, to_client) = client.split();
            let (from_server, to_server) = server.split();
            tokio::try_join!(
                self.direction(Direction::Up, from_client, to_server),
                self.direction(Direction::Down, from_server, to_client),
            )
        };
        match outcome {
            Ok(_) | Err(Broken::Failed | Broken::Cut(Ending::Stall)) => {}
            Err(Broken::Cut(Ending::Close)) => {
                self.tally.closed.fetch_add(1, Ordering::Relaxed);
            }
            Err(Broken::Cut(Ending::Reset)) => {
                self.clock.sleep(DRAIN).await;
                // Where it fails, the peer is gone and needs no reset.
                let _ = (client.set_zero_linger(), server.set_zero_linger());
                self.tally.reset.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Passes bytes on until the source ends, and then ends the sink in the same way.
    async fn direction(
        &self,
        direction: Direction,
        source: ReadHalf<'_>,
        sink: WriteHalf<'_>,
    ) -> Result<(), Broken> {
        let (send, receive) = mpsc::channel(MAX_PIECES_IN_FLIGHT);
        tokio::try_join!(
            self.take_in(direction, source, send),
            self.pass_on(direction, sink, receive),
        )?;
        Ok(())
    }

    /// Reads, up to the cut.
    async fn take_in(
        &self,
        direction: Direction,
        mut source: ReadHalf<'_>,
        pieces: mpsc::Sender<Piece>,
    ) -> Result<(), Broken> {
        let mut weather = self.weather.clone();
        let mut taken_bytes = 0;
        let mut buffer = BytesMut::new();
        loop {
            let link = direction.link(&weather.borrow_and_update());
            let left = self.left_before_cut(&link, taken_bytes, &pieces).await?;
            if left == 0 {
                self.until_no_longer_silent(direction, taken_bytes, &mut weather).await?;
                continue;
            }
            buffer.reserve(MAX_PIECE_BYTES);
            let mut limited = (&mut source).take(left.min(MAX_PIECE_BYTES as u64));
            let read = tokio::select! {
                read = limited.read_buf(&mut buffer) => read.map_err(|_| Broken::Failed)?,
                changed = weather.changed() => {
                    changed.map_err(|_| Broken::Failed)?;
                    continue;
                }
            };
            if read == 0 {
                return Ok(());
            }
            taken_bytes += read as u64;
            let due = self.clock.now() + link.latency;
            let piece = Piece::Bytes { due, bytes: buffer.split().freeze() };
            pieces.send(piece).await.map_err(|_| Broken::Failed)?;
        }
    }

    /// Bytes that may still be taken; 0 where the link has fallen silent. A cut that is
    /// reached follows the bytes before it through the link; one that has long been passed
    /// comes at once.
    async fn left_before_cut(
        &self,
        link: &Link,
        taken_bytes: u64,
        pieces: &mpsc::Sender<Piece>,
    ) -> Result<u64, Broken> {
        let Some(Cut { after_bytes, ending }) = link.cut else { return Ok(u64::MAX) };
        let left = after_bytes.saturating_sub(taken_bytes);
        if left > 0 || ending == Ending::Stall {
            return Ok(left);
        }
        if taken_bytes > after_bytes {
            return Err(Broken::Cut(ending));
        }
        let cut = Piece::Cut { due: self.clock.now() + link.latency, ending };
        pieces.send(cut).await.map_err(|_| Broken::Failed)?;
        std::future::pending().await
    }

    async fn until_no_longer_silent(
        &self,
        direction: Direction,
        taken_bytes: u64,
        weather: &mut watch::Receiver<Weather>,
    ) -> Result<(), Broken> {
        self.tally.stalled.fetch_add(1, Ordering::Relaxed);
        let is_over = |weather: &Weather| {
            direction
                .link(weather)
                .cut
                .is_none_or(|cut| cut.ending != Ending::Stall || cut.after_bytes > taken_bytes)
        };
        weather.wait_for(is_over).await.map(drop).map_err(|_| Broken::Failed)
    }

    async fn pass_on(
        &self,
        direction: Direction,
        mut sink: WriteHalf<'_>,
        mut pieces: mpsc::Receiver<Piece>,
    ) -> Result<(), Broken> {
        let mut pace = Pace::new(self.clock.now(), None);
        while let Some(piece) = pieces.recv().await {
            let (Piece::Bytes { due, .. } | Piece::Cut { due, .. }) = piece;
            let wait = due.saturating_duration_since(self.clock.now());
            if !wait.is_zero() {
                self.clock.sleep(wait).await;
            }
            match piece {
                Piece::Cut { ending, .. } => return Err(Broken::Cut(ending)),
                Piece::Bytes { bytes, .. } => {
                    self.write(direction, &mut pace, &mut sink, bytes).await?;
                }
            }
        }
        sink.shutdown().await.map_err(|_| Broken::Failed)
    }

    async fn write(
        &self,
        direction: Direction,
        pace: &mut Pace,
        sink: &mut WriteHalf<'_>,
        mut bytes: Bytes,
    ) -> Result<(), Broken> {
        while !bytes.is_empty() {
            pace.set_rate(direction.link(&self.weather.borrow()).bytes_per_second);
            let part = bytes.split_to(bytes.len().min(pace.piece_bytes() as usize));
            pace.release(self.clock.as_ref(), part.len() as u64).await;
            direction.count(&self.tally).fetch_add(part.len() as u64, Ordering::Relaxed);
            sink.write_all(&part).await.map_err(|_| Broken::Failed)?;
        }
        Ok(())
    }
}

impl Direction {
    fn link(self, weather: &Weather) -> Link {
        match self {
            Self::Up => weather.up,
            Self::Down => weather.down,
        }
    }

    fn count(self, tally: &Tally) -> &AtomicU64 {
        match self {
            Self::Up => &tally.up_bytes,
            Self::Down => &tally.down_bytes,
        }
    }
}
