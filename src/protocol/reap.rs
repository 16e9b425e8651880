//! What becomes of a release that could not be delivered.

use super::time::Mono;
use std::time::Duration;

/// The largest number of undelivered releases that are kept; the others are left to their ttl.
pub const CAPACITY: usize = 65_536;

/// When the next attempt at an undelivered release is due: one second after the first failure, then shortly before the
/// key's ttl ends, then not any more.
pub fn next_attempt(attempt: u32, now: Mono, key_ends: Mono) -> Option<Mono> {
    match attempt {
        0 => Some(now.plus(Duration::from_secs(1))).filter(|at| *at < key_ends),
        1 => Some(key_ends.minus(Duration::from_millis(500))).filter(|at| *at > now),
        _ => None,
    }
}
