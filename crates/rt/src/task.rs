//! Tasks. One place to start them, so that a simulation can own the executor.

use std::future::Future;

/// A running task. Dropping the handle does not stop it.
pub type Task<T> = tokio::task::JoinHandle<T>;

/// Starts a task that outlives its caller.
#[allow(clippy::disallowed_methods, reason = "the one place that spawns")]
pub fn spawn<F>(future: F) -> Task<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(future)
}

/// Runs blocking work (disk, hashing) off the reactor threads.
pub fn spawn_blocking<F, T>(work: F) -> Task<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    tokio::task::spawn_blocking(work)
}
