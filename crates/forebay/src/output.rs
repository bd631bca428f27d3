//! What the commands say: results on standard output, everything else on standard error.

use std::io::{IsTerminal, Write};

use anyhow::Context;
use serde::Serialize;

use crate::cli::Output;

/// Prints a line of the result. A reader that has gone away is no error.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Prints a result as a table, or as one JSON object.
pub(crate) fn print(
    output: Output,
    result: &impl Serialize,
    table: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    match output {
        Output::Table => say(table().trim_end()),
        Output::Json => say(&serde_json::to_string(result).context("print the result")?),
    }
    Ok(())
}

/// Prints a line that is not part of the result.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Whether somebody is watching.
pub(crate) fn on_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// `1.5 GiB`.
pub(crate) fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = (bytes.ilog2() / 10).min(UNITS.len() as u32);
    let unit = UNITS[power as usize - 1];
    format!("{:.1} {unit}", bytes as f64 / (1u64 << (10 * power)) as f64)
}

/// `96.4%`; `-` where there is nothing to tell.
pub(crate) fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".into(), |ratio| format!("{:.1}%", ratio * 100.0))
}

/// `1h02m`.
pub(crate) fn human_seconds(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_the_unit_that_fits() {
        let shown = [0, 1023, 1024, 1536, 1 << 20, 3 << 29, 1 << 50].map(human_bytes);
        let expected = ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.5 GiB", "1024.0 TiB"];
        assert_eq!(shown, expected);
    }
}
