//! How long a granted round may be relied on.

use super::time::{Mono, nanos};
use std::time::Duration;

/// The assumed bound on the relative rate error between the client's clock and a master's, in parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drift(u32);

/// Slack on top of the relative drift: Redis expires to the millisecond (`docs/SAFETY.md#validity`).
pub const SLACK: Duration = Duration::from_millis(2);

impl Drift {
    /// One per cent, as all Redlock ports have it.
    pub const DEFAULT: Drift = Drift(10_000);

    /// A drift of `ppm` parts per million; `None` above 500 000.
    pub fn from_ppm(ppm: u32) -> Option<Drift> {
        (ppm <= 500_000).then_some(Drift(ppm))
    }

    /// Parts per million.
    pub fn ppm(self) -> u32 {
        self.0
    }

    /// `d * (1 - drift)`, rounded down.
    pub fn shorten(self, d: Duration) -> Duration {
        let kept = u128::from(nanos(d)) * u128::from(1_000_000 - self.0) / 1_000_000;
        Duration::from_nanos(kept as u64)
    }

    /// `d * (1 + 2 * drift)`, rounded up: what a master waits so that every client's `d` is over.
    pub fn lengthen(self, d: Duration) -> Duration {
        let total = (u128::from(nanos(d)) * (1_000_000 + 2 * u128::from(self.0))).div_ceil(1_000_000);
        Duration::from_nanos(u64::try_from(total).unwrap_or(u64::MAX))
    }
}

/// `start + ttl * (1 - drift) - 2 ms`: the moment after which a round begun at `start` is not relied on.
///
/// Proof obligation: `start` is read before the first byte of the round is sent. A master sets its expiry after that
/// and its clock runs at most `drift` faster than ours, so our key is there until this moment
/// (`docs/SAFETY.md#vote-lemma`, case 1).
pub fn until(start: Mono, ttl: Duration, drift: Drift) -> Mono {
    start.plus(drift.shorten(ttl)).minus(SLACK).max(start)
}

/// The ttl to ask the masters for, so that a round that begins now is valid for at least `wanted`: whole milliseconds,
/// and not one too many.
pub fn ttl_for(wanted: Duration, drift: Drift) -> Duration {
    let shortened = u128::from(nanos(wanted.saturating_add(SLACK))) * 1_000_000;
    let ttl = shortened.div_ceil(u128::from(1_000_000 - drift.0)).div_ceil(1_000_000);
    Duration::from_millis(u64::try_from(ttl).unwrap_or(u64::MAX))
}

/// The longest time, in whole milliseconds, for which a round that asks for `ttl` is valid: what [`ttl_for`] turns into
/// at most `ttl`.
pub fn longest_for(ttl: Duration, drift: Drift) -> Duration {
    let valid = drift.shorten(Duration::from_millis(nanos(ttl) / 1_000_000)).saturating_sub(SLACK);
    Duration::from_millis(nanos(valid) / 1_000_000)
}

/// How long one master may take to answer a round of a lock with this ttl, unless it was `set`.
pub fn master_timeout(ttl: Duration, set: Option<Duration>) -> Duration {
    set.unwrap_or_else(|| (ttl / 50).clamp(Duration::from_millis(50), Duration::from_millis(500)))
}

/// How long the watchdog waits for a renewal of a lock with this ttl, unless it was `set`: a sixth of the ttl, which
/// leaves time for two more tries. Longer than a caller waits: while the answers of living masters are only late,
/// because the processors are busy, another try would be late too.
pub fn renewal_timeout(ttl: Duration, set: Option<Duration>) -> Duration {
    set.unwrap_or_else(|| (ttl / 6).max(Duration::from_millis(50).min(ttl / 2)))
}

/// How long a round of a lock with this ttl is waited for, unless it was `set`: a tenth of the ttl, but leave short
/// leases 50 ms; never longer than one master may take.
pub fn round_timeout(ttl: Duration, set: Option<Duration>, master: Option<Duration>) -> Duration {
    let whole = set.unwrap_or_else(|| (ttl / 10).max(Duration::from_millis(50).min(ttl / 2)));
    whole.min(master_timeout(ttl, master))
}
