//! Every bound of a load.

use std::time::Duration;

/// What one read from a socket brings at most.
pub const BUFFER_BYTES: usize = 256 << 10;
/// Headers of an answer.
pub const MAX_HEADERS: usize = 64;
/// How long a round may go on after its time, for the answers that are still under way.
pub const LAST_ANSWERS_LIMIT: Duration = Duration::from_secs(60);
/// How long a connection may take to be made.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Failed reads of one connection in one round, before the round is given up.
pub const MAX_FAILURES: u64 = 100;
/// Most threads of a load.
pub const MAX_THREADS: usize = 256;
/// Most rounds of a comparison.
pub const MAX_ROUNDS: usize = 1000;
/// Bytes of the objects that a workload reads.
pub const SET_MAX_BYTES: u64 = 2 << 30;
/// Objects that are listed; more are not looked at.
pub const MAX_LISTED: usize = 20_000;
/// Versions that a pattern object may have had for its bytes to be recognised.
pub const MAX_VERSIONS: u64 = 10_000;
/// How long is waited before a set that is to be warm is read again, while something of it is
/// still no hit: what was read is stored a little later.
pub const WARM_PAUSES_MS: [u64; 8] = [50, 100, 200, 400, 800, 1600, 3200, 6400];
/// Connections that read a set before it is measured, and how much each asks for at a time.
pub const WARM_CONNECTIONS: usize = 8;
/// What a warming read asks for at a time.
pub const WARM_READ_BYTES: u64 = 8 << 20;
/// How long one warming pass may take.
pub const WARM_LIMIT: Duration = Duration::from_secs(3600);
/// Files of a folder that a disk is measured with.
pub const MAX_DISK_FILES: usize = 10_000;
