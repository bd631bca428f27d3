//! The data: files of pattern objects, which every server gets its copy from.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use forebay_bench::Object;
use forebay_testkit::{Pattern, PatternSet};

/// The bucket, which is a folder to those that know none.
pub(crate) const BUCKET: &str = "bench";
const CHUNK_BYTES: usize = 1 << 20;

/// Files below a folder, and what they are called.
#[derive(Debug)]
pub(crate) struct Set {
    root: PathBuf,
    objects: Vec<Object>,
}

impl Set {
    /// Writes 1 x 1 GiB, 8 x 64 MiB, 2,000 x 100 KiB.
    pub(crate) fn write(root: &Path) -> Result<Self> {
        let folder = root.join(BUCKET);
        std::fs::create_dir_all(&folder).context("make a folder for the data")?;
        let mut objects = Vec::new();
        for set in [
            PatternSet::new(BUCKET, "large-", 1, 1 << 30),
            PatternSet::new(BUCKET, "shard-", 8, 64 << 20),
            PatternSet::new(BUCKET, "image-", 2000, 100 << 10),
        ] {
            for index in 0..set.count {
                let (key, size_bytes) = (set.key(index), set.size_bytes(index));
                write_object(&folder.join(&key), &key, size_bytes).context("write the data")?;
                objects.push(Object::new(&key, size_bytes));
            }
        }
        Ok(Self { root: root.to_owned(), objects })
    }

    /// The folder that has the bucket's.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// Bytes of all objects.
    pub(crate) fn bytes(&self) -> u64 {
        self.objects.iter().map(|object| object.size_bytes).sum()
    }
}

fn write_object(path: &Path, key: &str, size_bytes: u64) -> std::io::Result<()> {
    let pattern = Pattern::new(BUCKET, key, 1);
    let mut file = File::create(path)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = 0;
    while at < size_bytes {
        let len = CHUNK_BYTES.min((size_bytes - at) as usize);
        pattern.fill(at, &mut chunk[..len]);
        file.write_all(&chunk[..len])?;
        at += len as u64;
    }
    Ok(())
}
