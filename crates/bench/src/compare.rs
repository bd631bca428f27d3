//! Interleaved rounds: in each round every case has its turn, in rotated order, so that what
//! else the machine does meets all of them alike.

use std::time::Duration;

use crate::connection::Check;
use crate::error::BenchError;
use crate::feed::Plan;
use crate::figures::{Row, row};
use crate::round::{Drive, Round, run};
use crate::target::Target;
use crate::workload::Workload;

/// A workload at a target. The first case of a comparison is what the others are measured by.
#[derive(Debug, Clone)]
pub struct Case {
    target: Target,
    plan: Plan,
    workload: Workload,
    label: String,
}

/// How long, how often, with how many threads, and what is checked.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Rounds.
    pub rounds: usize,
    /// How long each case is driven in each round.
    pub round: Duration,
    /// Threads of the load.
    pub threads: usize,
    /// What is checked of each answer.
    pub check: Check,
}

/// What a comparison is about to do.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// The round, from 1.
    pub round: usize,
    /// The workload's name.
    pub workload: &'a str,
    /// The case's name.
    pub target: &'a str,
}

impl Case {
    /// A workload over objects that are there, named after its target.
    pub fn new(target: Target, plan: Plan, workload: Workload) -> Self {
        let label = target.name().to_owned();
        Self { target, plan, workload, label }
    }

    /// Gives it a name of its own.
    pub fn labelled(mut self, label: &str) -> Self {
        label.clone_into(&mut self.label);
        self
    }
}

/// Runs all rounds of all cases. `before` is called ahead of each, and may drop caches.
pub fn compare(
    cases: &[Case],
    pace: Pace,
    before: &mut dyn FnMut(Step<'_>) -> Result<(), BenchError>,
) -> Result<Vec<Row>, BenchError> {
    let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); cases.len()];
    for round in 0..pace.rounds {
        for turn in 0..cases.len() {
            let index = (round + turn) % cases.len();
            let case = &cases[index];
            let (workload, target) = (case.workload.name, case.label.as_str());
            before(Step { round: round + 1, workload, target })?;
            rounds[index].push(case.run(pace, round as u64)?);
        }
    }
    let anchor = rounds.first().filter(|_| cases.len() > 1);
    let rows = cases.iter().zip(&rounds).map(|(case, rounds)| {
        let names = [case.workload.name, &case.workload.what, &case.label];
        row(names, rounds, anchor.map(Vec::as_slice)).ok_or(BenchError::Thread)
    });
    rows.collect()
}

impl Case {
    fn run(&self, pace: Pace, seed: u64) -> Result<Round, BenchError> {
        let drive = Drive {
            connections: self.workload.connections,
            threads: pace.threads,
            duration: pace.round,
            check: pace.check,
            seed,
        };
        let round = run(&self.target, &self.plan, drive)?;
        if round.tally.requests == 0 {
            let (name, failed) = (&self.label, round.tally.failed);
            let text = format!("{name}: all {failed} requests of a round failed");
            return Err(BenchError::NothingToRead(text));
        }
        Ok(round)
    }
}
