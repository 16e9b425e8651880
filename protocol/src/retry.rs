//! When to try again.

use super::time::nanos;
use std::time::Duration;

/// Spreads `random` (64 uniform bits) over `low..=high`.
pub fn between(low: Duration, high: Duration, random: u64) -> Duration {
    let width = nanos(high.saturating_sub(low));
    low + Duration::from_nanos(((u128::from(width) * u128::from(random)) >> 64) as u64)
}

/// The shortest pause that a user may ask for: without one, a waiter would ask the masters without end.
pub const SHORTEST: Duration = Duration::from_millis(1);

/// The pauses between attempts at a lock that others hold: uniform in `min..=max` at first, `max` growing by half per
/// attempt up to `cap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The shortest pause.
    pub min: Duration,
    /// The longest pause at first.
    pub max: Duration,
    /// The longest pause ever.
    pub cap: Duration,
}

impl Backoff {
    /// 50 to 250 ms, growing to 1 s.
    pub const DEFAULT: Backoff =
        Backoff { min: Duration::from_millis(50), max: Duration::from_millis(250), cap: Duration::from_secs(1) };

    /// The pause before attempt `attempt + 1` (`attempt` from 0). Never longer than `hint` and a little jitter, where
    /// `hint` is when a quorum of masters will be free, by their answers.
    pub fn pause(&self, attempt: u32, hint: Option<Duration>, random: u64) -> Duration {
        let grown = (0..attempt.min(16)).fold(self.max, |d, _| d.saturating_mul(3) / 2);
        let pause = between(self.min, grown.min(self.cap).max(self.min), random);
        match hint {
            Some(ttl) => {
                let jitter = self.min.min(ttl.max(Duration::from_millis(10)));
                pause.min(ttl.saturating_add(between(Duration::from_millis(1), jitter, random)))
            }
            None => pause,
        }
    }
}

/// A ttl this short may mean that nobody holds the lock: waiters may yield to each other, or split the vote.
pub const MAY_BE_FREE_WITHIN: Duration = super::wait_list::QUANTUM;

/// The pause after a split vote: uniform in `0..=3 * slowest`, where `slowest` is the longest round seen, doubled per
/// split in a row (`splits` before this one), at most `cap`.
///
/// A split need not be a race: a holder whose other masters are down looks the same for as long as it holds.
pub fn after_split(slowest: Duration, splits: u32, cap: Duration, random: u64) -> Duration {
    let first = slowest.max(Duration::from_micros(50)).saturating_mul(3);
    between(Duration::ZERO, first.saturating_mul(1 << splits.min(20)).min(cap), random)
}

/// The pause before a failed renewal is tried again: uniform in a quarter to the whole of `max(50 ms, ttl / 60)`,
/// doubled per failure, at most `ttl / 10`.
pub fn after_failed_renewal(ttl: Duration, failures: u32, random: u64) -> Duration {
    let first = (ttl / 60).max(Duration::from_millis(50));
    let high = first.saturating_mul(1 << failures.min(8)).min(ttl / 10);
    between(high / 4, high, random)
}
