//! Clocks that run at their own rate and may be stepped.

/// Nanoseconds of true time.
pub type Time = u64;

/// Microseconds since 1970 at the beginning of a history.
pub const EPOCH_US: i64 = 1_790_000_000_000_000;

/// A clock: true time in, its own time out. Rates are parts per million above true time.
#[derive(Clone, Debug)]
pub struct Clock {
    from: Time,
    at_from: i128,
    ppm: i64,
}

impl Clock {
    /// A clock that shows `nanos` at the beginning.
    pub fn new(nanos: i128, ppm: i64) -> Clock {
        Clock { from: 0, at_from: nanos, ppm }
    }

    /// A wall clock that is `offset_us` ahead of true time.
    pub fn wall(offset_us: i64, ppm: i64) -> Clock {
        Clock::new(i128::from(EPOCH_US + offset_us) * 1_000, ppm)
    }

    /// What it shows, in nanoseconds.
    pub fn nanos(&self, now: Time) -> i128 {
        let passed = i128::from(now) - i128::from(self.from);
        self.at_from + passed + passed * i128::from(self.ppm) / 1_000_000
    }

    /// What it shows, in microseconds.
    pub fn micros(&self, now: Time) -> i64 {
        self.nanos(now).div_euclid(1_000) as i64
    }

    /// The first true time at which it shows at least `nanos`, if it is not touched.
    pub fn when(&self, nanos: i128) -> Time {
        let rate = 1_000_000 + i128::from(self.ppm);
        let left = (nanos - self.at_from).max(0);
        let mut at = i128::from(self.from) + left * 1_000_000 / rate;
        while self.nanos(at as Time) < nanos {
            at += 1;
        }
        Time::try_from(at).unwrap_or(Time::MAX)
    }

    /// Steps it by `us` microseconds.
    pub fn step(&mut self, us: i64, now: Time) {
        *self = Clock { from: now, at_from: self.nanos(now) + i128::from(us) * 1_000, ppm: self.ppm };
    }

    /// Has it run at another rate from now on.
    pub fn slew(&mut self, ppm: i64, now: Time) {
        *self = Clock { from: now, at_from: self.nanos(now), ppm };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_is_the_first_moment_that_shows_it() {
        for ppm in [-9_900, -3, 0, 7, 10_000] {
            let mut clock = Clock::new(5, ppm);
            clock.slew(-ppm, 1_000_003);
            for nanos in [2_000_000_i128, 1_234_567_891, 86_400_000_000_001] {
                let at = clock.when(nanos);
                assert!(clock.nanos(at) >= nanos && clock.nanos(at - 1) < nanos, "{ppm} {nanos}");
            }
        }
    }
}
