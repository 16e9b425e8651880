//! The only readers of the system's clocks.

use crate::protocol::time::Mono;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Whether the clock goes on while the machine is suspended. Rust's `Instant` does not, on Linux.
pub(crate) const COUNTS_SUSPEND: bool = cfg!(all(target_os = "linux", not(redleash_portable)));

#[cfg(all(target_os = "linux", not(redleash_portable)))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(all(target_os = "linux", not(redleash_portable))))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Now, on the clock that leases are measured by.
pub(crate) fn now() -> Mono {
    let t = clock_gettime(CLOCK);
    Mono::from_nanos((t.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(t.tv_nsec as u64))
}

/// Microseconds since 1970 by the wall clock: for labels. No deadline rests on it.
#[expect(clippy::disallowed_methods, reason = "the one reader of the wall clock")]
pub(crate) fn wall_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64)
}

/// How long it is until a user's `Instant`.
#[expect(clippy::disallowed_methods, reason = "users give deadlines as Instant")]
pub(crate) fn until(instant: Instant) -> Duration {
    instant.saturating_duration_since(Instant::now())
}
