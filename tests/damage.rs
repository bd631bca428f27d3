//! Damage to the files of a cache, done past the page cache, as a failing disk would do it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use forebay_types::CRC_GRAIN_BYTES;
use rustix::fs::{Advice, OFlags, fadvise};

const GRAIN: usize = CRC_GRAIN_BYTES as usize;

/// What is done to one piece of a segment file, besides swapping it with another.
#[derive(Debug, Clone, Copy)]
enum Damage {
    FlipBit,
    Zero,
}

/// Damages `pieces` distinct pieces of the segment files of a cache that no worker has open,
/// spread evenly, the kinds in turn. Returns how many were changed.
///
/// The pieces are read and written with `O_DIRECT`, after every page of the files has left the
/// page cache, which is checked: otherwise only the page cache would be damaged.
pub fn damage(cache_dir: &Path, pieces: usize) -> Result<usize> {
    let files = segments(cache_dir)?;
    let mut places = Vec::new();
    for (index, path) in files.iter().enumerate() {
        drop_from_page_cache(path)?;
        anyhow::ensure!(!is_resident(path)?, "{} stays in the page cache", path.display());
        let used = used_pieces(path)?;
        places.extend(used.into_iter().map(|piece| (index, piece)));
    }
    let step = (places.len() / pieces.max(1)).max(1);
    let chosen: Vec<_> = places.into_iter().step_by(step).take(pieces).collect();
    let open: Vec<File> = files.iter().map(|path| open_direct(path)).collect::<Result<_>>()?;
    let mut changed = 0;
    for (turn, pair) in chosen.chunks(2).enumerate() {
        changed += match (turn % 3, pair) {
            (0, [a, b]) => swap(&open[a.0], a.1, &open[b.0], b.1)?,
            (kind, pair) => {
                for (file, piece) in pair {
                    let kind = if kind == 1 { Damage::Zero } else { Damage::FlipBit };
                    change(&open[*file], *piece, kind)?;
                }
                pair.len()
            }
        };
    }
    Ok(changed)
}

/// Whether any page of the file is in the page cache, as `fincore` of util-linux says.
pub fn is_resident(path: &Path) -> Result<bool> {
    let mut fincore = Command::new("fincore");
    fincore.args(["--bytes", "--noheadings", "--output", "RES"]).arg(path);
    let output = fincore.output().context("run fincore")?;
    anyhow::ensure!(output.status.success(), "fincore: {}", output.status);
    let resident = String::from_utf8_lossy(&output.stdout);
    Ok(resident.trim().parse::<u64>().with_context(|| format!("fincore said {resident:?}"))? > 0)
}

fn segments(cache_dir: &Path) -> Result<Vec<PathBuf>> {
    let folder = cache_dir.join("segments");
    let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut files: Vec<_> = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.sort();
    Ok(files)
}

fn drop_from_page_cache(path: &Path) -> Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    fadvise(&file, 0, None, Advice::DontNeed).context("drop a segment from the page cache")
}

fn open_direct(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(OFlags::DIRECT.bits() as i32);
    options.open(path).with_context(|| format!("open {} with O_DIRECT", path.display()))
}

/// Pieces that hold something: what was never written is full of zeros.
fn used_pieces(path: &Path) -> Result<Vec<u64>> {
    let file = open_direct(path)?;
    let length = file.metadata()?.len();
    let mut used = Vec::new();
    let mut buffer = Aligned::new(256 * GRAIN);
    let mut at = 0;
    while at < length {
        let got = file.read_at(buffer.bytes(), at)?;
        if got == 0 {
            break;
        }
        for (index, piece) in buffer.bytes()[..got].chunks(GRAIN).enumerate() {
            // The first piece is the segment's own header, which recovery reads before any other.
            let number = at / CRC_GRAIN_BYTES + index as u64;
            if number > 0 && piece.iter().any(|byte| *byte != 0) {
                used.push(number);
            }
        }
        at += got as u64;
    }
    Ok(used)
}

fn change(file: &File, piece: u64, kind: Damage) -> Result<()> {
    let mut buffer = read_piece(file, piece)?;
    match kind {
        Damage::FlipBit => buffer.bytes()[piece as usize % GRAIN] ^= 1 << (piece % 8),
        Damage::Zero => buffer.bytes().fill(0),
    }
    write_piece(file, piece, &mut buffer)
}

fn swap(one: &File, one_piece: u64, two: &File, two_piece: u64) -> Result<usize> {
    let mut first = read_piece(one, one_piece)?;
    let mut second = read_piece(two, two_piece)?;
    write_piece(one, one_piece, &mut second)?;
    write_piece(two, two_piece, &mut first)?;
    Ok(2)
}

fn read_piece(file: &File, piece: u64) -> Result<Aligned> {
    let mut buffer = Aligned::new(GRAIN);
    file.read_exact_at(buffer.bytes(), piece * CRC_GRAIN_BYTES)?;
    Ok(buffer)
}

fn write_piece(file: &File, piece: u64, buffer: &mut Aligned) -> Result<()> {
    Ok(file.write_all_at(buffer.bytes(), piece * CRC_GRAIN_BYTES)?)
}

/// Memory that begins at a multiple of 4 KiB.
struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    fn new(length: usize) -> Self {
        let memory = vec![0; length + GRAIN];
        let start = memory.as_ptr().align_offset(GRAIN);
        Self { memory, start, length }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}
