//! The bounds that more than one crate has to respect.

use crate::block::{BLOCK_BYTES, PAGE_BYTES};

/// Largest body chunk handed to a connection; a pin on a segment lasts for one chunk.
pub const MAX_CHUNK_BYTES: u64 = 4 << 20;

/// Grain in which a fill hands bytes to its followers and to the store.
pub const FILL_PIECE_BYTES: usize = 256 << 10;

/// Pieces up to this size are read into a buffer, checked, and sent with the header.
pub const SMALL_READ_BYTES: u64 = 64 << 10;

const _: () = assert!(MAX_CHUNK_BYTES <= BLOCK_BYTES);
const _: () = assert!((FILL_PIECE_BYTES as u64).is_multiple_of(PAGE_BYTES));
const _: () = assert!(BLOCK_BYTES.is_multiple_of(FILL_PIECE_BYTES as u64));
