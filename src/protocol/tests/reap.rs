use super::super::Mono;
use super::super::reap::next_attempt;
use super::{at, ms};

/// All attempts at a release whose first failure was at `at(0)`, with the key's end at `ends`, each made on time.
fn attempts(ends: Mono) -> Vec<Mono> {
    let mut now = at(0);
    let mut all = Vec::new();
    for attempt in 0..10 {
        if let Some(next) = next_attempt(attempt, now, ends) {
            all.push(next);
            now = next;
        }
    }
    all
}

#[test]
fn a_long_lived_key_is_tried_after_a_second_and_shortly_before_its_end() {
    assert_eq!(attempts(at(30_000)), [at(1_000), at(29_500)]);
}

#[test]
fn every_attempt_is_in_the_future_and_before_the_end_of_the_key() {
    for ends in 0..5_000 {
        let all = attempts(at(ends));
        assert!(all.len() <= 2, "{ends}");
        assert!(all.iter().all(|t| *t > at(0) && *t < at(ends)), "{ends}: {all:?}");
        assert!(all.windows(2).all(|w| w[0] < w[1]), "{ends}: {all:?}");
    }
}

#[test]
fn a_key_that_ends_soon_is_left_to_its_ttl() {
    assert!(attempts(at(300)).is_empty());
    assert!(attempts(at(0)).is_empty());
    assert_eq!(next_attempt(0, at(10), at(5)), None);
    assert_eq!(next_attempt(1, at(10), at(5)), None);
}

#[test]
fn a_key_whose_end_is_not_known_does_not_overflow() {
    assert_eq!(next_attempt(0, at(0), Mono::NEVER), Some(at(1_000)));
    assert_eq!(next_attempt(1, at(0), Mono::NEVER), Some(Mono::NEVER.minus(ms(500))));
    assert_eq!(next_attempt(0, Mono::NEVER, Mono::NEVER), None);
}
