//! Random schedules against the promises about versions and pages. The seed of one that fails
//! is printed; `SEED=n cargo test --release -p forebay-cache --test simulation one_seed` runs it
//! again, the same to the last message.

#![allow(unreachable_pub, reason = "a test target has no outside")]
#![allow(clippy::print_stdout, reason = "what was tried is worth knowing")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod fakes;
mod schedule;

use std::sync::atomic::{AtomicU64, Ordering};

use fakes::cluster::voters::Broken;
use schedule::{Class, Outcome, run};

const WILD_SEEDS: u64 = 8_000;
const CALM_SEEDS: u64 = 1_000;
const ONE_FAILURE_SEEDS: u64 = 1_000;

/// Runs seeds on two threads until one goes wrong.
fn sweep(class: Class, seeds: std::ops::Range<u64>, broken: Broken) -> Result<Outcome, Outcome> {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let mut total = Outcome::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return Ok(total);
            }
            let outcome = run(class, seed, broken);
            if !outcome.wrong.is_empty() {
                next.store(seeds.end, Ordering::Relaxed);
                return Err(outcome);
            }
            total.add(&outcome);
        }
    };
    std::thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        let mut total = Outcome::default();
        for thread in threads {
            total.add(&thread.join().expect("a thread that runs seeds")?);
        }
        Ok(total)
    })
}

fn holds(class: Class, seeds: std::ops::Range<u64>) {
    match sweep(class, seeds, Broken::Nothing) {
        Ok(total) => println!("{class:?}: {total:?}"),
        Err(outcome) => panic!("{class:?} seed {}: {:#?}", outcome.seed, outcome.wrong),
    }
}

#[test]
fn promises_hold_in_wild_schedules() {
    holds(Class::Wild, 0..WILD_SEEDS);
}

#[test]
fn each_page_is_fetched_once_while_nothing_fails() {
    holds(Class::Calm, 0..CALM_SEEDS);
}

#[test]
fn each_page_is_fetched_at_most_twice_across_one_failure() {
    holds(Class::OneFailure, 0..ONE_FAILURE_SEEDS);
}

/// A check that cannot fail proves nothing: with any one rule of the protocol broken, some
/// schedule has to go wrong.
#[test]
fn every_rule_that_is_broken_is_noticed() {
    let rules = [
        Broken::NoQuarantine,
        Broken::OldAnswers,
        Broken::NoLease,
        Broken::HastyFence,
        Broken::Forgetful,
        Broken::Usurper,
    ];
    for broken in rules {
        let outcome = sweep(Class::Wild, 0..WILD_SEEDS, broken).expect_err("a rule that matters");
        println!("{broken:?}: seed {}: {:?}", outcome.seed, outcome.wrong);
        assert!(outcome.wrong.iter().any(|what| what.contains("STALE")), "{:?}", outcome.wrong);
    }
}

#[test]
fn a_seed_is_the_same_run_each_time() {
    for seed in 0..50 {
        let run = || run(Class::Wild, seed, Broken::Nothing);
        assert_eq!(run(), run());
    }
}

#[test]
fn one_seed() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let class = match number("CLASS") {
        Some(1) => Class::Calm,
        Some(2) => Class::OneFailure,
        _ => Class::Wild,
    };
    let outcome = run(class, number("SEED").unwrap_or(0), Broken::Nothing);
    assert!(outcome.wrong.is_empty(), "{:#?}", outcome.wrong);
}
