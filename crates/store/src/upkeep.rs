//! What a disk does by itself: making room, measuring, probing after failures.
//!
//! One task a disk, woken when room is short or something failed, and once a second. It holds
//! the disk only while it works, so that dropping the store ends it.

use std::fs::OpenOptions;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use forebay_rt::{Busy, spawn_blocking, timeout};

use crate::disk::Disk;
use crate::evict::Room;
use crate::identity;
use crate::limits::{ALIGN_BYTES, CEILING_TIME, PIN_GRACE, UPKEEP_INTERVAL};
use crate::sys::{self, Advice};

const PROBE_FILE: &str = "PROBE";

/// Looks after a disk until it closes or is dropped.
pub(crate) async fn run(disk: Weak<Disk>, _busy: Busy) {
    loop {
        let Some(disk) = disk.upgrade() else { return };
        if disk.closing.has_begun() {
            return;
        }
        let room = Arc::clone(&disk).look_after().await;
        let (wake, clock) = (Arc::clone(&disk.wake), Arc::clone(&disk.clock));
        let closing = disk.closing.clone();
        drop(disk);
        let pause = async {
            match room {
                // Readers decide; whoever waits for room would only make this loop spin.
                Room::Pinned => clock.sleep(PIN_GRACE).await,
                Room::Settled => drop(timeout(&*clock, UPKEEP_INTERVAL, wake.notified()).await),
            }
        };
        tokio::select! {
            () = pause => {}
            () = closing.begun() => return,
        }
    }
}

impl Disk {
    async fn look_after(self: Arc<Self>) -> Room {
        let worked = spawn_blocking(move || {
            self.measure();
            if self.health.probe_is_due() {
                self.probe();
            }
            let room = if self.health.can_read() { self.make_room() } else { Room::Settled };
            self.show();
            room
        });
        worked.await.unwrap_or(Room::Settled)
    }

    /// Learns how large the index has become, and whether the volume may have room again.
    pub(crate) fn measure(&self) {
        // Half of it again for compaction, which writes anew before it deletes.
        let index_bytes = self.persist.bytes_on_disk() / 2 * 3;
        self.space.set_index(index_bytes + self.plan.index_headroom_bytes());
        let mut full_since = self.full_since.lock();
        if full_since.is_some_and(|at| self.clock.now().duration_since(at) >= CEILING_TIME) {
            *full_since = None;
            self.space.lift_ceiling();
        }
    }

    /// Tries whether the disk does its work again.
    fn probe(&self) {
        self.health.note_probe();
        if let Err(error) = self.probe_files() {
            self.record_io("probe", &error);
            return;
        }
        if self.probe_index() && self.health.probe_succeeded() {
            self.unlink_failed.store(false, Ordering::Release);
            tracing::info!(disk = %self.path.display(), "disk is healthy again");
        }
    }

    /// Writes and reads a few bytes past the page cache, on what must still be the same disk.
    fn probe_files(&self) -> io::Result<()> {
        let identity = identity::read(&self.path).map_err(io::Error::other)?;
        if identity.is_none_or(|identity| identity.disk != self.id) {
            return Err(io::Error::other("another disk, or none, is mounted here"));
        }
        let path = self.path.join(PROBE_FILE);
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let sent = self.id.to_le_bytes().repeat(ALIGN_BYTES as usize / 16);
        sys::write_all_at(&file, 0, &[&sent])?;
        file.sync_data()?;
        sys::advise(&file, 0..ALIGN_BYTES, Advice::DontNeed);
        if sys::read_at(&file, 0, sent.len())? == sent {
            return Ok(());
        }
        Err(io::Error::other("the disk returned other bytes than were written"))
    }

    /// RocksDB does not leave its error state by itself. Not while the index is being loaded:
    /// that holds it open.
    fn probe_index(&self) -> bool {
        if self.index.is_loaded() && self.noting_index("reopen", self.persist.reopen()).is_none() {
            return false;
        }
        let doubted = self.heads_doubted.load(Ordering::Acquire);
        if doubted && self.noting_index("forget", self.persist.remove_all_heads()).is_some() {
            self.heads_doubted.store(false, Ordering::Release);
        }
        self.noting_index("probe", self.persist.probe()).is_some()
    }
}
