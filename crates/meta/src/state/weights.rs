//! How much of the ring a worker gets: its capacity in hundredths of the average, made sluggish,
//! because every change of a weight moves keys.

use forebay_types::RingConfig;

/// Weights are multiples of this, and stay until they are off by as much.
const STEP: u32 = 5;
const MAX: u32 = 10 * RingConfig::UNIT_WEIGHT;

/// The capacity of weight [`RingConfig::UNIT_WEIGHT`]: the mean of `capacities`, but `kept` for
/// as long as that is within a quarter of it. Else each join would move keys of all workers.
pub(super) fn unit_bytes(kept: u64, capacities: impl ExactSizeIterator<Item = u64>) -> u64 {
    let count = capacities.len() as u128;
    if count == 0 {
        return kept;
    }
    let mean = capacities.map(u128::from).sum::<u128>() / count;
    let kept_wide = u128::from(kept);
    let is_near = mean * 4 <= kept_wide * 5 && kept_wide * 4 <= mean * 5;
    // A mean of u64s is one.
    if is_near { kept } else { u64::try_from(mean).unwrap_or(u64::MAX) }
}

/// The weight of a worker that had `kept` until now, or 0 if it never had one.
pub(super) fn weight(kept: u32, capacity_bytes: u64, unit_bytes: u64) -> u32 {
    if unit_bytes == 0 {
        return RingConfig::UNIT_WEIGHT;
    }
    let (capacity, unit) = (u128::from(capacity_bytes), u128::from(unit_bytes));
    let hundredths = (capacity * u128::from(RingConfig::UNIT_WEIGHT) + unit / 2) / unit;
    let exact = u32::try_from(hundredths).unwrap_or(MAX).clamp(STEP, MAX);
    if kept != 0 && kept.abs_diff(exact) < STEP {
        return kept;
    }
    (exact + STEP / 2) / STEP * STEP
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIB: u64 = 1 << 40;

    #[test]
    fn equal_workers_weigh_the_unit_however_many_they_are() {
        for count in 1..20 {
            let unit = unit_bytes(0, vec![30 * TIB; count].into_iter());
            assert_eq!(weight(0, 30 * TIB, unit), RingConfig::UNIT_WEIGHT);
        }
    }

    #[test]
    fn twice_the_capacity_weighs_twice_as_much() {
        let unit = unit_bytes(0, [TIB, TIB, 2 * TIB, 4 * TIB].into_iter());
        assert_eq!([TIB, 2 * TIB, 4 * TIB].map(|bytes| weight(0, bytes, unit)), [50, 100, 200]);
    }

    #[test]
    fn a_small_change_of_capacity_moves_no_key() {
        for percent in 96..=104 {
            assert_eq!(weight(100, TIB / 100 * percent, TIB), 100, "{percent} %");
        }
        assert_eq!(weight(100, TIB / 100 * 93, TIB), 95);
        assert_eq!(weight(95, TIB / 100 * 97, TIB), 95, "and does not swing back at once");
    }

    #[test]
    fn the_unit_stays_while_the_mean_is_near_it() {
        assert_eq!(unit_bytes(100, [124].into_iter()), 100);
        assert_eq!(unit_bytes(100, [81].into_iter()), 100);
        assert_eq!(unit_bytes(100, [126].into_iter()), 126);
        assert_eq!(unit_bytes(100, [79].into_iter()), 79);
        assert_eq!(unit_bytes(100, std::iter::empty()), 100);
    }

    #[test]
    fn no_capacity_is_too_small_or_too_large_for_a_weight() {
        assert_eq!(weight(0, 0, TIB), STEP);
        assert_eq!(weight(0, u64::MAX, 1), MAX);
        assert_eq!(weight(0, 0, unit_bytes(0, [0, 0].into_iter())), RingConfig::UNIT_WEIGHT);
        assert_eq!(unit_bytes(0, [u64::MAX, u64::MAX].into_iter()), u64::MAX);
    }
}
