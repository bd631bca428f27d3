//! A fault origin as a process of its own.

use std::io::{self, Read, Write};

use tokio::sync::oneshot;

use super::{FaultOrigin, OriginConfig};

/// What the one line on stdout begins with; the endpoint follows.
pub const READY_PREFIX: &str = "fault origin listening on ";

/// Serves until the process is ended, or until stdin is, where the configuration says so.
pub async fn run_process(config: OriginConfig) -> io::Result<()> {
    let exit_with_stdin = config.exit_with_stdin;
    let origin = FaultOrigin::start(config).await?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{READY_PREFIX}{}", origin.endpoint())?;
    stdout.flush()?;
    drop(stdout);
    if exit_with_stdin {
        stdin_ended().await;
        return Ok(());
    }
    std::future::pending().await
}

/// On a thread of its own: a blocking read on the runtime would keep it from shutting down.
async fn stdin_ended() {
    let (ended, wait) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let mut scratch = [0; 64];
        while matches!(io::stdin().read(&mut scratch), Ok(1..)) {}
        drop(ended);
    });
    // The sender is dropped, never used: its end is the news.
    let _ = wait.await;
}
