//! How fast an object that nobody has read comes through, against a distant origin: 15 ms to
//! the first byte, 90 MB/s a stream. A program that prints a table, not a test.
//!
//! `cargo bench -p forebay-tests --bench cold`

#![allow(clippy::print_stdout, reason = "the table is the point")]

use std::time::Duration;

use anyhow::Result;
use forebay_testkit::{PatternSet, Shape};
use forebay_tests::{BUCKET, Setup, World, read};

const ROUNDS: u64 = 3;
const SIZE_BYTES: u64 = 256 << 20;
/// The direct read, one block in flight, nine in flight (the one being read and eight ahead).
const WAYS: [&str; 3] = ["direct, one connection", "forebay, no read-ahead", "forebay, default"];

#[tokio::main]
async fn main() -> Result<()> {
    let shape = Shape::distant(Duration::from_millis(15), 90_000_000);
    let set = PatternSet::new(BUCKET, "cold-", ROUNDS, SIZE_BYTES);
    let setup = Setup { shape, read_ahead_blocks: 0, ..Setup::default() };
    let narrow = World::start(setup.clone(), &[&set]).await?;
    let wide = World::start(Setup { read_ahead_blocks: 8, ..setup }, &[&set]).await?;
    let mut seconds = [const { Vec::new() }; WAYS.len()];
    for round in 0..ROUNDS {
        let key = set.key(round);
        let readers = [narrow.direct()?, narrow.reader()?, wide.reader()?];
        for (reader, seconds) in readers.iter().zip(&mut seconds) {
            let verified = read(reader, &key, None).await?;
            anyhow::ensure!(verified.bytes == SIZE_BYTES, "read {} bytes", verified.bytes);
            seconds.push((verified.total.as_secs_f64(), verified.first_byte.as_secs_f64()));
        }
    }
    println!("{} MiB, cold, {ROUNDS} interleaved rounds, every byte checked", SIZE_BYTES >> 20);
    println!("{:<26}{:>10}{:>12}{:>16}", "", "MB/s", "x direct", "first byte ms");
    for (way, times) in WAYS.iter().zip(&seconds) {
        let speed = median(times.iter().map(|(total, _)| SIZE_BYTES as f64 / total / 1e6));
        let pairs = times.iter().zip(&seconds[0]);
        let ratio = median(pairs.map(|((total, _), (direct, _))| direct / total));
        let first_ms = median(times.iter().map(|(_, first)| first * 1e3));
        println!("{way:<26}{speed:>10.0}{ratio:>12.2}{first_ms:>16.1}");
    }
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
