//! What the store counts. Handles are bound once per disk; a verb each at the call site.

use std::io;
use std::path::Path;
use std::time::Duration;

use forebay_telemetry::metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};

use crate::health::DiskState;

/// The metrics of one disk.
pub(crate) struct DiskMetrics {
    disk: String,
    capacity: Gauge,
    used: Gauge,
    states: [Gauge; DiskState::ALL.len()],
    read: Histogram,
    write: Histogram,
    evicted: Counter,
    eviction_age: Histogram,
    no_room: Counter,
    busy: Counter,
}

/// Who found that a checksum does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Where {
    /// A reader.
    Read,
    /// Eviction, while it carried an extent over.
    Carry,
    /// A connection, when pages had left memory before they were sent.
    Send,
}

impl DiskMetrics {
    pub(crate) fn new(path: &Path) -> Self {
        describe();
        let disk = path.display().to_string();
        let state = |state: DiskState| gauge!("forebay_disk_state", "disk" => disk.clone(), "state" => state.as_str());
        Self {
            capacity: gauge!("forebay_disk_capacity_bytes", "disk" => disk.clone()),
            used: gauge!("forebay_disk_used_bytes", "disk" => disk.clone()),
            states: DiskState::ALL.map(state),
            read: histogram!("forebay_disk_read_seconds", "disk" => disk.clone()),
            write: histogram!("forebay_disk_write_seconds", "disk" => disk.clone()),
            evicted: counter!(
                "forebay_evicted_bytes_total", "disk" => disk.clone(), "reason" => "capacity"
            ),
            eviction_age: histogram!("forebay_eviction_age_seconds", "disk" => disk.clone()),
            no_room: rejected(&disk, "no_room"),
            busy: rejected(&disk, "busy"),
            disk,
        }
    }

    pub(crate) fn show(&self, capacity_bytes: u64, used_bytes: u64, state: DiskState) {
        self.capacity.set(capacity_bytes as f64);
        self.used.set(used_bytes as f64);
        for (gauge, one) in self.states.iter().zip(DiskState::ALL) {
            gauge.set(f64::from(u8::from(one == state)));
        }
    }

    pub(crate) fn read_took(&self, time: Duration) {
        self.read.record(time);
    }

    pub(crate) fn write_took(&self, time: Duration) {
        self.write.record(time);
    }

    pub(crate) fn evicted(&self, bytes: u64, age: Duration) {
        self.evicted.increment(bytes);
        self.eviction_age.record(age);
    }

    pub(crate) fn rejected_for_room(&self) {
        self.no_room.increment(1);
    }

    pub(crate) fn rejected_as_busy(&self) {
        self.busy.increment(1);
    }

    pub(crate) fn failed(&self, op: &'static str, error: &io::Error) {
        let errno = error.raw_os_error().map_or_else(|| "other".into(), |code| code.to_string());
        self.count_error(op, errno);
    }

    pub(crate) fn index_failed(&self, op: &'static str) {
        self.count_error(op, "index".into());
    }

    pub(crate) fn checksum_failed(&self, found: Where) {
        let found = match found {
            Where::Read => "read",
            Where::Carry => "carry",
            Where::Send => "send",
        };
        let disk = self.disk.clone();
        counter!("forebay_checksum_failures_total", "disk" => disk, "where" => found).increment(1);
    }

    fn count_error(&self, op: &'static str, errno: String) {
        let disk = self.disk.clone();
        counter!("forebay_disk_errors_total", "disk" => disk, "op" => op, "errno" => errno)
            .increment(1);
    }
}

/// What the page says of each metric.
fn describe() {
    describe_counter!(
        "forebay_admission_rejected_total",
        "Writes to a disk that did not happen, by reason."
    );
    describe_counter!(
        "forebay_checksum_failures_total",
        "Stored extents that were damaged and dropped, by where that was found."
    );
    describe_gauge!("forebay_disk_capacity_bytes", "Bytes that the cache may take on a disk.");
    describe_counter!("forebay_disk_errors_total", "Errors of a disk, by operation and number.");
    describe_histogram!("forebay_disk_read_seconds", "Seconds that a read took at the disk.");
    describe_gauge!("forebay_disk_state", "1 for the state that a disk is in.");
    describe_gauge!("forebay_disk_used_bytes", "Bytes that the cache takes on a disk.");
    describe_histogram!("forebay_disk_write_seconds", "Seconds that a write took at the disk.");
    describe_counter!("forebay_evicted_bytes_total", "Bytes that made room for others.");
    describe_histogram!(
        "forebay_eviction_age_seconds",
        "Seconds since what is evicted was stored."
    );
}

fn rejected(disk: &str, reason: &'static str) -> Counter {
    counter!("forebay_admission_rejected_total", "disk" => disk.to_owned(), "reason" => reason)
}
