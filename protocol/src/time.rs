//! Time as an integer: nanoseconds on a clock that counts suspend.

use std::time::Duration;

/// A moment on the client's suspend-aware monotonic clock, in nanoseconds. Arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(u64);

impl Mono {
    /// The beginning of time; as a deadline it has always passed.
    pub const ZERO: Mono = Mono(0);
    /// The end of time; as a deadline it does not come.
    pub const NEVER: Mono = Mono(u64::MAX);

    /// The moment `nanos` nanoseconds after [`Mono::ZERO`].
    pub const fn from_nanos(nanos: u64) -> Mono {
        Mono(nanos)
    }

    /// Nanoseconds since [`Mono::ZERO`].
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// This moment plus `d`, at most [`Mono::NEVER`].
    pub fn plus(self, d: Duration) -> Mono {
        Mono(self.0.saturating_add(nanos(d)))
    }

    /// This moment less `d`, at least [`Mono::ZERO`].
    pub fn minus(self, d: Duration) -> Mono {
        Mono(self.0.saturating_sub(nanos(d)))
    }

    /// How long after `earlier` this moment is; zero if it is not after.
    pub fn since(self, earlier: Mono) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A duration in nanoseconds, at most `u64::MAX` (584 years).
pub fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

/// A duration in whole milliseconds, rounded up, as `PX` takes it.
pub fn millis_up(d: Duration) -> u64 {
    nanos(d).div_ceil(1_000_000)
}
