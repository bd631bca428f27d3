//! The header of an extent: what the data behind it is, and how to know it is unharmed.
//!
//! It names the object version in full, the range, and its own place on its own disk, so an
//! extent that was swapped with another one, or belongs to an older life of the disk, is told
//! from the right one although every checksum in it is good. Data follows at the next 4 KiB.

use std::io;

use forebay_types::{ByteRange, CRC_GRAIN_BYTES};

use crate::limits::{
    ALIGN_BYTES, FORMAT_VERSION, MAX_EXTENT_BYTES, MAX_HEADER_BYTES, MAX_NAME_BYTES, align,
};
use crate::place::{ExtentKey, grains};

const MAGIC: [u8; 8] = *b"FBAYEXT\n";
const FIXED_BYTES: usize = 64;
const CRC_BYTES: usize = 4;

/// A verified header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExtentHeader {
    name: Box<[u8]>,
    range: ByteRange,
    /// CRC32C of each 4 KiB of data; the last one is of what is left.
    crcs: Box<[u32]>,
}

/// Why bytes are not the header, or not the data, that was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Corrupt {
    #[error("no extent header")]
    Magic,
    #[error("unknown extent format")]
    Format,
    #[error("impossible length in the extent header")]
    Length,
    #[error("checksum of the extent header")]
    HeaderCrc,
    #[error("the extent belongs elsewhere")]
    Misplaced,
    #[error("the extent is of another object or range")]
    Other,
    #[error("checksum of the extent's data")]
    DataCrc,
}

impl ExtentHeader {
    pub(crate) fn new(name: &[u8], range: ByteRange, crcs: Vec<u32>) -> Self {
        debug_assert_eq!(crcs.len() as u64, grains(range.len()));
        Self { name: name.into(), range, crcs: crcs.into() }
    }

    /// Bytes of the header of such an extent, padding included.
    pub(crate) fn len_of(name: &[u8], data_bytes: u64) -> u64 {
        let crcs = grains(data_bytes) as usize;
        align((FIXED_BYTES + name.len() + (crcs + 1) * CRC_BYTES) as u64)
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    pub(crate) fn range(&self) -> ByteRange {
        self.range
    }

    /// Bytes of the header on disk: data starts this far behind the extent's place.
    pub(crate) fn len(&self) -> u64 {
        Self::len_of(&self.name, self.range.len())
    }

    /// Bytes that the parsed header takes in memory.
    pub(crate) fn weight(&self) -> u64 {
        (size_of::<Self>() + self.name.len() + self.crcs.len() * CRC_BYTES) as u64
    }

    /// Checks `data`, which starts at grain `first` of the extent.
    pub(crate) fn verify(&self, first: u64, data: &[u8]) -> Result<(), Corrupt> {
        let expected = self.crcs.get(first as usize..).ok_or(Corrupt::Length)?;
        let pieces = data.chunks(CRC_GRAIN_BYTES as usize);
        if pieces.len() > expected.len() {
            return Err(Corrupt::Length);
        }
        for (piece, crc) in pieces.zip(expected) {
            if crc32c::crc32c(piece) != *crc {
                return Err(Corrupt::DataCrc);
            }
        }
        Ok(())
    }

    /// The header as it is written at `key` on `disk`.
    pub(crate) fn encode(&self, disk: u128, key: ExtentKey) -> Vec<u8> {
        let len = self.len();
        let mut out = Vec::with_capacity(len as usize);
        out.extend_from_slice(&MAGIC);
        for word in [FORMAT_VERSION, len as u32, key.0, key.1] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.range.start().to_le_bytes());
        out.extend_from_slice(&self.range.end().to_le_bytes());
        out.extend_from_slice(&disk.to_le_bytes());
        for count in [self.name.len(), self.crcs.len()] {
            out.extend_from_slice(&(count as u32).to_le_bytes());
        }
        debug_assert_eq!(out.len(), FIXED_BYTES);
        out.extend_from_slice(&self.name);
        for crc in &self.crcs {
            out.extend_from_slice(&crc.to_le_bytes());
        }
        out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
        out.resize(len as usize, 0);
        out
    }

    /// Reads and verifies the header at `key` of `disk`. `read(from, len)` answers `None`
    /// where that would mean waiting, and so does this function.
    pub(crate) fn load<E: From<Corrupt>>(
        disk: u128,
        key: ExtentKey,
        mut read: impl FnMut(u64, usize) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Option<Self>, E> {
        let at = u64::from(key.1) * ALIGN_BYTES;
        let Some(mut bytes) = read(at, ALIGN_BYTES as usize)? else { return Ok(None) };
        let len = declared_len(&bytes)?;
        if len > ALIGN_BYTES {
            let Some(rest) = read(at + ALIGN_BYTES, (len - ALIGN_BYTES) as usize)? else {
                return Ok(None);
            };
            bytes.extend_from_slice(&rest);
        }
        Ok(Some(Self::parse(disk, key, &bytes)?))
    }

    fn parse(disk: u128, key: ExtentKey, bytes: &[u8]) -> Result<Self, Corrupt> {
        let (name_bytes, crc_count) = (u32_at(bytes, 56) as usize, u32_at(bytes, 60) as usize);
        let crcs_end = FIXED_BYTES + name_bytes + crc_count * CRC_BYTES;
        if name_bytes > MAX_NAME_BYTES || crcs_end + CRC_BYTES > bytes.len() {
            return Err(Corrupt::Length);
        }
        if crc32c::crc32c(&bytes[..crcs_end]) != u32_at(bytes, crcs_end) {
            return Err(Corrupt::HeaderCrc);
        }
        let found_disk = u128::from_le_bytes(array_at(bytes, 40));
        if (found_disk, u32_at(bytes, 16), u32_at(bytes, 20)) != (disk, key.0, key.1) {
            return Err(Corrupt::Misplaced);
        }
        let (start, end) =
            (u64::from_le_bytes(array_at(bytes, 24)), u64::from_le_bytes(array_at(bytes, 32)));
        let range = ByteRange::new(start, end).ok_or(Corrupt::Length)?;
        if range.len() > MAX_EXTENT_BYTES || grains(range.len()) != crc_count as u64 {
            return Err(Corrupt::Length);
        }
        let (name, crcs) = bytes[FIXED_BYTES..crcs_end].split_at(name_bytes);
        let crcs = crcs.chunks_exact(CRC_BYTES).map(|crc| u32_at(crc, 0)).collect();
        Ok(Self { name: name.into(), range, crcs })
    }
}

/// The length that the first 4 KiB of a header claim, before its checksum can be checked.
fn declared_len(bytes: &[u8]) -> Result<u64, Corrupt> {
    if bytes[..MAGIC.len()] != MAGIC {
        return Err(Corrupt::Magic);
    }
    if u32_at(bytes, 8) != FORMAT_VERSION {
        return Err(Corrupt::Format);
    }
    let len = u64::from(u32_at(bytes, 12));
    let possible =
        (ALIGN_BYTES..=MAX_HEADER_BYTES).contains(&len) && len.is_multiple_of(ALIGN_BYTES);
    if possible { Ok(len) } else { Err(Corrupt::Length) }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

/// CRC32C of each 4 KiB of the bytes that `parts` hold together.
pub(crate) fn crc_table(parts: &[&[u8]]) -> Vec<u32> {
    let total: usize = parts.iter().map(|part| part.len()).sum();
    let mut crcs = Vec::with_capacity(grains(total as u64) as usize);
    let (mut crc, mut filled) = (0, 0);
    for mut part in parts.iter().copied() {
        while !part.is_empty() {
            let (piece, rest) = part.split_at(part.len().min(CRC_GRAIN_BYTES as usize - filled));
            crc = crc32c::crc32c_append(crc, piece);
            filled += piece.len();
            part = rest;
            if filled == CRC_GRAIN_BYTES as usize {
                crcs.push(std::mem::take(&mut crc));
                filled = 0;
            }
        }
    }
    if filled > 0 {
        crcs.push(crc);
    }
    crcs
}

/// What keeps an extent from being read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadFailure {
    /// The disk holds something else than it was given.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// Its segment cannot be opened for lack of descriptors or memory: no page of it was read.
    #[error("segment not opened: {0}")]
    NotOpened(io::Error),
    /// The disk does not answer.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The segment was evicted.
    #[error("segment gone")]
    Gone,
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: u128 = 77;
    const KEY: ExtentKey = (3, 9);

    fn sample() -> (ExtentHeader, Vec<u8>) {
        let data: Vec<u8> = (0..10_000u32).map(|i| (i ^ (i >> 7)) as u8).collect();
        let range = ByteRange::new(65_536, 75_536).unwrap();
        (ExtentHeader::new(b"a name", range, crc_table(&[&data])), data)
    }

    fn load(disk: u128, key: ExtentKey, image: &[u8]) -> Result<Option<ExtentHeader>, Corrupt> {
        let base = u64::from(key.1) * ALIGN_BYTES;
        // On a disk there is always something behind it.
        let image = [image, &vec![0x5a; MAX_HEADER_BYTES as usize]].concat();
        ExtentHeader::load(disk, key, |at, len| {
            Ok(Some(image[(at - base) as usize..][..len].to_vec()))
        })
    }

    #[test]
    fn a_header_comes_back_as_it_was_written() {
        let (header, data) = sample();
        let image = header.encode(DISK, KEY);
        assert_eq!(image.len() as u64, header.len());
        assert_eq!(load(DISK, KEY, &image), Ok(Some(header)));
        let header = load(DISK, KEY, &image).unwrap().unwrap();
        assert_eq!(header.verify(0, &data), Ok(()));
        assert_eq!(header.verify(1, &data[4096..8192]), Ok(()));
        assert_eq!(header.verify(2, &data[8192..]), Ok(()));
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_found() {
        let (header, _) = sample();
        let image = header.encode(DISK, KEY);
        let used = FIXED_BYTES + header.name.len() + (header.crcs.len() + 1) * CRC_BYTES;
        for bit in 0..used * 8 {
            let mut bad = image.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(load(DISK, KEY, &bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_header_in_the_wrong_place_is_refused() {
        let image = sample().0.encode(DISK, KEY);
        assert_eq!(load(DISK, (3, 10), &image), Err(Corrupt::Misplaced));
        assert_eq!(load(DISK, (4, 9), &image), Err(Corrupt::Misplaced));
        assert_eq!(load(DISK + 1, KEY, &image), Err(Corrupt::Misplaced));
    }

    #[test]
    fn changed_moved_and_zeroed_grains_are_found() {
        let (header, data) = sample();
        let mut bad = data.clone();
        bad[9_999] ^= 1;
        assert_eq!(header.verify(0, &bad), Err(Corrupt::DataCrc));
        assert_eq!(header.verify(1, &data[..4096]), Err(Corrupt::DataCrc));
        assert_eq!(header.verify(0, &[0; 4096]), Err(Corrupt::DataCrc));
        assert_eq!(header.verify(2, &[0; 8192]), Err(Corrupt::Length));
    }

    #[test]
    fn checksums_do_not_depend_on_how_the_bytes_are_cut() {
        let (_, data) = sample();
        let whole = crc_table(&[&data]);
        for cut in [0, 1, 4095, 4096, 4097, 9_999] {
            let (one, two) = data.split_at(cut);
            assert_eq!(crc_table(&[one, &[], two]), whole, "cut at {cut}");
        }
    }
}
