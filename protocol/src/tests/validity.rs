use super::super::time::{Mono, millis_up, nanos};
use super::super::validity::{
    Drift, SLACK, longest_for, master_timeout, renewal_timeout, round_timeout, ttl_for, until,
};
use super::{Seeded, at, ms};
use std::time::Duration;

const MILLION: u128 = 1_000_000;

/// Small, ordinary, extreme and random durations below the saturation of nanoseconds.
fn durations() -> Vec<Duration> {
    let mut all: Vec<u64> = (0..70).flat_map(|b: u32| 1_u64.checked_shl(b)).flat_map(|x| [x - 1, x, x + 1]).collect();
    all.extend([0, u64::MAX - 1, u64::MAX, 30_000_000_000, 60_000_000_000]);
    let mut seeded = Seeded(1);
    all.extend((0..500).map(|_| seeded.next() >> seeded.below(64)));
    all.into_iter().map(Duration::from_nanos).collect()
}

fn drifts() -> impl Iterator<Item = Drift> {
    [0, 1, 3, 500, 10_000, 99_999, 100_000, 333_333, 499_999, 500_000].into_iter().filter_map(Drift::from_ppm)
}

#[test]
fn a_drift_is_at_most_one_half() {
    assert_eq!(Drift::from_ppm(500_000).map(Drift::ppm), Some(500_000));
    assert_eq!(Drift::from_ppm(500_001), None);
    assert_eq!(Drift::from_ppm(u32::MAX), None);
    assert_eq!(Drift::DEFAULT.ppm(), 10_000);
}

#[test]
fn shorten_is_the_exact_product_rounded_down() {
    for drift in drifts() {
        for d in durations() {
            let short = u128::from(nanos(drift.shorten(d)));
            let exact = d.as_nanos() * (MILLION - u128::from(drift.ppm()));
            assert!(short * MILLION <= exact && exact < (short + 1) * MILLION, "{drift:?} {d:?}");
        }
    }
}

#[test]
fn lengthen_is_the_exact_product_rounded_up_or_the_largest_value() {
    for drift in drifts() {
        for d in durations() {
            let long = u128::from(nanos(drift.lengthen(d)));
            let exact = d.as_nanos() * (MILLION + 2 * u128::from(drift.ppm()));
            let saturated = long == u128::from(u64::MAX) && exact >= long * MILLION;
            assert!(saturated || (long * MILLION >= exact && exact + MILLION > long * MILLION), "{drift:?} {d:?}");
        }
    }
}

#[test]
fn a_grant_is_valid_for_the_shortened_ttl_less_the_slack() {
    assert_eq!(until(at(0), ms(30_000), Drift::DEFAULT), at(29_698));
    for drift in drifts() {
        for d in durations() {
            let start = 1_000_000_000_000_u64;
            let exact = u128::from(start) + u128::from(nanos(drift.shorten(d)));
            let want = exact.min(u128::from(u64::MAX)) - SLACK.as_nanos();
            let have = until(Mono::from_nanos(start), d, drift).nanos();
            assert_eq!(u128::from(have), want.max(u128::from(start)), "{drift:?} {d:?}");
        }
    }
}

#[test]
fn a_grant_is_never_valid_longer_than_the_key_lives_on_a_master_whose_clock_is_fast_by_the_drift() {
    for drift in drifts() {
        for d in durations().into_iter().filter(|d| *d < Duration::from_secs(1 << 32)) {
            // The master counts ttl while our clock counts ttl / (1 + drift).
            let trusted = until(Mono::from_nanos(1 << 20), d, drift).since(Mono::from_nanos(1 << 20));
            assert!(
                trusted.as_nanos() * (MILLION + u128::from(drift.ppm())) <= d.as_nanos() * MILLION,
                "{drift:?} {d:?}"
            );
        }
    }
}

#[test]
fn a_ttl_below_the_slack_is_valid_for_no_time() {
    for ttl in [Duration::ZERO, Duration::from_nanos(1), ms(1), ms(2)] {
        assert_eq!(until(at(0), ttl, Drift::DEFAULT), at(0));
        assert_eq!(until(Mono::ZERO, ttl, Drift::DEFAULT), Mono::ZERO);
    }
}

#[test]
fn moments_saturate_at_both_ends() {
    assert_eq!(Mono::NEVER.plus(ms(1)), Mono::NEVER);
    assert_eq!(at(0).plus(Duration::MAX), Mono::NEVER);
    assert_eq!(Mono::ZERO.minus(ms(1)), Mono::ZERO);
    assert_eq!(at(0).minus(Duration::MAX), Mono::ZERO);
    assert_eq!(at(0).since(at(1)), Duration::ZERO);
    assert_eq!(at(1).since(at(0)), ms(1));
    assert!(until(Mono::NEVER, Duration::MAX, Drift::DEFAULT) <= Mono::NEVER);
    assert_eq!(nanos(Duration::MAX), u64::MAX);
}

#[test]
fn milliseconds_are_rounded_up_as_a_key_must_not_live_shorter_than_asked() {
    let up = |n| millis_up(Duration::from_nanos(n));
    assert_eq!([0, 1, 999_999, 1_000_000, 1_000_001].map(up), [0, 1, 1, 1, 2]);
    for d in durations() {
        assert!(u128::from(millis_up(d)) * MILLION >= d.as_nanos(), "{d:?}");
    }
}

#[test]
fn how_long_a_master_and_a_round_may_take() {
    for (ttl, master, round) in [(60, 50, 30), (300, 50, 50), (2_500, 50, 50), (10_000, 200, 200), (60_000, 500, 500)] {
        assert_eq!(
            (master_timeout(ms(ttl), None), round_timeout(ms(ttl), None, None)),
            (ms(master), ms(round)),
            "{ttl} ms"
        );
    }
    // With a patient master: a tenth of the ttl, 50 ms at least, but no more than half of it.
    for (ttl, round) in [(60, 30), (300, 50), (800, 80), (10_000, 1_000)] {
        assert_eq!(round_timeout(ms(ttl), None, Some(ms(9_000))), ms(round), "{ttl} ms");
    }
    for (ttl, renewal) in [(60, 30), (300, 50), (3_000, 500), (30_000, 5_000)] {
        assert_eq!(renewal_timeout(ms(ttl), None), ms(renewal), "{ttl} ms");
        assert!(renewal_timeout(ms(ttl), None) >= round_timeout(ms(ttl), None, None), "{ttl} ms");
    }
    assert_eq!(renewal_timeout(ms(3_000), Some(ms(70))), ms(70));
    assert_eq!(master_timeout(ms(10_000), Some(ms(7))), ms(7));
    assert_eq!(round_timeout(ms(10_000), Some(ms(70)), None), ms(70));
    assert_eq!(round_timeout(ms(10_000), Some(ms(700)), None), ms(200), "never longer than one master may take");
}

/// Wanted times from the shortest to beyond what nanoseconds hold.
fn wanted() -> impl Iterator<Item = Duration> {
    let round = [100, 150, 999, 1_000, 2_345, 29_999, 30_000, 60_000, 3_600_000, 86_400_000].map(ms);
    round.into_iter().chain(durations())
}

#[test]
fn a_round_that_asks_for_the_ttl_for_a_time_is_valid_for_at_least_this_time_and_no_shorter_ttl_would_be() {
    assert_eq!(ttl_for(ms(30_000), Drift::DEFAULT), ms(30_306));
    for drift in drifts() {
        for wanted in wanted().filter(|d| d.as_nanos() < u128::from(u64::MAX / 4)) {
            let (start, ttl) = (Mono::from_nanos(7), ttl_for(wanted, drift));
            assert!(until(start, ttl, drift) >= start.plus(wanted), "{wanted:?} {drift:?}");
            assert!(until(start, ttl - ms(1), drift) < start.plus(wanted) || wanted.is_zero(), "{wanted:?} {drift:?}");
            assert_eq!(ttl, Duration::from_millis(millis_up(ttl)), "whole milliseconds");
        }
        assert!(ttl_for(Duration::MAX, drift) >= Duration::from_nanos(u64::MAX));
    }
}

#[test]
fn the_longest_time_for_a_ttl_is_the_last_one_that_fits_it() {
    assert_eq!(longest_for(ms(60_000), Drift::DEFAULT), ms(59_398));
    for drift in drifts() {
        for ttl in wanted().filter(|d| *d >= ms(10) && d.as_nanos() < u128::from(u64::MAX / 4)) {
            let longest = longest_for(ttl, drift);
            assert!(ttl_for(longest, drift) <= ttl, "{ttl:?} {drift:?}");
            assert!(ttl_for(longest + ms(1), drift) > ttl, "{ttl:?} {drift:?}");
        }
    }
}
