//! While the origin answers, reads succeed whatever becomes of the cache.

use std::path::Path;
use std::process::Command;

use forebay_testkit::PatternSet;
use forebay_tests::{BUCKET, Setup, World, read};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn with_the_origin_down_what_is_cached_is_served_and_the_rest_fails_clearly() {
    let set = PatternSet::new(BUCKET, "k-", 3, 500_000);
    let mut world = World::start(Setup::default(), &[&set]).await.unwrap();
    for index in 0..2 {
        read(&world.reader().unwrap(), &set.key(index), None).await.unwrap();
    }
    world.origin.set_reachable(false);
    for _ in 0..2 {
        for index in 0..2 {
            read(&world.reader().unwrap(), &set.key(index), None).await.unwrap();
        }
        let answer = world.reader().unwrap().get(BUCKET, &set.key(2), None).await.unwrap();
        assert_eq!(answer.status, 503, "what is not cached, with the origin down");
        // A restart while the origin is down changes nothing.
        world.kill_and_restart().await.unwrap();
    }
    world.origin.set_reachable(true);
    read(&world.reader().unwrap(), &set.key(2), None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_twice_the_cache_fails_no_read_and_stays_within_capacity() {
    let set = PatternSet::new(BUCKET, "k-", 64, 8 * MIB);
    let setup = Setup { capacity: "256MiB", ..Setup::default() };
    let world = World::start(setup, &[&set]).await.unwrap();
    let mut most = 0;
    for _ in 0..2 {
        for index in 0..set.count {
            read(&world.reader().unwrap(), &set.key(index), None).await.unwrap();
            most = most.max(bytes_on_disk(&world.cache_dir()));
        }
    }
    eprintln!("512 MiB through a cache of 256 MiB, twice: at most {} MiB on disk", most / MIB);
    assert!(most <= 256 * MIB, "{most} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_somebody_else_fills_fails_no_read() {
    let disk = Tmpfs::mount("192m");
    let set = PatternSet::new(BUCKET, "k-", 60, 4 * MIB);
    let cache_dir = Some(disk.path().join("cache"));
    let setup = Setup { capacity: "160MiB", cache_dir, ..Setup::default() };
    let world = World::start(setup, &[&set]).await.unwrap();
    read(&world.reader().unwrap(), &set.key(0), None).await.unwrap();
    let hog = disk.path().join("hog");
    // Writes until there is no space left; that it fails is the point.
    let _ = std::fs::write(&hog, vec![1u8; 192 << 20]);
    for index in 0..set.count {
        read(&world.reader().unwrap(), &set.key(index), None).await.unwrap();
    }
    std::fs::remove_file(hog).unwrap();
    for index in 0..set.count {
        read(&world.reader().unwrap(), &set.key(index), None).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_with_read_and_write_errors_fails_no_read() {
    let set = PatternSet::new(BUCKET, "k-", 40, 2 * MIB);
    let world = World::start(Setup::default(), &[&set]).await.unwrap();
    for index in 0..20 {
        read(&world.reader().unwrap(), &set.key(index), None).await.unwrap();
    }
    let calls = "pread64,preadv,preadv2,pwrite64,pwritev,pwritev2,sendfile";
    let mut strace = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={calls}")])
        .args(["-e", "inject=pwrite64,pwritev,pwritev2:error=EIO:when=3+5"])
        .args(["-e", "inject=pread64,preadv:error=EIO:when=2+3"])
        .args(["-p", &world.worker.process.pid().to_string()])
        .spawn()
        .expect("strace is installed by `cargo xtask test`");
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let mut failed = Vec::new();
    for index in 0..set.count {
        if let Err(error) = read(&world.reader().unwrap(), &set.key(index), None).await {
            failed.push(error.to_string());
        }
    }
    strace.kill().unwrap();
    strace.wait().unwrap();
    assert!(failed.is_empty(), "{failed:?}");
}

/// Space that the files really take.
fn bytes_on_disk(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_on_disk(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    });
    sizes.sum()
}

/// A small file system of its own. Needs root, as CI has.
struct Tmpfs(TempDir);

impl Tmpfs {
    fn mount(size: &str) -> Self {
        let folder = TempDir::with_prefix("forebay-tmpfs-").unwrap();
        let options = format!("size={size}");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "none"])
            .arg(folder.path())
            .status()
            .expect("mount");
        assert!(status.success(), "mounting a tmpfs needs root");
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Lazily: a worker that is still ending may have files open.
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}
