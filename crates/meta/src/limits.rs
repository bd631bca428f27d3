//! Every bound of a voter. The bounds of the workers' side are in `worker::limits`.

use std::time::Duration;

/// Workers that one cluster may have, whatever their state.
pub const WORKERS_MAX: usize = 4096;

/// Longest address or zone that a worker may register with.
pub const NAME_BYTES_MAX: usize = 255;

/// Longest rules, in the form in which the operator wrote them.
pub const RULES_BYTES_MAX: usize = 512 << 10;

/// Workers told of in one command; the others come with the next.
pub const REPORT_WORKERS_MAX: usize = 512;

/// Voters and learners of a group together.
pub const VOTERS_MAX: usize = 9;

/// Views that one voter streams at once, one for each worker or client that follows the ring.
pub const WATCHES_MAX: usize = 4096;

/// Connections to the control port at once: a few more than there may be watches.
pub const CONNECTIONS_MAX: usize = WATCHES_MAX + 512;

/// Requests that one connection may have under way.
pub const STREAMS_MAX: u32 = 64;

/// Longest message on the control port, a view and a frame of Raft included.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Largest state that is sent to another voter or restored from.
pub const SNAPSHOT_BYTES_MAX: usize = 64 << 20;

/// How a state is cut for sending.
pub const CHUNK_BYTES: usize = 256 << 10;

/// Chunks of a snapshot that wait for the network.
pub const CHUNKS_QUEUED_MAX: usize = 4;

/// Log that is sent to another voter at once.
pub const LOG_READ_BYTES_MAX: usize = 1 << 20;

/// Entries that are sent to another voter at once.
pub const PAYLOAD_ENTRIES_MAX: u64 = 300;

/// For sending a snapshot and having it installed.
pub const SNAPSHOT_SEND_TIME_MAX: Duration = Duration::from_secs(60);

/// For a command to be committed and applied.
pub const PROPOSE_TIME_MAX: Duration = Duration::from_secs(5);

/// For a change of the group: a new voter has to catch up first.
pub const MEMBERSHIP_TIME_MAX: Duration = Duration::from_secs(60);

/// A change of the group that stands still for so long is finished by the leader.
pub const HALF_DONE_PATIENCE: Duration = Duration::from_secs(2);

/// For another voter's answer to who it is.
pub const HELLO_TIME_MAX: Duration = Duration::from_secs(1);

/// Pause between two rounds of asking who is there.
pub const FORM_PAUSE: Duration = Duration::from_millis(250);

/// A voter that stands outside a group for so long says so, and again each time it has passed.
pub const OUTSIDE_PATIENCE: Duration = Duration::from_secs(10);

/// Pause before another voter that cannot be reached is tried again.
pub const UNREACHABLE_PAUSE: Duration = Duration::from_millis(250);

/// From one look at Raft's figures to the next.
pub const METRICS_INTERVAL: Duration = Duration::from_secs(1);

/// For connections to finish what they are at when a voter is shut down.
pub const SHUTDOWN_TIME_MAX: Duration = Duration::from_secs(2);

// A command must fit into what is sent at once, next to one that just did.
const _: () = assert!(LOG_READ_BYTES_MAX + RULES_BYTES_MAX < MESSAGE_BYTES_MAX);
const _: () = assert!(REPORT_WORKERS_MAX * (3 * NAME_BYTES_MAX + 64) < MESSAGE_BYTES_MAX);
