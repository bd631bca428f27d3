//! The answer of a lookup: a few workers in order, without an allocation.

use std::array;
use std::fmt;
use std::iter::Take;
use std::ops::Deref;

use forebay_types::WorkerId;

/// Owners named for one block: the owner, and who would be it without the ones before.
pub const MAX_OWNERS: usize = 3;

/// The workers that own a block, clockwise, each once. Reads as a slice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Owners {
    /// The first `len` are owners, the rest are zero.
    ids: [WorkerId; MAX_OWNERS],
    len: usize,
}

impl Owners {
    pub(crate) const NONE: Self = Self { ids: [WorkerId(0); MAX_OWNERS], len: 0 };

    /// Adds a worker behind the others, unless it is among them or there is no room.
    pub(crate) fn add(&mut self, worker: WorkerId) {
        if self.len < MAX_OWNERS && !self.contains(&worker) {
            self.ids[self.len] = worker;
            self.len += 1;
        }
    }
}

impl Deref for Owners {
    type Target = [WorkerId];

    fn deref(&self) -> &[WorkerId] {
        &self.ids[..self.len]
    }
}

impl IntoIterator for Owners {
    type Item = WorkerId;
    type IntoIter = Take<array::IntoIter<WorkerId, MAX_OWNERS>>;

    fn into_iter(self) -> Self::IntoIter {
        self.ids.into_iter().take(self.len)
    }
}

impl fmt::Debug for Owners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_is_named_once_and_three_are_enough() {
        let mut owners = Owners::NONE;
        for id in [7, 7, 0, 7, 9, 8] {
            owners.add(WorkerId(id));
        }
        assert_eq!(*owners, [WorkerId(7), WorkerId(0), WorkerId(9)]);
        assert_eq!(owners.into_iter().collect::<Vec<_>>(), owners.to_vec());
        assert_eq!(Owners::NONE.into_iter().next(), None);
    }
}
