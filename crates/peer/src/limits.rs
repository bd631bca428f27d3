//! Every bound of this crate. What an operator or a test may want otherwise is a field.

use std::time::Duration;

use forebay_wire::limits::HEADER_BYTES_MAX;

/// What the data port takes on.
#[derive(Debug, Clone)]
pub struct ServerLimits {
    /// Connections of peers at once. Further ones are closed as soon as they are admitted.
    pub connections: usize,
    /// Connections at once that have not proved themselves yet. Beyond it, the one that has
    /// taken longest is closed: a peer needs two round trips, a stranger may take its time.
    pub handshakes: usize,
    /// How long a connection may take to prove itself.
    pub handshake: Duration,
    /// How long a connection may be idle, and how long the head of an ask may take. Longer than
    /// [`PeerLimits::idle`], so that it is the asker who closes.
    pub idle: Duration,
    /// How long a peer may take none of the bytes that are queued for it. Longer than
    /// [`PeerLimits::unread`], so that it is the asker who gives up.
    pub stall: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 16 << 10,
            handshakes: 256,
            handshake: Duration::from_secs(2),
            idle: Duration::from_secs(60),
            stall: forebay_zerocopy::STALL_LIMIT,
        }
    }
}

/// How other workers are asked. Counts are for each of them.
#[derive(Debug, Clone)]
pub struct PeerLimits {
    /// Connections to a worker, idle ones included, and the one for signs of life not.
    pub connections: usize,
    /// Requests that may wait for one of these.
    pub waiting: usize,
    /// How long they wait.
    pub wait: Duration,
    /// How long a TCP connection may take.
    pub connect: Duration,
    /// How long the handshake on it may take.
    pub handshake: Duration,
    /// Silence of a worker that somebody waits for, until it is asked for a sign of life.
    pub silence: Duration,
    /// How long that sign may take, with a new connection if that is needed.
    pub ping: Duration,
    /// Between two questions to a worker that is down whether it is back.
    pub probe_pause: Duration,
    /// The same, when it has been down for long.
    pub probe_pause_max: Duration,
    /// How long an idle connection is kept.
    pub idle: Duration,
    /// How long a body may go unread before its connection is given to requests that wait.
    pub take_after: Duration,
    /// How long a body may go unread before its connection is closed, whoever waits.
    pub unread: Duration,
    /// How often all this is looked after.
    pub tick: Duration,
    /// Hints that may wait to be sent.
    pub warms: usize,
    /// Between two reports that a worker knows a newer epoch.
    pub news_pause: Duration,
}

impl Default for PeerLimits {
    fn default() -> Self {
        Self {
            connections: 128,
            waiting: 1024,
            wait: Duration::from_secs(10),
            connect: Duration::from_millis(500),
            handshake: Duration::from_millis(500),
            silence: Duration::from_millis(500),
            ping: Duration::from_millis(1000),
            probe_pause: Duration::from_millis(250),
            probe_pause_max: Duration::from_secs(2),
            idle: Duration::from_secs(30),
            take_after: Duration::from_secs(1),
            unread: Duration::from_secs(30),
            tick: Duration::from_millis(100),
            warms: 128,
            news_pause: Duration::from_millis(250),
        }
    }
}

/// Headers of an ask or of an answer.
pub(crate) const HEADERS_MAX: usize = 32;

/// Bytes of the head of an ask.
pub(crate) const HEAD_BYTES_MAX: usize = 64 << 10;

/// Bytes that the server buffers for a connection in each direction.
pub(crate) const SERVER_BUFFER_BYTES: usize = 256 << 10;

/// Bytes of a body that are read at once, and so the largest frame in memory. Measured: 64 to
/// 128 KiB cost a quarter less CPU than a growing buffer, whose pages are new each time.
pub(crate) const CLIENT_BUFFER_BYTES: usize = 128 << 10;

/// Bytes that are read at once while the head of an answer is awaited: enough for one, and little
/// of the body, which need not be read at all.
pub(crate) const HEAD_READ_BYTES: usize = 16 << 10;

/// Bytes that must still be to come for a pipe to be worth its calls. Measured, PERFORMANCE.md
/// section 7: 13 % less at 100 KiB, more at 4 KiB.
pub(crate) const PIPE_FROM_BYTES: u64 = 64 << 10;

/// How long a peer may take to send the body of an ask.
pub(crate) const ASK_BODY_TIME_MAX: Duration = Duration::from_secs(10);

/// Times that an ask is sent: again where its connection turns out to be one that the peer has
/// closed, which after a restart all of them are, or was taken before the answer was there.
pub(crate) const ASK_TRIES: usize = 3;

/// Bytes of a view.
pub(crate) const VIEW_BYTES_MAX: u64 = 16 << 20;

/// A worker that has been down this many times longer than the probe's pause is asked less often.
pub(crate) const PROBE_PATIENCE: u32 = 16;

/// Reports of newer epochs that may wait to be heard.
pub(crate) const NEWS_WAITING: usize = 64;

const _: () = assert!(HEADER_BYTES_MAX < HEAD_BYTES_MAX);
const _: () = assert!(HEAD_BYTES_MAX < SERVER_BUFFER_BYTES);
