use super::super::command::Word;
use super::super::handover::TURN;
use super::super::wakeup::{CREDIT, Message, Wakeup, channel_of, client_number};
use super::super::{Mono, Quorum};
use super::{Seeded, at, ms, quorums};
use std::time::Duration;

fn three() -> Quorum {
    Quorum::new(3, 0).unwrap()
}

/// The lock is this waiter's to take.
fn told(waiter: u64) -> Message {
    Message { place: 1, waiter }
}

/// Another was told, and this waiter is the next.
fn next(waiter: u64) -> Message {
    Message { place: 2, waiter }
}

/// The number of the waiter under test, and what it is made of: the number of its client, and its own.
const ME: u64 = 5 << 28 | 77;
const CLIENT: u64 = 5;
const OWN: u64 = 77 << 36;
/// How long it keeps its place.
const LIFE: Duration = ms(300);

/// A waiter whose last attempt was refused after 2 ms.
fn waiting(quorum: Quorum) -> Wakeup {
    let mut wakeup = Wakeup::new(quorum, at(0), CLIENT, OWN);
    wakeup.attempt(at(0), LIFE);
    wakeup.refused(ms(2));
    assert_eq!(wakeup.due(), Mono::NEVER);
    wakeup
}

#[test]
fn who_is_told_tries_at_the_message_of_the_last_master_of_a_quorum() {
    for quorum in quorums(7) {
        let mut wakeup = waiting(quorum);
        for i in 0..quorum.votes() {
            wakeup.on_message(i, told(ME), at(100), u64::MAX);
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
fn who_was_in_line_before_its_subscription_tries_again() {
    let mut wakeup = Wakeup::new(three(), at(0), CLIENT, OWN);
    wakeup.subscribed(at(1));
    assert_eq!(wakeup.due(), Mono::NEVER, "it is about to try");
    wakeup.attempt(at(2), LIFE);
    wakeup.subscribed(at(3));
    wakeup.refused(ms(2));
    assert_eq!(wakeup.due(), at(3));
    wakeup.subscribed(at(9));
    assert_eq!(wakeup.due(), at(3));
    // A connection that breaks and is made again, over and over, costs no more than messages may.
    for n in 0..u64::from(CREDIT) {
        assert_eq!(wakeup.due(), at(3 + n), "{n}");
        wakeup.attempt(at(4 + n), LIFE);
        wakeup.refused(ms(1));
        wakeup.subscribed(at(4 + n));
    }
    assert_eq!(wakeup.due(), Mono::NEVER);
}

#[test]
fn messages_of_one_master_are_one_message() {
    let mut wakeup = waiting(three());
    for n in 0..10 {
        wakeup.on_message(0, told(ME), at(100 + n), 0);
    }
    assert_eq!(wakeup.due(), at(102));
}

#[test]
fn an_attempt_forgets_what_was_heard_before_it() {
    let mut wakeup = waiting(three());
    wakeup.on_message(0, told(ME), at(100), 0);
    wakeup.attempt(at(101), LIFE);
    wakeup.refused(ms(3));
    assert_eq!(wakeup.due(), Mono::NEVER);
    wakeup.on_message(1, told(ME), at(105), 0);
    assert_eq!(wakeup.due(), at(108), "the message of master 0 does not count any more");
}

#[test]
fn what_is_heard_during_an_attempt_counts() {
    let mut wakeup = waiting(three());
    wakeup.attempt(at(99), LIFE);
    wakeup.on_message(0, told(ME), at(100), 0);
    wakeup.on_message(2, told(ME), at(100), 0);
    wakeup.refused(ms(2));
    assert_eq!(wakeup.due(), at(100), "try again at once");
}

#[test]
fn an_attempt_says_how_long_its_waiter_has_waited_and_whether_it_was_told() {
    let word = |ms, waited_us, courteous| Word { waiter: ME, ms, waited_us, courteous };
    let mut wakeup = Wakeup::new(three(), at(10), CLIENT, OWN);
    assert_eq!(wakeup.attempt(at(10), LIFE), word(300, 0, true));
    wakeup.refused(ms(2));
    assert_eq!(wakeup.attempt(at(50), LIFE), word(300, 40_000, true), "at its poll");
    wakeup.refused(ms(2));
    wakeup.on_message(0, next(ME), at(60), 0);
    assert_eq!(wakeup.attempt(at(75), LIFE), word(300, 65_000, true), "others were told");
    wakeup.refused(ms(2));
    wakeup.on_message(0, told(ME), at(80), 0);
    assert_eq!(wakeup.attempt(at(82), Duration::ZERO), word(1, 72_000, false), "it was told, and has no time left");
    assert_eq!(wakeup.number(), ME);
}

#[test]
fn the_next_tries_when_it_has_heard_nothing_more_for_two_turns() {
    for (random, turns) in [(0, 2), (u64::MAX, 3)] {
        let mut wakeup = waiting(three());
        wakeup.on_message(0, next(ME), at(100), random);
        let wait = wakeup.due().since(at(100));
        assert!(wait.abs_diff(ms(8) * turns) < Duration::from_micros(1), "{wait:?}, not {turns} x 8 ms");
        wakeup.on_message(1, next(ME), at(107), random);
        assert_eq!(wakeup.due().since(at(107)), wait, "each message puts it off");
    }
    let mut near = Wakeup::new(three(), at(0), CLIENT, OWN);
    near.attempt(at(0), LIFE);
    near.refused(Duration::from_micros(1_749));
    near.on_message(0, next(ME), at(100), 0);
    assert_eq!(near.due(), at(100).plus(TURN * 2), "turns are no shorter where the masters are near");
}

#[test]
fn what_others_are_told_is_not_ones_own() {
    let mut wakeup = waiting(three());
    for waiter in [0, 1, ME - 1, ME + 1, 77, u64::MAX] {
        wakeup.on_message(0, told(waiter), at(100), 0);
        wakeup.on_message(0, next(waiter), at(100), 0);
    }
    assert_eq!(wakeup.due(), Mono::NEVER);
}

#[test]
fn numbers_of_waiters_are_those_of_their_client_and_fit_a_number_of_lua() {
    for (random, own) in [(0, 1), (1, 1), (u64::MAX, (1 << 28) - 1), (1 << 36, 1), (2 << 36, 2)] {
        for client in [0, 1, client_number(u64::MAX)] {
            let number = Wakeup::new(three(), at(0), client, random).number();
            assert_eq!((number >> 28, number & ((1 << 28) - 1)), (client, own));
            assert!(number < 1 << 53);
        }
    }
    assert_eq!(client_number(u64::MAX), (1 << 24) - 1);
    assert_eq!(channel_of("rl:C:{x}", 7), "rl:C:{x}:7");
}

#[test]
fn who_is_told_after_all_does_not_wait_for_anybodys_turn() {
    let mut wakeup = waiting(three());
    wakeup.on_message(0, next(ME), at(100), 0);
    wakeup.on_message(1, told(ME), at(100), 0);
    assert_eq!(wakeup.due(), at(102));
    wakeup.on_message(0, next(ME), at(101), 0);
    assert_eq!(wakeup.due(), at(102), "that other masters have told others does not put it off");
    wakeup.on_message(2, told(ME), at(101), 0);
    assert_eq!(wakeup.due(), at(101));
    assert!(!wakeup.attempt(at(101), LIFE).courteous);
}

#[test]
fn forged_messages_cause_at_most_one_attempt_for_each_poll_and_a_few_more() {
    let mut random = Seeded(7);
    for (place, waiter) in [0, 1, 2, u64::MAX].into_iter().flat_map(|place| [ME, 5].map(|waiter| (place, waiter))) {
        let mut wakeup = waiting(three());
        let (mut by_message, mut now) = (0, 0);
        for _ in 0..100 {
            // A thousand messages between one poll and the next.
            for _ in 0..250 {
                now += 1;
                for i in 0..3 {
                    wakeup.on_message(i, Message { place, waiter }, at(now), random.next());
                }
                if wakeup.due() <= at(now) {
                    by_message += 1;
                    wakeup.attempt(at(now), LIFE);
                    wakeup.refused(ms(1));
                }
            }
            wakeup.attempt(at(now), LIFE);
            wakeup.refused(ms(1));
        }
        match (place, waiter) {
            (1, ME) => assert!((CREDIT..=CREDIT + 100).contains(&by_message), "{by_message} attempts"),
            _ => assert_eq!(by_message, 0, "{place}: they put it off, and the poll comes first"),
        }
    }
}

#[test]
fn credit_comes_back_with_each_poll_and_grows_no_further() {
    let mut wakeup = waiting(three());
    let mut told = |polls: u32| {
        for _ in 0..polls {
            wakeup.attempt(at(0), LIFE);
            wakeup.refused(ms(2));
        }
        let mut attempts = 0;
        loop {
            wakeup.on_message(0, told(ME), at(100), 0);
            if wakeup.due() == Mono::NEVER {
                return attempts;
            }
            attempts += 1;
            wakeup.attempt(at(102), LIFE);
            wakeup.refused(ms(2));
        }
    };
    assert_eq!(told(3 * CREDIT), CREDIT);
    assert_eq!(told(0), 0);
    assert_eq!(told(2), 2);
}
