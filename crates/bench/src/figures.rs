//! From rounds to figures: medians, with the smallest and the largest value of all rounds.

use serde::Serialize;

use crate::round::Round;

/// The median of several rounds, and how far they are apart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The middle value; the lower one of two.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// `None` of no values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let median = *values.get(values.len().checked_sub(1)? / 2)?;
        Some(Self { median, min: *values.first()?, max: *values.last()? })
    }
}

/// The figures of one workload at one target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The workload's name.
    pub workload: String,
    /// What it does.
    pub what: String,
    /// The target's name.
    pub target: String,
    /// Rounds.
    pub rounds: usize,
    /// Answers that were right.
    pub requests: u64,
    /// Requests that failed honestly.
    pub failed: u64,
    /// Bytes of the answers.
    pub bytes: u64,
    /// 10^9 bytes a second.
    pub gb_per_s: Spread,
    /// Answers a second.
    pub requests_per_s: Spread,
    /// Microseconds to the first byte of a body, in the middle.
    pub first_byte_p50_us: Option<Spread>,
    /// The same, of all but one in a hundred.
    pub first_byte_p99_us: Option<Spread>,
    /// CPU-seconds of the target's processes for 10^9 bytes.
    pub server_cpu_s_per_gb: Option<Spread>,
    /// CPU-microseconds of the target's processes for one answer.
    pub server_cpu_us_per_request: Option<Spread>,
    /// CPU-microseconds of this process for one answer.
    pub client_cpu_us_per_request: Spread,
    /// Answers a second, as a multiple of the first target's in the same round.
    pub x_speed: Option<Spread>,
    /// CPU time for one answer, as a multiple of the first target's in the same round.
    pub x_cpu: Option<Spread>,
    /// Share of answers that a Forebay says were cached, here or at a peer.
    pub hit_ratio: Option<f64>,
    /// Share of answers that a Forebay says came from a peer.
    pub peer_ratio: Option<f64>,
    /// Share of the machine that other processes used, in the worst round.
    pub foreign_ratio: Option<f64>,
    /// Bytes that the target's processes read from disks, as a share of those answered.
    pub disk_ratio: Option<f64>,
}

impl Round {
    fn gb(&self) -> f64 {
        self.tally.bytes as f64 / 1e9
    }

    fn requests_per_s(&self) -> f64 {
        self.tally.requests as f64 / self.seconds
    }

    fn server_cpu_us(&self) -> Option<f64> {
        Some(self.spending.server_cpu_s? * 1e6 / self.tally.requests as f64)
    }
}

/// The figures of rounds that all have at least one right answer. `anchor`: what the first
/// target did in the same rounds.
pub(crate) fn row(names: [&str; 3], rounds: &[Round], anchor: Option<&[Round]>) -> Option<Row> {
    let sum = |count: fn(&Round) -> u64| rounds.iter().map(count).sum::<u64>();
    let spread = |value: &dyn Fn(&Round) -> f64| Spread::of(rounds.iter().map(value));
    let maybe = |value: &dyn Fn(&Round) -> Option<f64>| Spread::of(rounds.iter().filter_map(value));
    let against = |value: &dyn Fn(&Round) -> Option<f64>| {
        let pairs = rounds.iter().zip(anchor?);
        Spread::of(pairs.filter_map(|(round, anchor)| Some(value(round)? / value(anchor)?)))
    };
    let (requests, bytes) = (sum(|round| round.tally.requests), sum(|round| round.tally.bytes));
    let (hits, peers) = (sum(|round| round.tally.hits), sum(|round| round.tally.peers));
    let said = hits + peers + sum(|round| round.tally.misses);
    let of_said = |count: u64| (said > 0).then(|| count as f64 / said as f64);
    let foreign = maybe(&|round| round.spending.foreign_ratio);
    let disk_bytes = rounds.iter().map(|round| round.spending.disk_bytes).sum::<Option<u64>>();
    let [workload, what, target] = names.map(str::to_owned);
    Some(Row {
        workload,
        what,
        target,
        rounds: rounds.len(),
        requests,
        failed: sum(|round| round.tally.failed),
        bytes,
        gb_per_s: spread(&|round| round.gb() / round.seconds)?,
        requests_per_s: spread(&Round::requests_per_s)?,
        first_byte_p50_us: maybe(&|round| round.tally.first_byte.quantile_us(0.5)),
        first_byte_p99_us: maybe(&|round| round.tally.first_byte.quantile_us(0.99)),
        server_cpu_s_per_gb: maybe(&|round| Some(round.spending.server_cpu_s? / round.gb())),
        server_cpu_us_per_request: maybe(&Round::server_cpu_us),
        client_cpu_us_per_request: spread(&|round| {
            round.spending.client_cpu_s * 1e6 / round.tally.requests as f64
        })?,
        x_speed: against(&|round| Some(round.requests_per_s())),
        x_cpu: against(&Round::server_cpu_us),
        hit_ratio: of_said(hits + peers),
        peer_ratio: of_said(peers),
        foreign_ratio: foreign.map(|foreign| foreign.max),
        disk_ratio: disk_bytes.map(|disk| disk as f64 / bytes as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Spending;
    use crate::round::Tally;

    fn round(requests: u64, seconds: f64, server_cpu_s: Option<f64>) -> Round {
        let tally = Tally { requests, bytes: requests * 1_000_000, hits: 1, ..Tally::new() };
        let spending = Spending {
            server_cpu_s,
            client_cpu_s: 0.5,
            foreign_ratio: server_cpu_s,
            disk_bytes: None,
        };
        Round { tally, seconds, spending }
    }

    #[test]
    fn a_spread_is_the_median_between_the_extremes() {
        assert_eq!(Spread::of([]), None);
        let spread = |median, min, max| Some(Spread { median, min, max });
        assert_eq!(Spread::of([3.0]), spread(3.0, 3.0, 3.0));
        assert_eq!(Spread::of([9.0, 1.0, 2.0]), spread(2.0, 1.0, 9.0));
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]), spread(2.0, 1.0, 4.0));
    }

    #[test]
    fn ratios_are_formed_inside_a_round() {
        let anchor = [round(1000, 1.0, Some(0.1)), round(4000, 1.0, Some(0.4))];
        let rounds = [round(2000, 1.0, Some(0.1)), round(8000, 1.0, Some(0.4))];
        let row = row(["w1", "", "t"], &rounds, Some(&anchor)).unwrap();
        assert_eq!(row.x_speed, Spread::of([2.0, 2.0]));
        assert_eq!(row.x_cpu, Spread::of([0.5, 0.5]));
        assert_eq!((row.requests, row.rounds), (10_000, 2));
        assert_eq!(row.requests_per_s, Spread::of([2000.0, 8000.0]).unwrap());
        assert_eq!(row.server_cpu_s_per_gb, Spread::of([0.05, 0.05]));
        assert_eq!((row.hit_ratio, row.foreign_ratio), (Some(1.0), Some(0.4)));
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let row = row(["w1", "", "t"], &[round(10, 1.0, None)], None).unwrap();
        assert_eq!(row.server_cpu_s_per_gb, None);
        assert_eq!((row.x_speed, row.disk_ratio, row.foreign_ratio), (None, None, None));
    }
}
