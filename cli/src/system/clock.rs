//! The clock by which leases are measured: it also counts while the machine sleeps.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// A moment in nanoseconds since this machine was started; the same for all its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) u64);

impl Moment {
    pub(crate) const NEVER: Moment = Moment(u64::MAX);

    pub(crate) fn now() -> Moment {
        let t = clock_gettime(CLOCK);
        Moment((t.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(t.tv_nsec as u64))
    }

    pub(crate) fn plus(self, d: Duration) -> Moment {
        Moment(self.0.saturating_add(nanos(d)))
    }

    pub(crate) fn minus(self, d: Duration) -> Moment {
        Moment(self.0.saturating_sub(nanos(d)))
    }

    /// How long it is since `earlier`; zero if that is later.
    pub(crate) fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970.
pub(crate) fn wall_ms() -> u64 {
    let t = clock_gettime(ClockId::Realtime);
    (t.tv_sec as u64).saturating_mul(1000).saturating_add(t.tv_nsec as u64 / 1_000_000)
}

/// `2026-11-21 10:31:05 UTC`.
pub(crate) fn date(wall_ms: u64) -> String {
    let (days, second) = ((wall_ms / 86_400_000) as i64, wall_ms / 1000 % 86_400);
    // Days to a date of the Gregorian calendar, in years that begin in March (Hinnant's civil_from_days).
    let z = days + 719_468;
    let (era, of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_400_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_795_256_265_999), "2026-11-21 10:17:45 UTC");
    }
}
