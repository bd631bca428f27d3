//! The rings that this worker places blocks by: built off the read path, swapped when the view
//! changes.

use std::sync::Arc;

use forebay_ring::Ring;
use forebay_types::{Epoch, RingSpec, View};

/// The rings of one view.
#[derive(Debug)]
pub(crate) struct Rings {
    /// What they were built from.
    pub(crate) view: Arc<View>,
    /// The present one.
    pub(crate) present: Arc<Ring>,
    /// Those before it, newest first.
    pub(crate) previous: Vec<Arc<Ring>>,
}

impl Rings {
    /// Builds what is not in `known` already. Takes milliseconds for a large ring.
    pub(crate) fn build(view: Arc<View>, known: Option<&Self>) -> Self {
        let ring = |spec: &RingSpec| {
            let known = known.into_iter().flat_map(Self::all);
            let same = known.into_iter().find(|ring| ring.spec() == spec);
            same.cloned().unwrap_or_else(|| Arc::new(Ring::build(spec)))
        };
        let (present, previous) = (ring(&view.ring), view.previous.iter().map(ring).collect());
        Self { view, present, previous }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.view.ring.epoch
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Ring>> {
        std::iter::once(&self.present).chain(&self.previous)
    }
}
