//! What cannot be taken back is said first, and done only where `--yes` was.

use crate::output::complain;

/// Says what is about to be done; whether it may be.
pub(crate) fn given(plan: &str, yes: bool) -> bool {
    complain(plan.trim_end());
    if !yes {
        complain("nothing was done: say --yes to do it");
    }
    yes
}
