//! What a lock does for its users while the masters are well.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may stop at the first surprise, and reads the clock that its user reads"
)]

#[path = "../support/mod.rs"]
mod support;

mod adoption;
mod exclusion;
mod expiry;
mod fairness;
mod fencing;
mod force_release;
mod giving_up;
mod guard;
mod holds;
mod loss_signal;
mod reentrant;
mod release;
mod renewal;
mod scoped;
mod shared_watchdog;
mod status;
mod trying;
mod wait_list;
mod waiting;
