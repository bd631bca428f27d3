//! The bounds of the edge that an operator does not set.

use std::time::Duration;

/// How long a client may take for the head of a request. hyper begins to count when the answer
/// before it has ended, so this is also how long a connection may be idle.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client may take for a TLS handshake.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client may send nothing of a body that somebody waits for.
pub(crate) const BODY_STALL_LIMIT: Duration = Duration::from_secs(30);

/// Headers of a request.
pub(crate) const MAX_HEADERS: usize = 100;

/// Bytes of a request's head. S3 allows 8 KiB of headers; the longest key is 3 KiB escaped.
pub(crate) const MAX_HEAD_BYTES: usize = 32 << 10;

/// Bytes that hyper buffers for a connection in each direction.
pub(crate) const MAX_BUFFER_BYTES: usize = 256 << 10;

const _: () = assert!(MAX_HEAD_BYTES < MAX_BUFFER_BYTES);

/// Object bodies that may be on their way over TLS at once. Each holds a copy of one chunk (4 MiB
/// at most) for as long as its client takes to read it, so this is half a GiB in the worst case.
pub(crate) const MAX_COPIED_BODIES: usize = 128;

/// How long a read over TLS waits for one of those to end.
pub(crate) const COPY_WAIT: Duration = Duration::from_secs(20);
