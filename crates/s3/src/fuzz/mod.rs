//! Parsers under random input: request heads, ranges, queries, keys and XML.
//!
//! All are fuzzed at once, for [`SHORT`], from seeds that never change (but the dates and
//! signatures of heads are those of the moment). With `FOREBAY_LONG=1` it takes [`LONG`] for each
//! of them, from seeds that nobody has seen. No parser may panic; what it takes has to mean what
//! an independent and simpler reader makes of it, and has to survive being written down and read
//! again.

mod checks;
mod edits;
mod inputs;
mod signatures;

use std::time::Duration;

use forebay_rt::{Clock, Rng, SystemClock, SystemRng};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

/// What each parser is fuzzed for.
const SHORT: Duration = Duration::from_secs(20);

/// The same in the long form.
const LONG: Duration = Duration::from_secs(600);

/// Inputs between two looks at the clock.
const CASES_A_ROUND: u32 = 256;

/// A parser with its inputs and what must hold of it.
type Target = (&'static str, fn(Budget) -> Outcome);

/// Inputs that were tried, or the smallest one for which something does not hold.
type Outcome = Result<u64, String>;

const TARGETS: [Target; 5] = [
    ("head", signatures::head),
    ("range", inputs::range),
    ("query", inputs::query),
    ("key", inputs::key),
    ("xml", inputs::xml),
];

#[test]
fn no_input_makes_a_parser_panic_or_mean_something_else() {
    let budget = Budget::of_this_run();
    let running = TARGETS.map(|(name, fuzz)| (name, std::thread::spawn(move || fuzz(budget))));
    let mut failures = Vec::new();
    for (name, fuzzing) in running {
        match fuzzing.join() {
            Ok(Ok(inputs)) => eprintln!("{name}: {inputs} inputs"),
            Ok(Err(failure)) => failures.push(format!("{name}: {failure}")),
            Err(_) => failures.push(format!("{name}: panicked outside of an input")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// How long to go on, and from where.
#[derive(Debug, Clone, Copy)]
struct Budget {
    limit: Duration,
    seed: u64,
}

impl Budget {
    fn of_this_run() -> Self {
        if std::env::var_os("FOREBAY_LONG").is_none_or(|value| value != "1") {
            return Self { limit: SHORT, seed: 0 };
        }
        // Each is to have its time, however few cores they share.
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let turns = TARGETS.len().div_ceil(cores) as u32;
        Self { limit: LONG * turns, seed: SystemRng.next_u64() }
    }

    /// Tries inputs until the time is over.
    fn spend<S: Strategy>(self, inputs: &S, check: impl Fn(S::Value)) -> Outcome {
        let checked = |input| {
            check(input);
            Ok(())
        };
        let deadline = SystemClock.now() + self.limit;
        let mut rounds = 0;
        while SystemClock.now() < deadline {
            let mut seed = [0; 32];
            seed[..8].copy_from_slice(&self.seed.wrapping_add(rounds).to_le_bytes());
            let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
            let config =
                Config { cases: CASES_A_ROUND, failure_persistence: None, ..Config::default() };
            match TestRunner::new_with_rng(config, rng).run(inputs, checked) {
                Ok(()) => rounds += 1,
                Err(TestError::Fail(why, input)) => return Err(format!("{why} with {input:?}")),
                Err(TestError::Abort(why)) => return Err(format!("gave up: {why}")),
            }
        }
        Ok(rounds * u64::from(CASES_A_ROUND))
    }
}
