use super::super::wakeup::{CREDIT, Leave, Message, Wakeup};
use super::super::{Mono, Quorum};
use super::{Seeded, at, ms, quorums};
use std::time::Duration;

fn three() -> Quorum {
    Quorum::new(3, 0).unwrap()
}

/// A message that says nothing of who has waited longest.
fn said(waiters: u64) -> Message {
    Message { waiters, first: None }
}

/// A message that says who has waited longest.
fn first(waiters: u64, first: u64) -> Message {
    Message { waiters, first: Some(first) }
}

/// The number of the waiter under test.
const ME: u64 = 77;

/// A waiter whose last attempt was refused after 2 ms, and which polls at 10 s.
fn waiting(quorum: Quorum) -> Wakeup {
    let mut wakeup = Wakeup::new(quorum, at(0), ME << 12);
    assert!(wakeup.attempt(at(0)).is_some(), "the first attempt leaves word");
    assert_eq!(wakeup.refused(ms(2), at(0), at(10_000), 0), at(10_000));
    assert_eq!(wakeup.due(), Mono::NEVER);
    wakeup
}

#[test]
fn a_lone_waiter_tries_at_the_message_of_the_last_master_of_a_quorum() {
    for quorum in quorums(7) {
        let mut wakeup = waiting(quorum);
        for i in 0..quorum.votes() {
            wakeup.on_message(i, said(1), at(100), u64::MAX);
            let expected = if i + 1 == quorum.votes() { at(100) } else { at(102) };
            assert_eq!(
                wakeup.due(),
                expected,
                "{quorum:?}, message {i}: at the quorum, or a round trip after the first"
            );
        }
    }
}

#[test]
fn messages_of_one_master_are_one_message() {
    let mut wakeup = waiting(three());
    for _ in 0..10 {
        wakeup.on_message(0, said(1), at(100), 0);
    }
    assert_eq!(wakeup.due(), at(102));
}

#[test]
fn an_attempt_forgets_what_was_heard_before_it() {
    let mut wakeup = waiting(three());
    wakeup.on_message(0, said(1), at(100), 0);
    assert!(wakeup.attempt(at(0)).is_some(), "alone, it leaves word again");
    assert_eq!(wakeup.due(), Mono::NEVER);
    wakeup.on_message(1, said(1), at(101), 0);
    assert_eq!(wakeup.due(), at(103), "the message of master 0 does not count any more");
}

#[test]
fn what_is_heard_during_an_attempt_counts() {
    let mut wakeup = waiting(three());
    assert!(wakeup.attempt(at(0)).is_some());
    wakeup.on_message(0, said(1), at(100), 0);
    wakeup.on_message(2, said(1), at(100), 0);
    assert_eq!(wakeup.refused(ms(2), at(101), at(10_000), 0), at(10_000));
    assert_eq!(wakeup.due(), at(100), "try again at once");
}

#[test]
fn after_a_lost_race_the_winner_has_its_turn_before_word_is_left_again() {
    for (waiters, least, most) in [(2, 1_750, 2_250), (8, 7_000, 9_000), (500, 8_750, 11_250)] {
        for random in [0, 1 << 63, u64::MAX] {
            let mut wakeup = waiting(three());
            wakeup.on_message(0, said(waiters), at(100), 0);
            wakeup.on_message(1, said(waiters), at(100), 0);
            assert!(wakeup.attempt(at(0)).is_none(), "an attempt in a race leaves no word");
            wakeup.on_message(2, said(waiters), at(101), 0);
            let again = wakeup.refused(ms(2), at(200), at(10_000), random);
            let turn = again.since(at(200));
            assert!(turn >= Duration::from_micros(least) && turn <= Duration::from_micros(most), "{waiters}: {turn:?}");
            wakeup.on_message(2, said(waiters), at(201), 0);
            assert_eq!(wakeup.due(), Mono::NEVER, "messages during the winner's turn are not ours");
            assert!(wakeup.attempt(at(0)).is_some(), "then word is left");
            assert_eq!(wakeup.refused(ms(2), at(250), at(10_000), 0), at(10_000));
            wakeup.on_message(2, said(waiters), at(251), 0);
            assert_ne!(wakeup.due(), Mono::NEVER);
        }
    }
}

#[test]
fn the_poll_is_never_put_off() {
    let mut wakeup = waiting(three());
    wakeup.on_message(0, said(8), at(100), 0);
    wakeup.on_message(1, said(8), at(100), 0);
    wakeup.attempt(at(0));
    assert_eq!(wakeup.refused(ms(2), at(200), at(203), u64::MAX), at(203));
}

#[test]
fn whoever_waited_longest_goes_first() {
    let order = |waited: u64| {
        let mut wakeup = Wakeup::new(three(), at(0), ME << 12);
        wakeup.attempt(at(0));
        wakeup.refused(ms(2), at(0), at(100_000), 0);
        wakeup.on_message(0, said(8), at(waited), 0);
        wakeup.on_message(1, said(8), at(waited), 0);
        wakeup.due().since(at(waited))
    };
    let delays: Vec<Duration> = [0, 20, 40, 60, 80, 1_000].into_iter().map(order).collect();
    // 150 us for each of the eight, less as the wait comes near eight turns of 10 ms.
    assert_eq!(delays, [1_200, 900, 600, 300, 0, 0].map(Duration::from_micros));
}

#[test]
fn who_has_waited_longest_tries_alone_and_leaves_word() {
    let mut wakeup = waiting(three());
    wakeup.on_message(0, first(8, ME), at(100), 0);
    assert_eq!(wakeup.due(), at(102), "one master's message: a round trip for the others'");
    wakeup.on_message(1, first(8, ME), at(101), 0);
    assert_eq!(wakeup.due(), at(101), "two masters say so");
    let leave = Leave { waiter: ME, waited: ms(101), courteous: false };
    assert_eq!(wakeup.attempt(at(101)), Some(leave), "nobody races it, and it takes what it was told of");
    assert_eq!(wakeup.refused(ms(2), at(103), at(10_000), 0), at(10_000));
    assert_eq!(wakeup.due(), Mono::NEVER);
}

#[test]
fn who_has_waited_less_leaves_word_again_a_part_of_a_turn_later() {
    for (random, due) in [(0, 103_000), (u64::MAX, 105_000)] {
        let mut wakeup = waiting(three());
        wakeup.on_message(0, first(8, 5), at(100), random);
        wakeup.on_message(1, first(8, 5), at(101), random);
        let wait = wakeup.due().since(at(0));
        assert!(wait.abs_diff(Duration::from_micros(due)) < Duration::from_micros(2), "{wait:?}");
        let leave = Leave { waiter: ME, waited: ms(104), courteous: true };
        assert_eq!(wakeup.attempt(at(104)), Some(leave), "it takes nothing from those who were told");
        assert_eq!(wakeup.due(), Mono::NEVER);
        wakeup.on_message(0, first(1, 5), at(110), 0);
        assert_eq!(wakeup.due(), at(112), "who waits alone is first, whatever is said of others who have gone");
    }
}

#[test]
fn who_is_first_after_all_does_not_wait_for_anybodys_turn() {
    let mut wakeup = waiting(three());
    wakeup.on_message(0, first(8, 5), at(100), 0);
    wakeup.on_message(1, first(8, ME), at(100), 0);
    assert_eq!(wakeup.due(), at(102));
    wakeup.on_message(2, first(8, ME), at(101), 0);
    assert_eq!(wakeup.due(), at(101));
    assert!(wakeup.attempt(at(101)).is_some());
}

#[test]
fn who_was_not_told_stands_back() {
    let mut wakeup = Wakeup::new(three(), at(0), ME << 12);
    assert_eq!(wakeup.attempt(at(0)), Some(Leave { waiter: ME, waited: ms(0), courteous: true }));
    wakeup.refused(ms(2), at(2), at(50), 0);
    assert_eq!(wakeup.attempt(at(50)), Some(Leave { waiter: ME, waited: ms(50), courteous: true }), "at its poll");
    wakeup.refused(ms(2), at(52), at(100), 0);
    wakeup.on_message(0, said(1), at(60), 0);
    assert_eq!(wakeup.attempt(at(62)), Some(Leave { waiter: ME, waited: ms(62), courteous: false }), "it was told");
}

#[test]
fn forged_messages_cause_at_most_one_attempt_for_each_poll_and_a_few_more() {
    let mut random = Seeded(7);
    let waiters = [0, 1, 2, 50, u64::MAX];
    let firsts = [None, Some(ME), Some(5)];
    for (waiters, first) in waiters.into_iter().flat_map(|n| firsts.map(|first| (n, first))) {
        let mut wakeup = waiting(three());
        let (mut by_message, mut polls, mut now) = (0, 0, 0);
        while polls < 100 {
            // A thousand messages between one poll and the next.
            let poll = now + 250;
            let mut due = at(poll);
            while now < poll {
                now += 1;
                for i in 0..3 {
                    wakeup.on_message(i, Message { waiters, first }, at(now), random.next());
                }
                if wakeup.due() <= at(now) {
                    by_message += 1;
                    wakeup.attempt(at(0));
                    due = wakeup.refused(ms(1), at(now), at(poll), random.next());
                } else if due <= at(now) && now < poll {
                    wakeup.attempt(at(0));
                    due = wakeup.refused(ms(1), at(now), at(poll), random.next());
                }
            }
            polls += 1;
            wakeup.attempt(at(0));
            wakeup.refused(ms(1), at(now), at(now + 250), random.next());
        }
        assert!(by_message <= CREDIT + 2 * polls, "{waiters} {first:?}: {by_message} attempts in {polls} polls");
        assert!(by_message >= CREDIT, "{waiters} {first:?}: messages do cause attempts");
    }
}
