//! How masters are reached and what they may send: addresses, passwords, rights, connections, replies.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may stop at the first surprise, and reads the clock that its user reads"
)]

#[path = "../support/mod.rs"]
mod support;

mod addresses;
mod connecting;
mod connections;
mod decided_early;
mod delivery;
mod huge_reply;
mod nonsense;
mod pools;
mod properties;
mod replies;
mod rights;
mod secrets;
