//! What concerns the process that a client lives in: its threads, memory and descriptors, its log, forks and stops, and
//! what its user's code may do.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may stop at the first surprise, and reads the clock that its user reads"
)]

#[path = "../support/mod.rs"]
mod support;

mod callbacks;
mod closing;
mod forks;
mod logger;
mod logs;
mod no_growth;
mod reply_memory;
mod stopped;
mod user_code;
mod watchdog_crowd;
