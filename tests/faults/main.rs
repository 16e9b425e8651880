//! Masters that hang, end, forget, change their role or were never meant to serve together: what is promised holds, and
//! the user learns why something could not be had.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may stop at the first surprise, and reads the clock that its user reads"
)]

#[path = "../support/mod.rs"]
mod support;

mod amnesia;
mod foreign_keys;
mod full_rate;
mod identity;
mod init;
mod keys_flushed;
mod one_master_down;
mod outages;
mod scripts_flushed;
mod without_quarantine;
mod wrong_masters;
