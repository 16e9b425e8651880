//! What the public types, settings and errors promise, without masters for the most part.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may stop at the first surprise, and reads the clock that its user reads"
)]

#[path = "../support/mod.rs"]
mod support;

mod bad_input;
mod errors;
mod guarantees;
mod types;
