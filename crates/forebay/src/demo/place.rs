//! Where the demo keeps its cache: on a disk, so that what it shows is not memory's speed.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use tempfile::TempDir;

use crate::output::human_bytes;

/// `TMPFS_MAGIC` of `linux/magic.h`.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// A new directory below `wanted`, or below the first usual place that is not in memory. It
/// goes when it is dropped.
pub(super) fn make(wanted: Option<&Path>) -> anyhow::Result<TempDir> {
    let parent = wanted.map_or_else(usual, |dir| Ok(dir.to_owned()))?;
    std::fs::create_dir_all(&parent)
        .and_then(|()| tempfile::Builder::new().prefix("forebay-demo-").tempdir_in(&parent))
        .with_context(|| {
            format!("make a directory below {}: name a writable one with --dir", parent.display())
        })
}

/// Refuses a place that the set would not fit into.
pub(super) fn check_room(dir: &Path, set_bytes: u64) -> anyhow::Result<()> {
    let volume = rustix::fs::statvfs(dir).context("ask for the room on the cache's volume")?;
    let free_bytes = volume.f_bavail.saturating_mul(volume.f_frsize);
    let needed_bytes = set_bytes + set_bytes / 4;
    ensure!(
        free_bytes >= needed_bytes,
        "{} has {} free and the demo needs {}: name another place with --dir, or read less with \
         --objects and --shards",
        dir.display(),
        human_bytes(free_bytes),
        human_bytes(needed_bytes)
    );
    Ok(())
}

fn usual() -> anyhow::Result<PathBuf> {
    let here = std::env::current_dir().context("find the current directory")?;
    let places = [std::env::temp_dir(), PathBuf::from("/var/tmp"), here];
    let on_disk = places.iter().find(|place| is_on_disk(place));
    Ok(on_disk.unwrap_or(&places[0]).clone())
}

fn is_on_disk(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type as u64 != TMPFS_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_from_disk() {
        assert!(!is_on_disk("/dev/shm".as_ref()) || !Path::new("/dev/shm").exists());
        assert!(!is_on_disk("/no/such/place".as_ref()));
    }

    #[test]
    fn a_place_that_is_too_small_is_refused_with_the_way_out() {
        let error = check_room("/tmp".as_ref(), 1 << 60).unwrap_err().to_string();
        assert!(error.contains("--dir"), "{error}");
        assert!(check_room("/tmp".as_ref(), 1).is_ok());
    }

    #[test]
    fn the_directory_goes_when_the_demo_does() {
        let parent = tempfile::tempdir().unwrap();
        let made = make(Some(&parent.path().join("new"))).unwrap();
        let path = made.path().to_owned();
        assert!(path.is_dir());
        drop(made);
        assert!(!path.exists());
    }
}
