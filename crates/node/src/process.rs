//! What the process says of itself: build, start, file handles, memory.

use std::fs;
use std::time::UNIX_EPOCH;

use forebay_rt::Clock;
use forebay_telemetry::metrics::{describe_gauge, gauge};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Records what does not change while the process lives.
pub(crate) fn record_start(clock: &dyn Clock) {
    describe();
    gauge!("forebay_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    let since_epoch = clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    gauge!("forebay_start_time_seconds").set(since_epoch.as_secs_f64());
}

/// Records what changes; called before each scrape. What `/proc` does not tell is left out.
pub(crate) fn record_now() {
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        gauge!("forebay_open_fds").set(open.count() as f64);
    }
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        gauge!("forebay_max_fds").set(limit as f64);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    // File pages are the page cache's, and are given back under pressure; anonymous ones kill.
    for (field, kind) in [("RssAnon:", "anon"), ("RssFile:", "file"), ("RssShmem:", "shmem")] {
        if let Some(bytes) = field_bytes(&status, field) {
            gauge!("forebay_resident_bytes", "kind" => kind).set(bytes as f64);
        }
    }
}

/// What the page says of each metric.
fn describe() {
    describe_gauge!("forebay_build_info", "1, with the version of the binary.");
    describe_gauge!("forebay_max_fds", "File handles that the process may have open.");
    describe_gauge!("forebay_open_fds", "File handles that the process has open.");
    describe_gauge!(
        "forebay_resident_bytes",
        "Bytes of memory that the process has resident, by kind."
    );
    describe_gauge!("forebay_start_time_seconds", "Seconds from 1970 to the start of the process.");
}

/// Raises the soft limit of file handles to the hard one: connections and segments need more
/// than the usual 1024. Where that is not allowed the worker runs with what it has.
pub(crate) fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, current = ?limit.current, "raise the limit of open files");
    }
}

fn field_bytes(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_this_process_is_found() {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        assert!(field_bytes(&status, "RssAnon:").unwrap() > 0);
        assert_eq!(field_bytes(&status, "NoSuch:"), None);
    }

    #[test]
    fn the_soft_limit_of_files_becomes_the_hard_one() {
        raise_file_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
