//! Whether the origin answers at all, as far as the last try tells.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Failure, RetryReason};

/// Set by every try.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    is_silent: AtomicBool,
}

impl Reach {
    /// Any answer is a sign of life, an error of the server too.
    pub(crate) fn note<T>(&self, tried: &Result<T, Failure>) {
        let reason = tried.as_ref().err().and_then(|failure| failure.retry);
        let silent = matches!(reason, Some(RetryReason::Timeout | RetryReason::Connection));
        self.is_silent.store(silent, Ordering::Relaxed);
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_sign_of_life_and_no_answer_is_none() {
        let reach = Reach::default();
        for (reason, silent) in [
            (RetryReason::Timeout, true),
            (RetryReason::ServerError, false),
            (RetryReason::Connection, true),
            (RetryReason::Throttled, false),
        ] {
            reach.note::<()>(&Err(Failure::again(reason, "why")));
            assert_eq!(reach.is_silent(), silent, "{reason:?}");
        }
        reach.note(&Err::<(), _>(Failure::again(RetryReason::Timeout, "why")));
        reach.note(&Ok(()));
        assert!(!reach.is_silent());
    }
}
