//! Running the steps of a job one after the other, and saying at the end how it went.
//!
//! A step that fails does not stop the next: one run shows everything that is wrong. A step
//! that could not run, or ran no test where it should have, has failed.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::Instant;

use crate::failure::{Failure, Result, While};
use crate::machine;
use crate::tally::Tally;

pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "xtask is std alone, and nothing replays it")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }
}

impl fmt::Display for Stopwatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elapsed = self.0.elapsed();
        match elapsed.as_secs() / 60 {
            0 => write!(f, "{:.1} s", elapsed.as_secs_f64()),
            minutes => write!(f, "{minutes} min {:02} s", elapsed.as_secs() % 60),
        }
    }
}

/// The steps so far.
#[derive(Default)]
pub(crate) struct Steps {
    summary: Vec<String>,
    tally: Tally,
    any_failed: bool,
}

impl Steps {
    /// A step that is right or wrong as a whole.
    pub(crate) fn check(&mut self, name: &str, check: impl FnOnce() -> Result<()>) {
        self.step(name, || check().map(|()| Tally::default()));
    }

    /// A step that runs tests and counts them by `count`, which reads one line of output.
    pub(crate) fn tests(
        &mut self,
        name: &str,
        command: impl FnOnce() -> Result<Command>,
        count: fn(&str) -> Option<Tally>,
    ) {
        self.step(name, || {
            let (status, tally) = stream(command()?, count)?;
            match (status.success(), tally) {
                (true, Tally { passed: 0, failed: 0, .. }) => Err(Failure::new("no test ran")),
                (false, Tally { failed: 0, .. }) => Err(Failure::new(status.to_string())),
                (_, tally) => Ok(tally),
            }
        });
    }

    fn step(&mut self, name: &str, run: impl FnOnce() -> Result<Tally>) {
        println!("\n==> {name}");
        let stopwatch = Stopwatch::start();
        let outcome = run();
        let tally = outcome.as_ref().copied().unwrap_or(Tally { failed: 1, ..Tally::default() });
        let verdict = match &outcome {
            Ok(tally) if tally.failed == 0 => "ok".to_owned(),
            Ok(tally) => format!("{} FAILED", tally.failed),
            Err(failure) => format!("FAILED: {failure}"),
        };
        let time = stopwatch.to_string();
        println!("<== {name}: {verdict}, {time}");
        self.summary.push(format!("{time:>12}  {name}: {verdict}{}", counts(tally)));
        self.tally.add(tally);
        self.any_failed |= tally.failed > 0;
    }

    /// The summary and, as the last line, the sum: a failed check counts as one failure.
    pub(crate) fn close(self) -> ExitCode {
        println!("\n{}", self.summary.join("\n"));
        println!("{} passed, {} failed", self.tally.passed, self.tally.failed);
        if self.any_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

fn counts(tally: Tally) -> String {
    match tally {
        Tally { passed: 0, ignored: 0, .. } => String::new(),
        Tally { passed, ignored: 0, .. } => format!(" ({passed} passed)"),
        Tally { passed, ignored, .. } => format!(" ({passed} passed, {ignored} not run)"),
    }
}

/// Runs a command, passing its output on line by line while counting.
fn stream(mut command: Command, count: fn(&str) -> Option<Tally>) -> Result<(ExitStatus, Tally)> {
    let name = machine::name_of(&command);
    let mut child = command.stdout(Stdio::piped()).spawn().while_doing(|| format!("run {name}"))?;
    let mut tally = Tally::default();
    if let Some(pipe) = child.stdout.take() {
        let mut lines = BufReader::new(pipe);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).while_doing(|| format!("read from {name}"))? > 0 {
            let text = String::from_utf8_lossy(&line);
            print!("{text}");
            if let Some(counted) = count(text.trim_end()) {
                tally.add(counted);
            }
            line.clear();
        }
    }
    let status = child.wait().while_doing(|| format!("wait for {name}"))?;
    Ok((status, tally))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn after(script: &str) -> Steps {
        let mut steps = Steps::default();
        steps.tests("tests", || Ok(shell(script)), tally::of_pytest);
        steps
    }

    #[test]
    fn results_are_counted_while_they_stream() {
        let steps = after("echo collecting; echo 3 passed, 1 skipped in 0.1s");
        assert_eq!(steps.tally, Tally { passed: 3, failed: 0, ignored: 1 });
        assert!(!steps.any_failed);
    }

    #[test]
    fn a_runner_that_dies_is_a_failure_even_if_no_test_failed() {
        let steps = after("echo 3 passed in 0.1s; exit 3");
        assert_eq!(steps.tally.failed, 1);
        assert!(steps.any_failed);
    }

    #[test]
    fn a_runner_that_runs_nothing_is_a_failure() {
        assert!(after("echo no tests ran in 0.1s").any_failed);
        assert!(after("echo 2 skipped in 0.1s").any_failed);
    }

    #[test]
    fn a_failed_check_is_counted_and_the_next_step_still_runs() {
        let mut steps = Steps::default();
        steps.check("fmt", || Err(Failure::new("not formatted")));
        steps.tests("tests", || Ok(shell("echo 2 passed in 0.1s")), tally::of_pytest);
        assert_eq!(steps.tally, Tally { passed: 2, failed: 1, ignored: 0 });
        assert!(steps.any_failed);
    }
}
