use super::super::retry::{Backoff, after_failed_renewal, after_split, between};
use super::{Seeded, ms};
use std::time::Duration;

const RANDOM: [u64; 7] = [0, 1, 1 << 32, 1 << 63, (1 << 63) + 1, u64::MAX - 1, u64::MAX];

#[test]
fn between_stays_between_and_reaches_both_ends() {
    for (low, high) in [(0, 0), (0, 1), (50, 250), (250, 50), (7, 7)] {
        for random in RANDOM {
            let have = between(ms(low), ms(high), random);
            assert!(have >= ms(low) && have <= ms(high.max(low)), "{low} {high} {random}");
        }
    }
    assert_eq!(between(ms(50), ms(250), 0), ms(50));
    assert!(between(ms(50), ms(250), u64::MAX) > ms(249));
    assert_eq!(between(ms(0), ms(200), 1 << 63), ms(100));
    assert!(between(Duration::ZERO, Duration::MAX, u64::MAX) <= Duration::MAX);
    assert_eq!(between(Duration::MAX, Duration::ZERO, u64::MAX), Duration::MAX);
}

#[test]
fn a_pause_is_at_least_min_and_at_most_what_it_has_grown_to() {
    let backoff = Backoff::DEFAULT;
    for attempt in 0..40_u32 {
        let grown = (250.0 * 1.5_f64.powi(attempt as i32)).min(1_000.0).ceil() as u64;
        for random in RANDOM {
            let pause = backoff.pause(attempt, None, random);
            assert!(pause >= ms(50) && pause <= ms(grown), "{attempt} {random}: {pause:?}");
        }
        assert!(backoff.pause(attempt, None, u64::MAX) >= ms(grown - 1), "{attempt}");
    }
    assert!(backoff.pause(u32::MAX, None, u64::MAX) <= ms(1_000));
}

#[test]
fn a_pause_ends_with_the_key_that_it_waits_for() {
    let backoff = Backoff::DEFAULT;
    for attempt in [0, 3, 50] {
        for hint in [0, 1, 10, 49, 200, 5_000] {
            for random in RANDOM {
                let pause = backoff.pause(attempt, Some(ms(hint)), random);
                assert!(pause <= ms(hint + 50) && pause <= backoff.pause(attempt, None, random), "{hint} {random}");
                // Not before the key's end either, unless the back-off alone is shorter: that try would be in vain.
                assert!(pause > ms(hint) || pause == backoff.pause(attempt, None, random), "{hint} {random}");
            }
        }
    }
}

#[test]
fn settings_that_contradict_each_other_do_not_panic() {
    let odd = [
        Backoff { min: ms(500), max: ms(100), cap: ms(10) },
        Backoff { min: Duration::ZERO, max: Duration::ZERO, cap: Duration::ZERO },
        Backoff { min: Duration::MAX, max: Duration::MAX, cap: Duration::MAX },
        Backoff { min: Duration::ZERO, max: Duration::MAX, cap: Duration::MAX },
    ];
    for backoff in odd {
        for attempt in [0, 1, 16, u32::MAX] {
            for random in RANDOM {
                assert!(backoff.pause(attempt, None, random) >= backoff.min);
                for hint in [Duration::ZERO, Duration::MAX] {
                    assert!(backoff.pause(attempt, Some(hint), random) <= backoff.pause(attempt, None, random));
                }
            }
        }
    }
}

#[test]
fn after_a_split_vote_rivals_spread_over_three_rounds() {
    for random in RANDOM {
        assert!(after_split(ms(4), 0, ms(1_000), random) <= ms(12));
    }
    assert_eq!(after_split(ms(4), 0, ms(1_000), 1 << 63), ms(6));
    let mut seeded = Seeded(3);
    let low = (0..1_000).filter(|_| after_split(ms(4), 0, ms(1_000), seeded.next()) < ms(6)).count();
    assert!((400..600).contains(&low), "{low} of 1000 in the lower half");
}

#[test]
fn splits_in_a_row_widen_the_pause_up_to_the_cap_and_no_further() {
    // Without growth, a minority of votes that never moves would be asked for as fast as the network allows.
    let widest = |splits| after_split(Duration::from_micros(200), splits, ms(1_000), u64::MAX);
    assert!(widest(0) < ms(1));
    for splits in 0..64 {
        assert!(widest(splits + 1) >= widest(splits) && widest(splits) <= ms(1_000), "{splits}");
    }
    assert!(widest(20) > ms(999) && widest(u32::MAX) > ms(999));
    // A round that took seconds does not make the pause longer than the cap, and does not heap draws up at it.
    assert_eq!(after_split(Duration::from_secs(3), 0, ms(1_000), 1 << 63), ms(500));
    assert!(after_split(Duration::ZERO, 30, ms(1_000), u64::MAX) > Duration::ZERO);
    assert!(after_split(Duration::MAX, u32::MAX, Duration::MAX, u64::MAX) <= Duration::MAX);
}

#[test]
fn a_failed_renewal_is_tried_again_within_a_tenth_of_the_ttl() {
    for ttl in [1, 100, 500, 3_000, 30_000, 60_000] {
        for failures in (0..40).chain([u32::MAX]) {
            for random in RANDOM {
                let pause = after_failed_renewal(ms(ttl), failures, random);
                let high = ms(50).max(ms(ttl) / 60).saturating_mul(1 << failures.min(8)).min(ms(ttl) / 10);
                assert!(pause <= high && pause >= high / 4, "{ttl} {failures} {random}: {pause:?}");
            }
        }
    }
    assert!(after_failed_renewal(Duration::MAX, u32::MAX, u64::MAX) <= Duration::MAX / 10);
    assert!(after_failed_renewal(ms(100), 0, 0) > ms(2));
}
