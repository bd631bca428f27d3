//! Every bound of this crate.

use std::time::Duration;

/// Longest message in a header, as it stands there.
pub const HEADER_BYTES_MAX: usize = 48 << 10;

/// Longest message in a body: [`FORGET_NAMES_MAX`](crate::peer::FORGET_NAMES_MAX) of the longest
/// names.
pub const BODY_BYTES_MAX: usize = 3 << 20;

/// Longest text in a [`Failure`](crate::peer::Failure); what is longer is cut.
pub const FAILURE_TEXT_BYTES_MAX: usize = 4 << 10;

/// Shortest cluster secret.
pub const SECRET_BYTES_MIN: usize = 32;

/// One side's patience with the other in a handshake, from the first byte to the last.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(3);

/// Handshakes at once on one control port; beyond them the oldest one is dropped.
pub const HANDSHAKES_MAX: usize = 256;

/// Pause after the system refused to accept a connection, which it does when it has no more
/// file handles.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Until the name of a control port must be known.
pub const LOOKUP_TIME_MAX: Duration = Duration::from_secs(2);

/// Until a TCP connection to one address of a control port must stand. Below the second after
/// which the kernel sends a lost SYN again: a new try finds a cable that is back sooner than that
/// does.
pub const CONNECT_TIME_MAX: Duration = Duration::from_millis(500);

/// Silence after which a control connection is asked for a sign of life.
pub const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(2);

/// Until that sign must have come.
pub const KEEP_ALIVE_TIME_MAX: Duration = Duration::from_secs(3);
