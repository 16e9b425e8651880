//! Faults put into the code on purpose, and who finds them.

pub mod faults;

use crate::Verdict;

/// The options of `verify planted`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {}

/// Runs it.
pub fn run(_options: &Options) -> Verdict {
    Verdict::failed("not built yet")
}
