//! A secret that no log line can show.

use std::fmt;
use std::sync::Arc;

/// Text that prints as `***`. Ask for it by name where it is really used.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a secret.
    pub fn new(value: &str) -> Self {
        Self(value.into())
    }

    /// The secret itself: for signing, never for printing.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
