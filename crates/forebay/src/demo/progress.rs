//! Shows how far a pass has come: a bar on a terminal, lines elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::{complain, human_bytes, on_terminal};

const BAR: &str = "{prefix:<9} [{bar:24}] {bytes:>10} of {total_bytes}  {bytes_per_sec}";

/// How far one pass has come. On standard error, so that results can be piped.
#[derive(Debug)]
pub(super) struct Progress {
    name: String,
    bar: ProgressBar,
    on_terminal: bool,
}

impl Progress {
    /// A pass over `bytes` begins.
    pub(super) fn begin(name: &str, bytes: u64) -> Self {
        let on_terminal = on_terminal();
        let target =
            if on_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style =
            ProgressStyle::with_template(BAR).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(Some(bytes), target)
            .with_style(style.progress_chars("##-"))
            .with_prefix(name.to_owned());
        Self { name: name.into(), bar, on_terminal }
    }

    /// `bytes` more are there.
    pub(super) fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// The share of the bytes that has come.
    pub(super) fn share(&self) -> f64 {
        self.bar.position() as f64 / self.bar.length().unwrap_or(1).max(1) as f64
    }

    /// The pass is over.
    pub(super) fn end(&self, gb_per_s: f64) {
        self.bar.finish();
        if !self.on_terminal {
            let Self { name, bar, .. } = self;
            complain(&format!(
                "{name}: read {} at {gb_per_s:.2} GB/s",
                human_bytes(bar.position())
            ));
        }
    }
}
