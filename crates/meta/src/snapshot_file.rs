//! The state as a file: what `forebay meta snapshot` writes and `forebay meta restore` reads.
//!
//! ```text
//! "FBMETA\n" version | crc32c of the rest, 4 bytes little-endian | the state
//! ```

use crate::format::{self, FormatError};
use crate::limits::SNAPSHOT_BYTES_MAX;
use crate::state::State;

const MAGIC: [u8; 8] = *b"FBMETA\n\x01";

/// A file that holds no state.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotFileError {
    /// Check the name.
    #[error("not a snapshot of ours")]
    NotOurs,
    /// Take another copy.
    #[error("the snapshot is damaged or not complete")]
    Damaged,
    /// Use the release that wrote it, or a newer one.
    #[error("the snapshot's state: {0}")]
    Format(#[from] FormatError),
}

/// The bytes of the file.
pub(crate) fn encode(state: &State) -> Result<Vec<u8>, FormatError> {
    let body = format::to_bytes(state)?;
    Ok([&MAGIC[..], &crc32c::crc32c(&body).to_le_bytes(), &body].concat())
}

/// Reads what [`encode`] wrote.
pub(crate) fn decode(bytes: &[u8]) -> Result<State, SnapshotFileError> {
    let body = bytes.strip_prefix(&MAGIC).ok_or(SnapshotFileError::NotOurs)?;
    let (crc, body) = body.split_first_chunk().ok_or(SnapshotFileError::Damaged)?;
    if body.len() > SNAPSHOT_BYTES_MAX || u32::from_le_bytes(*crc) != crc32c::crc32c(body) {
        return Err(SnapshotFileError::Damaged);
    }
    Ok(format::from_bytes(body)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Command;

    #[test]
    fn a_snapshot_file_is_whole_or_an_error() {
        let mut state = State::default();
        state.apply(Command::SetRules { toml: "a = 1".into() }).unwrap();
        let bytes = encode(&state).unwrap();
        assert_eq!(decode(&bytes).unwrap(), state);
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err(), "cut to {len}");
        }
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 0x10;
            assert!(decode(&wrong).is_err(), "byte {at} changed");
        }
    }
}
