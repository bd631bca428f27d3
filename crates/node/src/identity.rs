//! Who this worker is: an id that lives on its disks, so that it survives a new name, a new
//! address and the move of a disk to another machine.

use std::io;
use std::path::{Path, PathBuf};

use forebay_rt::Rng;
use forebay_types::WorkerId;

const FILE: &str = "worker.id";

/// Why it is not known who this worker is.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file cannot be read or written.
    #[error("worker identity {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file does not hold an identity.
    #[error(
        "worker identity {}: {found:?} is not sixteen hexadecimal digits: remove the file, and \
         the worker gets a new identity",
        path.display()
    )]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What it holds.
        found: String,
    },
    /// The disks come from two workers.
    #[error(
        "the disks belong to two workers: {} says {one}, {} says {other}: remove the {FILE} of \
         the one that moved here",
        one_path.display(), other_path.display()
    )]
    Mixed {
        /// One disk's.
        one: WorkerId,
        /// Where.
        one_path: PathBuf,
        /// Another disk's.
        other: WorkerId,
        /// Where.
        other_path: PathBuf,
    },
}

/// Reads the identity from the disks, or draws one; afterwards each disk has it.
pub(crate) fn establish(disks: &[&Path], rng: &dyn Rng) -> Result<WorkerId, IdentityError> {
    let mut known: Option<(WorkerId, PathBuf)> = None;
    for disk in disks {
        let path = disk.join(FILE);
        let Some(id) = read(&path)? else { continue };
        match &known {
            Some((one, one_path)) if *one != id => {
                let (one, one_path) = (*one, one_path.clone());
                return Err(IdentityError::Mixed { one, one_path, other: id, other_path: path });
            }
            _ => known = Some((id, path)),
        }
    }
    let id = known.map_or_else(|| WorkerId(rng.next_u64()), |(id, _)| id);
    for disk in disks {
        write(disk, id)?;
    }
    Ok(id)
}

fn read(path: &Path) -> Result<Option<WorkerId>, IdentityError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(IdentityError::File { path: path.into(), source }),
    };
    let found = text.trim();
    let invalid = || IdentityError::Invalid { path: path.into(), found: found.into() };
    WorkerId::parse(found).map(Some).ok_or_else(invalid)
}

/// Whole or not at all: a torn identity would be refused at the next start.
fn write(disk: &Path, id: WorkerId) -> Result<(), IdentityError> {
    let path = disk.join(FILE);
    let new = disk.join(format!("{FILE}.new"));
    if read(&path)? == Some(id) {
        return Ok(());
    }
    let written = std::fs::create_dir_all(disk)
        .and_then(|()| std::fs::write(&new, format!("{id}\n")))
        .and_then(|()| std::fs::rename(&new, &path));
    written.map_err(|source| IdentityError::File { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_rt::SeededRng;

    #[test]
    fn an_identity_is_drawn_once_and_spreads_to_new_disks() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let rng = SeededRng::new(1);
        let first = establish(&[one.path()], &rng).unwrap();
        assert_eq!(establish(&[one.path()], &rng).unwrap(), first);
        assert_eq!(establish(&[two.path(), one.path()], &rng).unwrap(), first);
        assert_eq!(establish(&[two.path()], &rng).unwrap(), first);
    }

    #[test]
    fn disks_of_two_workers_and_garbage_are_refused_by_name() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let rng = SeededRng::new(1);
        establish(&[one.path()], &rng).unwrap();
        establish(&[two.path()], &rng).unwrap();
        let mixed = establish(&[one.path(), two.path()], &rng).unwrap_err();
        assert!(mixed.to_string().contains("remove the worker.id"), "{mixed}");
        std::fs::write(one.path().join(FILE), "me").unwrap();
        let invalid = establish(&[one.path()], &rng).unwrap_err();
        assert!(matches!(invalid, IdentityError::Invalid { .. }), "{invalid}");
    }
}
