//! The disk below a cache: how fast it reads, past the page cache, and emptying the page cache of
//! what a folder holds, so that the next read of it is a cold one.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_rt::{Clock, Rng, SeededRng, SystemClock};
use rustix::fs::{Advice, OFlags, fadvise};
use serde::Serialize;

use crate::error::BenchError;
use crate::figures::Spread;
use crate::limits::MAX_DISK_FILES;

/// `O_DIRECT` wants addresses, offsets and lengths that are multiples of this.
const GRAIN_BYTES: usize = 4096;
/// Files too small for the largest read say little.
const MIN_FILE_BYTES: u64 = 1 << 20;
/// What is measured: bytes of a read, reads at a time, random or one after the other.
const READS: [(&str, usize, usize, bool); 3] = [
    ("1 MiB in order x 4", 1 << 20, 4, false),
    ("1 MiB random x 4", 1 << 20, 4, true),
    ("4 KiB random x 16", 4 << 10, 16, true),
];

/// The figures of one kind of read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiskRow {
    /// The kind.
    pub what: String,
    /// 10^9 bytes a second.
    pub gb_per_s: Spread,
    /// Reads a second.
    pub reads_per_s: Spread,
}

/// How fast the files below a folder are read past the page cache.
pub fn read_speed(dir: &Path, rounds: usize, round: Duration) -> Result<Vec<DiskRow>, BenchError> {
    let files = Files::open(dir)?;
    let mut speeds = [const { Vec::new() }; READS.len()];
    for turn in 0..rounds {
        for (kind, speeds) in READS.iter().zip(&mut speeds) {
            speeds.push(files.reads_per_s(*kind, round, turn as u64)?);
        }
    }
    let rows = READS.iter().zip(&speeds).map(|((what, read_bytes, ..), speeds)| {
        let reads_per_s = Spread::of(speeds.iter().copied()).ok_or(BenchError::Thread)?;
        let bytes = speeds.iter().map(|reads| reads * *read_bytes as f64 / 1e9);
        let gb_per_s = Spread::of(bytes).ok_or(BenchError::Thread)?;
        Ok(DiskRow { what: (*what).to_owned(), gb_per_s, reads_per_s })
    });
    rows.collect()
}

/// Empties the page cache of all files below a folder. What a process maps stays.
pub fn drop_page_cache(dir: &Path) -> Result<(), BenchError> {
    for (path, _) in files_below(dir, 1)? {
        let dropped = File::open(&path).and_then(|file| {
            file.sync_data()?;
            fadvise(&file, 0, None, Advice::DontNeed).map_err(io::Error::from)
        });
        match dropped {
            // Deleted since the folder was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other.map_err(|source| BenchError::File { path, source })?,
        }
    }
    Ok(())
}

struct Files(Vec<(File, u64)>);

impl Files {
    fn open(dir: &Path) -> Result<Self, BenchError> {
        let open = |(path, bytes): (PathBuf, u64)| {
            let mut options = OpenOptions::new();
            options.read(true).custom_flags(OFlags::DIRECT.bits() as i32);
            let file = options.open(&path).map_err(|source| BenchError::File { path, source })?;
            Ok((file, bytes))
        };
        let files = files_below(dir, MIN_FILE_BYTES)?;
        let files: Vec<_> = files.into_iter().map(open).collect::<Result<_, _>>()?;
        if files.is_empty() {
            let text = format!("no file of 1 MiB or more below {}: fill the cache", dir.display());
            return Err(BenchError::NothingToRead(text));
        }
        Ok(Self(files))
    }

    fn reads_per_s(
        &self,
        (_, read_bytes, at_a_time, is_random): (&str, usize, usize, bool),
        round: Duration,
        seed: u64,
    ) -> Result<f64, BenchError> {
        let begun = SystemClock.now();
        let until = begun + round;
        let reader = |number: usize| {
            let rng = is_random.then(|| SeededRng::new(seed << 20 | number as u64));
            self.read_until(read_bytes, (number, at_a_time), rng.as_ref(), until)
        };
        let reads: Vec<_> = std::thread::scope(|scope| {
            let handles = (0..at_a_time).map(|number| scope.spawn(move || reader(number)));
            let handles: Vec<_> = handles.collect();
            handles.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
        });
        let mut sum = 0;
        for count in reads {
            let failed = |source| BenchError::File { path: "a file of the cache".into(), source };
            sum += count.map_err(|_| BenchError::Thread)?.map_err(failed)?;
        }
        Ok(sum as f64 / SystemClock.now().duration_since(begun).as_secs_f64())
    }

    /// Reads until it is time, at least once; `number` of `of` readers.
    fn read_until(
        &self,
        read_bytes: usize,
        (number, of): (usize, usize),
        rng: Option<&SeededRng>,
        until: std::time::Instant,
    ) -> io::Result<u64> {
        let mut memory = vec![0; read_bytes + GRAIN_BYTES];
        let aligned = memory.as_ptr().align_offset(GRAIN_BYTES);
        let buffer = &mut memory[aligned..aligned + read_bytes];
        let mut reads = 0;
        let mut turn = number as u64;
        loop {
            let (file, bytes) = &self.0[match rng {
                Some(rng) => rng.next_u64() % self.0.len() as u64,
                None => turn / self.pieces(read_bytes) % self.0.len() as u64,
            } as usize];
            let pieces = bytes / read_bytes as u64;
            let piece = rng.map_or(turn, Rng::next_u64) % pieces;
            file.read_exact_at(buffer, piece * read_bytes as u64)?;
            reads += 1;
            turn += of as u64;
            if SystemClock.now() >= until {
                return Ok(reads);
            }
        }
    }

    /// Pieces that are read of one file before the next, in order.
    fn pieces(&self, read_bytes: usize) -> u64 {
        let least = self.0.iter().map(|(_, bytes)| *bytes).min().unwrap_or(MIN_FILE_BYTES);
        (least / read_bytes as u64).max(1)
    }
}

fn files_below(dir: &Path, min_bytes: u64) -> Result<Vec<(PathBuf, u64)>, BenchError> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        let failed = |source| BenchError::File { path: dir.clone(), source };
        for entry in std::fs::read_dir(&dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                dirs.push(entry.path());
            } else if kind.is_file() && found.len() < MAX_DISK_FILES {
                let Ok(metadata) = entry.metadata() else { continue };
                found.push((entry.path(), metadata.len()));
            }
        }
    }
    found.retain(|(_, bytes)| *bytes >= min_bytes);
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_data_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("small"), "x").unwrap();
        let error = read_speed(dir.path(), 1, Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains(&dir.path().display().to_string()), "{error}");
        let error = drop_page_cache(&dir.path().join("none")).unwrap_err();
        assert!(error.to_string().contains("none"), "{error}");
        drop_page_cache(dir.path()).unwrap();
    }

    #[test]
    fn files_are_found_in_folders_below() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("segments")).unwrap();
        let path = dir.path().join("segments/1");
        std::fs::write(&path, vec![1; 5000]).unwrap();
        assert_eq!(files_below(dir.path(), 5000).unwrap(), [(path, 5000)]);
        assert_eq!(files_below(dir.path(), 5001).unwrap(), []);
    }
}
