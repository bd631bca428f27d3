//! How many tests passed and failed, read from the lines that test runners close with.

/// Counts of one runner, or of several added up.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub passed: u64,
    pub failed: u64,
    /// Known to the runner, and not run.
    pub ignored: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }

    fn count(&mut self, word: &str, number: u64) {
        match word {
            "passed" => self.passed += number,
            "failed" | "error" | "errors" => self.failed += number,
            "ignored" | "skipped" | "xfailed" => self.ignored += number,
            _ => {}
        }
    }
}

/// `test result: ok. 5 passed; 0 failed; 1 ignored; ...`: one per test binary.
pub(crate) fn of_libtest(line: &str) -> Option<Tally> {
    let (_, result) = line.split_once("test result: ")?;
    let (_, counts) = result.split_once(". ")?;
    Some(sum(counts.split("; ")))
}

/// `===== 2 failed, 30 passed in 12.34s =====`, with or without the rules.
pub(crate) fn of_pytest(line: &str) -> Option<Tally> {
    let (counts, time) = line.trim_matches(['=', ' ']).rsplit_once(" in ")?;
    let is_time = time.starts_with(|c: char| c.is_ascii_digit()) && time.contains('s');
    let starts_with_a_number = counts.starts_with(|c: char| c.is_ascii_digit());
    (is_time && starts_with_a_number).then(|| sum(counts.split(", ")))
}

fn sum<'a>(counts: impl Iterator<Item = &'a str>) -> Tally {
    let mut tally = Tally::default();
    for (number, word) in counts.filter_map(|count| count.split_once(' ')) {
        if let Ok(number) = number.parse() {
            tally.count(word, number);
        }
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_line_of_a_rust_test_binary_is_counted() {
        let line = "test result: FAILED. 5 passed; 2 failed; 1 ignored; 0 measured; \
                    3 filtered out; finished in 0.01s";
        assert_eq!(of_libtest(line), Some(Tally { passed: 5, failed: 2, ignored: 1 }));
        assert_eq!(of_libtest("test names::a_result ... ok"), None);
    }

    #[test]
    fn the_closing_line_of_pytest_is_counted() {
        let quiet = "2 failed, 30 passed, 1 skipped, 1 error in 62.53s (0:01:02)";
        assert_eq!(of_pytest(quiet), Some(Tally { passed: 30, failed: 3, ignored: 1 }));
        let ruled = "======= 4 passed, 1 warning in 0.10s =======";
        assert_eq!(of_pytest(ruled), Some(Tally { passed: 4, failed: 0, ignored: 0 }));
    }

    #[test]
    fn other_lines_of_pytest_are_not_counted() {
        for line in ["E   3 bytes differ in shard", "tests/clients/test_x.py ....", "no tests ran"]
        {
            assert_eq!(of_pytest(line), None, "{line}");
        }
    }
}
