//! Faults on real servers.
#![allow(clippy::disallowed_methods, reason = "it waits for other processes, not for the library's clock")]

pub mod clock;
pub mod proxy;

use crate::Verdict;

/// The options of `verify nemesis`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {}

/// Runs it.
pub fn run(_options: &Options) -> Verdict {
    Verdict::failed("not built yet")
}
