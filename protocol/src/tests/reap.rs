use super::super::Mono;
use super::super::reap::{FIRST_PAUSE, LONGEST_PAUSE, Next, Orphans, next_attempt};
use super::{Seeded, at, ms};
use std::time::Duration;

/// All tries at a release whose first failure was at `at(0)`, with the key's end at `ends`, each made on time.
fn attempts(ends: Mono) -> Vec<Mono> {
    let mut now = at(0);
    let mut all = Vec::new();
    for attempt in 0..100 {
        if let Some(next) = next_attempt(attempt, now, ends) {
            all.push(next);
            now = next;
        }
    }
    all
}

/// Everything that is due for a master that can be reached.
fn due(orphans: &mut Orphans<u32>, now: Mono) -> Vec<u32> {
    let step = |next| match next {
        Next::Post { release, .. } => Some(release),
        Next::Wait | Next::Ended(_) => None,
    };
    std::iter::from_fn(|| orphans.next(now, |_| true)).filter_map(step).collect()
}

#[test]
fn a_release_is_tried_soon_and_then_every_second_until_its_key_ends() {
    assert_eq!(attempts(at(4_000)), [at(100), at(300), at(700), at(1_500), at(2_500), at(3_500)]);
    assert_eq!(attempts(at(30_000)).len(), 32);
}

#[test]
fn every_attempt_is_in_the_future_and_before_the_end_of_the_key() {
    for ends in 0..5_000 {
        let all = attempts(at(ends));
        assert!(all.iter().all(|t| *t > at(0) && *t < at(ends)), "{ends}: {all:?}");
        assert!(all.windows(2).all(|w| (FIRST_PAUSE..=LONGEST_PAUSE).contains(&w[1].since(w[0]))), "{ends}: {all:?}");
    }
}

#[test]
fn a_key_that_ends_soon_is_left_to_its_ttl() {
    assert!(attempts(at(100)).is_empty());
    assert_eq!(next_attempt(0, at(10), at(5)), None);
    let mut orphans = Orphans::new(1_000);
    orphans.take(1, 1, 0, at(50), at(0));
    assert_eq!((orphans.len(), orphans.given_up(), orphans.next_due()), (0, 1, None));
}

#[test]
fn a_key_whose_end_is_not_known_does_not_overflow() {
    assert_eq!(next_attempt(0, at(0), Mono::NEVER), Some(at(100)));
    assert_eq!(next_attempt(u32::MAX, at(0), Mono::NEVER), Some(at(1_000)));
    assert_eq!(next_attempt(0, Mono::NEVER, Mono::NEVER), None);
}

#[test]
fn releases_are_sent_again_in_the_order_in_which_they_are_due() {
    let mut orphans = Orphans::new(1_000);
    orphans.take(1, 1, 2, at(9_000), at(0)); // due at 400
    orphans.take(2, 1, 0, at(9_000), at(10)); // due at 110
    orphans.take(3, 1, 0, at(9_000), at(20)); // due at 120
    orphans.take(4, 1, 1, at(9_000), at(0)); // due at 200
    assert_eq!(orphans.next_due(), Some(at(110)));
    assert!(due(&mut orphans, at(109)).is_empty());
    assert_eq!(due(&mut orphans, at(399)), [2, 3, 4]);
    assert_eq!(orphans.next_due(), Some(at(400)));
    assert_eq!(due(&mut orphans, at(400)), [1]);
    assert!(orphans.is_empty());
}

#[test]
fn what_is_sent_again_carries_how_often_and_until_when() {
    let mut orphans = Orphans::new(1_000);
    orphans.take(7, 1, 4, at(9_000), at(0));
    assert_eq!(orphans.next(at(1_000), |_| true), Some(Next::Post { release: 7, tries: 5, key_ends: at(9_000) }));
}

#[test]
fn while_a_master_is_away_a_release_is_looked_at_once_and_again_when_its_key_ends() {
    let mut orphans = Orphans::new(1_000);
    orphans.take(1, 1, 0, at(5_000), at(0));
    assert_eq!(orphans.next(at(100), |_| false), Some(Next::Wait));
    assert_eq!((orphans.next(at(4_999), |_| false), orphans.next_due()), (None, Some(at(5_000))));
    assert_eq!(orphans.next(at(5_000), |_| false), Some(Next::Ended(1)));
    assert_eq!((orphans.len(), orphans.given_up()), (0, 1));
}

#[test]
fn everything_is_due_when_the_master_is_back_but_not_what_fails_after_that() {
    let mut orphans = Orphans::new(1_000);
    for k in 0..10 {
        orphans.take(k, 1, k % 3, at(9_000), at(0));
    }
    orphans.reconnected();
    orphans.take(10, 1, 1, at(9_000), at(1));
    let mut sent = due(&mut orphans, at(1));
    sent.sort_unstable();
    assert_eq!(sent, (0..10).collect::<Vec<_>>());
    assert_eq!(orphans.next_due(), Some(at(201)));
}

#[test]
fn the_memory_is_bounded_and_what_is_given_up_is_counted() {
    let mut orphans = Orphans::new(100);
    for k in 0..50 {
        orphans.take(k, 3, 0, at(9_000), at(0));
    }
    assert_eq!((orphans.len(), orphans.given_up()), (33, 17));
    assert_eq!(due(&mut orphans, at(200)).len(), 33);
    orphans.take(50, 3, 0, at(9_000), at(200));
    assert_eq!((orphans.len(), orphans.given_up()), (1, 17), "room is given back");
}

#[test]
fn nothing_is_lost_or_sent_twice_whatever_happens() {
    for seed in 0..300 {
        let mut random = Seeded(seed);
        let mut orphans = Orphans::new(60);
        let (mut now, mut taken, mut sent) = (at(0), 0_u32, Vec::new());
        for _ in 0..400 {
            now = now.plus(Duration::from_millis(random.below(80)));
            match random.below(4) {
                0 | 1 => {
                    let ends = now.plus(ms(random.below(3_000)));
                    orphans.take(taken, 1, random.below(4) as u32, ends, now);
                    taken += 1;
                }
                2 if random.below(8) == 0 => orphans.reconnected(),
                _ => {
                    let up = random.below(3) > 0;
                    while let Some(next) = orphans.next(now, |_| up) {
                        if let Next::Post { release, key_ends, .. } = next {
                            assert!(up && now < key_ends, "seed {seed}");
                            sent.push(release);
                        }
                    }
                    assert!(orphans.next_due().is_none_or(|due| due > now), "seed {seed}: something due was left");
                }
            }
            assert!(orphans.len() <= 60, "seed {seed}");
            assert_eq!(sent.len() + orphans.len() + orphans.given_up() as usize, taken as usize, "seed {seed}");
        }
        let all = sent.len();
        sent.sort_unstable();
        sent.dedup();
        assert_eq!(sent.len(), all, "seed {seed}: sent twice");
    }
}
