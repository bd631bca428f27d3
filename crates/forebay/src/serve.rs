//! `forebay serve`.

use std::future::Future;
use std::io::Read;
use std::process::ExitCode;

use forebay_node::{Config, Environment, RawConfig, Running, init_logging};
use tokio::sync::oneshot;

use crate::cli::ServeArgs;
use crate::output::say;
use crate::signals;

/// Runs a worker, a voter or both until SIGTERM or SIGINT.
pub(crate) async fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let exit_with_stdin = args.exit_with_stdin;
    let config = configure(args)?;
    init_logging(config.log_format);
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    // Before the process starts to serve, so that no signal falls between.
    let stop = stop_signal(exit_with_stdin)?;
    let running = Running::start(config).await?;
    say(&format!("forebay listening {}", running.addresses()));
    Ok(if running.run_until(stop).await { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn configure(mut args: ServeArgs) -> anyhow::Result<Config> {
    let env = Environment::of_process();
    let raw = RawConfig::of(args.config.take(), &env)?;
    Ok(Config::resolve(raw, &env, &args.into_flags())?)
}

fn stop_signal(exit_with_stdin: bool) -> anyhow::Result<impl Future<Output = ()>> {
    let signalled = signals::stop()?;
    Ok(async move {
        tokio::select! {
            () = signalled => {}
            () = stdin_end(), if exit_with_stdin => {}
        }
    })
}

/// On a thread of its own: a blocking read on the runtime would keep it from ending.
async fn stdin_end() {
    let (ended, end) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let mut scratch = [0; 64];
        while matches!(std::io::stdin().read(&mut scratch), Ok(1..)) {}
        drop(ended);
    });
    // The sender is dropped, never used: its end is the news.
    let _ = end.await;
}
