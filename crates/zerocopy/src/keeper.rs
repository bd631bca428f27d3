//! Who answers for the bytes of a window.
//!
//! `sendfile` sends whatever is in the page cache, and reads it there from the disk if it is
//! not. So before each piece the sender asks whether the piece is resident and the keeper
//! whether what is resident is right; if not, the keeper has to bring it back. What makes bytes
//! right is the keeper's knowledge alone.

use std::io;
use std::ops::Range;
use std::pin::Pin;

/// Knows whether the pages of a window hold the right bytes.
pub trait Keeper: Send + Sync + 'static {
    /// Whether pages of `range` that were resident a moment ago hold the right bytes: so they
    /// do not while somebody brings unchecked ones in, or where some were found to be wrong.
    /// `proof` is what the last [`Keeper::recheck`] of these pages gave, if there was one.
    ///
    /// `range` lies in a token that is alive. Asked on a reactor thread before every piece that
    /// is sent, so it waits for nothing.
    fn vouches(&self, range: &Range<u64>, proof: Option<Proof>) -> bool;

    /// Brings the pages of `range`, which lies in a token that is alive, back into the page
    /// cache and checks them, on threads that may wait for a disk.
    ///
    /// An error means that the bytes cannot be had: the connection is cut.
    fn recheck(&self, range: Range<u64>) -> Recheck;
}

/// Pages being brought back and checked. It may be dropped at any time.
pub type Recheck = Pin<Box<dyn Future<Output = io::Result<Proof>> + Send>>;

/// What a keeper knew when it had checked pages. It means something to that keeper alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof(pub u64);
