//! Sizes as people write them: `512MiB`, `1.5 TB`, `90%`.

use std::fmt;

/// How much of a volume a cache directory may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capacity {
    /// Percent of the volume, 1 to 100.
    Percent(u8),
    /// Bytes.
    Bytes(u64),
}

/// Text that is no size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Not a number followed by a unit.
    #[error("not a size")]
    Shape,
    /// Nothing, or more than a machine can count.
    #[error("out of range")]
    Range,
}

/// Longest units first, so that `MiB` is not read as `B`.
const UNITS: [(&str, u64); 17] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("pib", 1 << 50),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("pb", 1_000_000_000_000_000),
    ("ki", 1 << 10),
    ("mi", 1 << 20),
    ("gi", 1 << 30),
    ("ti", 1 << 40),
    ("pi", 1 << 50),
    ("b", 1),
    ("", 1),
];

/// Decimal places that are still told apart.
const MAX_DECIMALS: usize = 9;

/// Reads a size in bytes: a number, then `KiB`, `MB`, `Gi`, ... or nothing.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let suffix = &lower[digits.len()..];
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == suffix).ok_or(SizeError::Shape)?;
    match scaled(digits.trim_end(), *unit)? {
        0 => Err(SizeError::Range),
        bytes => Ok(bytes),
    }
}

/// `number` times `unit`, rounded down, without floating point.
fn scaled(number: &str, unit: u64) -> Result<u64, SizeError> {
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let digits_only = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits_only(whole) || !digits_only(decimals) || decimals.len() > MAX_DECIMALS {
        return Err(SizeError::Shape);
    }
    let tenths = 10u128.pow(decimals.len() as u32);
    let whole: u128 = whole.parse().map_err(|_| SizeError::Range)?;
    let decimals: u128 = decimals.parse().map_err(|_| SizeError::Range)?;
    let number = whole.checked_mul(tenths).ok_or(SizeError::Range)? + decimals;
    let bytes = number.checked_mul(u128::from(unit)).ok_or(SizeError::Range)? / tenths;
    u64::try_from(bytes).map_err(|_| SizeError::Range)
}

impl Capacity {
    /// Reads `90%` or a size.
    pub fn parse(text: &str) -> Result<Self, SizeError> {
        let Some(percent) = text.trim().strip_suffix('%') else {
            return parse_size(text).map(Self::Bytes);
        };
        match percent.trim_end().parse::<u8>() {
            Ok(percent @ 1..=100) => Ok(Self::Percent(percent)),
            Ok(_) => Err(SizeError::Range),
            Err(_) => Err(SizeError::Shape),
        }
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Bytes(bytes) => write!(f, "{bytes}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_whole_number_of_any_unit_is_that_many_bytes(
            n in 1u64..1 << 13, unit in 0..UNITS.len(), gap in 0usize..3, upper: bool,
        ) {
            let (name, bytes) = UNITS[unit];
            let text = format!("{n}{}{name}", " ".repeat(gap));
            let text = if upper { text.to_uppercase() } else { text };
            prop_assert_eq!(parse_size(&text), Ok(n * bytes));
        }

        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in ".{0,24}") {
            let _ = (parse_size(&text), Capacity::parse(&text));
        }

        #[test]
        fn a_capacity_reads_back_as_it_is_shown(bytes in 1u64.., percent in 1u8..=100) {
            for capacity in [Capacity::Bytes(bytes), Capacity::Percent(percent)] {
                prop_assert_eq!(Capacity::parse(&capacity.to_string()), Ok(capacity));
            }
        }
    }

    #[test]
    fn fractions_are_exact() {
        assert_eq!(parse_size("1.5TiB"), Ok(3 << 39));
        assert_eq!(parse_size("0.1 GB"), Ok(100_000_000));
        assert_eq!(parse_size("0.5KiB"), Ok(512));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "GiB", "-1", "1e9", "1.GiB", ".5GiB", "1,5GiB", "10 potatoes", "1GiBB"] {
            assert_eq!(parse_size(text), Err(SizeError::Shape), "{text:?}");
        }
        for text in ["0", "0GiB", "99999999PiB", "340282366920938463463374607431768211456"] {
            assert_eq!(parse_size(text), Err(SizeError::Range), "{text:?}");
        }
        assert_eq!(Capacity::parse("0%"), Err(SizeError::Range));
        assert_eq!(Capacity::parse("101%"), Err(SizeError::Range));
        assert_eq!(Capacity::parse("x%"), Err(SizeError::Shape));
    }
}
