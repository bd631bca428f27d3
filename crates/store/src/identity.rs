//! Who a disk is: the `FOREBAY` file, and the lock that keeps a second store out.
//!
//! Written once, before anything else, and never changed. Without it nothing below the
//! directory can be read: it holds the secret that block names are hashed with.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::Path;

use forebay_rt::Rng;
use serde::{Deserialize, Serialize};

use crate::error::{StoreError, io_at};
use crate::limits::FORMAT_VERSION;
use crate::place::{HashKey, SECRET_WORDS};

const IDENTITY_FILE: &str = "FOREBAY";
const LOCK_FILE: &str = "LOCK";
/// What only a store makes: found without an identity, they are somebody's data.
const OURS: [&str; 2] = ["segments", "index"];

/// A disk that this process has to itself.
#[derive(Debug)]
pub(crate) struct DiskLock(#[expect(dead_code, reason = "locks by being open")] File);

/// What is fixed for a disk's life.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) disk: u128,
    pub(crate) hash_key: HashKey,
}

#[derive(Deserialize)]
struct AnyFormat {
    format: u64,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    format: u32,
    disk_id: String,
    hash_key: [u64; SECRET_WORDS],
}

/// Locks the directory and reads its identity, or gives it one.
pub(crate) fn claim(path: &Path, rng: &dyn Rng) -> Result<(Identity, DiskLock), StoreError> {
    std::fs::create_dir_all(path).map_err(io_at(path, "create the directory"))?;
    let lock = lock(path)?;
    let identity = match read(path)? {
        Some(identity) => identity,
        None => create(path, rng)?,
    };
    Ok((identity, lock))
}

/// The identity found in a directory, if there is one.
pub(crate) fn read(path: &Path) -> Result<Option<Identity>, StoreError> {
    let bytes = match std::fs::read(path.join(IDENTITY_FILE)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(io_at(path, "read its FOREBAY file"))?,
    };
    let not_ours = |reason: String| StoreError::NotOurs { path: path.to_owned(), reason };
    let AnyFormat { format } =
        serde_json::from_slice(&bytes).map_err(|error| not_ours(format!("FOREBAY: {error}")))?;
    if format != u64::from(FORMAT_VERSION) {
        let path = path.to_owned();
        return Err(StoreError::UnknownFormat { path, found: format, known: FORMAT_VERSION });
    }
    let stored: Stored =
        serde_json::from_slice(&bytes).map_err(|error| not_ours(format!("FOREBAY: {error}")))?;
    let disk = u128::from_str_radix(&stored.disk_id, 16)
        .map_err(|error| not_ours(format!("FOREBAY: disk_id: {error}")))?;
    Ok(Some(Identity { disk, hash_key: HashKey::new(&stored.hash_key) }))
}

fn lock(path: &Path) -> Result<DiskLock, StoreError> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path.join(LOCK_FILE))
        .map_err(io_at(path, "open its LOCK file"))?;
    match file.try_lock() {
        Ok(()) => Ok(DiskLock(file)),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(io_at(path, "lock its LOCK file")(error)),
    }
}

fn create(path: &Path, rng: &dyn Rng) -> Result<Identity, StoreError> {
    if let Some(found) = OURS.iter().find(|name| path.join(name).exists()) {
        let reason = format!("it has {found}/ but no FOREBAY file");
        return Err(StoreError::NotOurs { path: path.to_owned(), reason });
    }
    let disk = (u128::from(rng.next_u64()) << 64) | u128::from(rng.next_u64());
    let hash_key = std::array::from_fn(|_| rng.next_u64());
    let stored = Stored { format: FORMAT_VERSION, disk_id: format!("{disk:032x}"), hash_key };
    write(path, &stored).map_err(io_at(path, "write its FOREBAY file"))?;
    Ok(Identity { disk, hash_key: HashKey::new(&hash_key) })
}

/// Complete or absent, whenever the machine stops.
fn write(path: &Path, stored: &Stored) -> std::io::Result<()> {
    let unfinished = path.join("FOREBAY.new");
    let mut file = File::create(&unfinished)?;
    file.write_all(&serde_json::to_vec(stored)?)?;
    file.sync_all()?;
    std::fs::rename(unfinished, path.join(IDENTITY_FILE))?;
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use forebay_rt::SeededRng;

    use super::*;

    #[test]
    fn a_disk_keeps_its_identity_and_lets_one_store_in() {
        let dir = tempfile::tempdir().unwrap();
        let (first, lock) = claim(dir.path(), &SeededRng::new(1)).unwrap();
        let second = claim(dir.path(), &SeededRng::new(2));
        assert!(matches!(second, Err(StoreError::InUse { .. })));
        drop(lock);
        let (again, _lock) = claim(dir.path(), &SeededRng::new(3)).unwrap();
        assert_eq!(again.disk, first.disk);
        assert_eq!(again.hash_key.name(b"n"), first.hash_key.name(b"n"));
    }

    #[test]
    fn directories_of_another_format_or_owner_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(IDENTITY_FILE), br#"{"format": 9, "new": []}"#).unwrap();
        let refused = claim(dir.path(), &SeededRng::new(1)).map(|_| ()).unwrap_err();
        assert!(matches!(refused, StoreError::UnknownFormat { found: 9, known: 1, .. }));
        std::fs::write(dir.path().join(IDENTITY_FILE), b"\0\0").unwrap();
        let refused = claim(dir.path(), &SeededRng::new(1)).map(|_| ()).unwrap_err();
        assert!(matches!(refused, StoreError::NotOurs { .. }));
        std::fs::remove_file(dir.path().join(IDENTITY_FILE)).unwrap();
        std::fs::create_dir(dir.path().join("segments")).unwrap();
        let refused = claim(dir.path(), &SeededRng::new(1)).map(|_| ()).unwrap_err();
        assert!(matches!(refused, StoreError::NotOurs { .. }));
    }
}
