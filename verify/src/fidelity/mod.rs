//! The simulated Redis against a real one.

use crate::Verdict;

/// The options of `verify fidelity`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {}

/// Runs it.
pub fn run(_options: &Options) -> Verdict {
    Verdict::failed("not built yet")
}
