//! Locks by name: what is remembered on disk about a name, and what a write makes forget, take
//! turns.

use std::hash::{DefaultHasher, Hash, Hasher};

use forebay_types::ObjectName;
use tokio::sync::{Mutex, MutexGuard};

/// Names share a lock where their hashes meet; a few names waiting for each other do no harm.
const LOCKS: usize = 256;

pub(crate) struct NameLocks([Mutex<()>; LOCKS]);

impl NameLocks {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(())))
    }

    /// Holds `name` until the guard is dropped.
    pub(crate) async fn hold(&self, name: &ObjectName) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        self.0[hasher.finish() as usize % LOCKS].lock().await
    }
}
