//! Every bound of the client.

use std::time::Duration;

use forebay_rt::Backoff;

/// How often the ring is asked for; each wait is between half and one and a half of this.
pub(crate) const RING_POLL: Duration = Duration::from_secs(3);
/// Least time between two askings, however many reads fail.
pub(crate) const RING_POLL_GAP: Duration = Duration::from_millis(200);
/// How long a worker may take to tell the ring.
pub(crate) const RING_TIMEOUT: Duration = Duration::from_secs(2);
/// Workers that one poll asks, one after another, until one answers.
pub(crate) const RING_TRIES: usize = 3;
/// Workers believed dead that one poll looks at, all at once.
pub(crate) const RING_PROBES: usize = 8;
/// Largest ring that is read: some 40,000 members.
pub(crate) const RING_BYTES: usize = 4 << 20;
/// Most virtual nodes of all members: four times 1,000 workers of 500, some 60 MiB.
pub(crate) const RING_VIRTUAL_NODES: u64 = 2_000_000;

/// How long a connection may take to be made.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a worker may take to begin its answer, and then between two pieces of it.
pub(crate) const WORKER_PATIENCE: Duration = Duration::from_secs(5);
/// The same for the origin, after which nobody else is left to be asked.
pub(crate) const ORIGIN_PATIENCE: Duration = Duration::from_secs(30);
/// Connections per server that wait for a next request, and how long.
pub(crate) const IDLE_CONNECTIONS: usize = 32;
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// Workers asked besides the owners, of those that live and of those believed dead.
pub(crate) const OTHERS_ASKED: usize = 4;
/// Waits between rounds over all servers that can be asked; a body that goes on begins anew.
pub(crate) const ROUNDS: Backoff =
    Backoff { base: Duration::from_millis(200), cap: Duration::from_secs(2), tries: 5 };

/// Blocks of one read that are fetched beyond the one being handed out.
pub(crate) const BLOCKS_AHEAD: usize = 4;
/// The same over all reads of a client: 256 MiB. Without room, a read goes on block by block.
pub(crate) const BLOCKS_AHEAD_OF_ALL: usize = 32;

/// Most of an error answer that is read for its code.
pub(crate) const ERROR_BYTES: usize = 64 << 10;
