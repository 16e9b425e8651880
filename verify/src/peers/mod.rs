//! The same faults for other lock clients.

use crate::Verdict;

/// The options of `verify peers`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {}

/// Runs it.
pub fn run(_options: &Options) -> Verdict {
    Verdict::failed("not built yet")
}
