//! The folder of things made once and used by every checkout: RocksDB, libclang, a venv.
//!
//! A thing lives in a directory whose name says what it was made from, so a changed recipe
//! is another directory and nothing here is ever updated in place. Whoever makes one holds
//! the folder's lock, which the kernel releases if that process dies.

use std::env;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result, While};

pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    pub(crate) fn open() -> Result<Self> {
        let root =
            location(|name| env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute()))
                .ok_or_else(|| Failure::new("set HOME, or FOREBAY_CACHE to an absolute path"))?;
        fs::create_dir_all(&root).while_doing(|| format!("create {}", root.display()))?;
        Ok(Self { root })
    }

    /// The directory `name`, made by `make` if it is not there. `make` gets an empty directory
    /// that takes its final name only when `make` has succeeded.
    pub(crate) fn get_or_make(
        &self,
        name: &str,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let place = self.root.join(name);
        if place.is_dir() {
            return Ok(place);
        }
        let _lock = self.lock()?;
        if place.is_dir() {
            return Ok(place);
        }
        let unfinished = self.empty_dir("unfinished")?;
        make(&unfinished)?;
        fs::rename(&unfinished, &place).while_doing(|| format!("create {}", place.display()))?;
        Ok(place)
    }

    /// Like [`Cache::get_or_make`] for what cannot be moved once it is made: made at its final
    /// path, and counted as there only when its last file, the mark, is.
    pub(crate) fn get_or_make_in_place(
        &self,
        name: &str,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let place = self.root.join(name);
        let mark = place.join(".complete");
        if mark.is_file() {
            return Ok(place);
        }
        let _lock = self.lock()?;
        if !mark.is_file() {
            make(&self.empty_dir(name)?)?;
            File::create(&mark).while_doing(|| format!("create {}", mark.display()))?;
        }
        Ok(place)
    }

    /// A scratch directory; the caller holds the lock and removes it.
    pub(crate) fn empty_dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.root.join(name);
        if dir.exists() {
            fs::remove_dir_all(&dir).while_doing(|| format!("clear {}", dir.display()))?;
        }
        fs::create_dir(&dir).while_doing(|| format!("create {}", dir.display()))?;
        Ok(dir)
    }

    fn lock(&self) -> Result<File> {
        let path = self.root.join("lock");
        let file = File::create(&path).while_doing(|| format!("open {}", path.display()))?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            println!("waiting: another xtask is building into {}", self.root.display());
        }
        file.lock().while_doing(|| format!("lock {}", path.display()))?;
        Ok(file)
    }
}

fn location(absolute: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    absolute("FOREBAY_CACHE")
        .or_else(|| Some(absolute("XDG_CACHE_HOME")?.join("forebay")))
        .or_else(|| Some(absolute("HOME")?.join(".cache/forebay")))
}

/// A name for a recipe, the same on every machine and for every Rust release (64-bit FNV-1a).
pub(crate) fn fingerprint(recipe: &str) -> String {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    format!("{:016x}", recipe.bytes().fold(OFFSET_BASIS, mix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_the_most_specific_variable_says() {
        let with = |set: &'static [&str]| {
            location(move |name| set.contains(&name).then(|| PathBuf::from("/").join(name)))
        };
        let all = &["FOREBAY_CACHE", "XDG_CACHE_HOME", "HOME"];
        assert_eq!(with(all), Some("/FOREBAY_CACHE".into()));
        assert_eq!(with(&all[1..]), Some("/XDG_CACHE_HOME/forebay".into()));
        assert_eq!(with(&all[2..]), Some("/HOME/.cache/forebay".into()));
        assert_eq!(with(&[]), None);
    }

    #[test]
    fn what_could_not_be_made_is_not_there_afterwards() {
        let root = env::temp_dir().join(format!("forebay-xtask-cache-{}", std::process::id()));
        fs::create_dir_all(&root).expect("temp dir");
        let cache = Cache { root: root.clone() };

        let failed = cache.get_or_make("thing", |dir| {
            fs::write(dir.join("half"), "x").expect("write");
            Err(Failure::new("disk full"))
        });
        assert!(failed.is_err() && !root.join("thing").exists());

        let made = cache.get_or_make("thing", |dir| {
            assert!(!dir.join("half").exists(), "the next try starts empty");
            Ok(())
        });
        assert_eq!(made.expect("made"), root.join("thing"));
        let again = cache.get_or_make("thing", |_| Err(Failure::new("made twice")));
        assert!(again.is_ok());
        fs::remove_dir_all(root).expect("clean up");
    }

    #[test]
    fn fingerprints_are_fnv_1a() {
        assert_eq!(fingerprint(""), "cbf29ce484222325");
        assert_eq!(fingerprint("foobar"), "85944171f73967e8");
    }
}
