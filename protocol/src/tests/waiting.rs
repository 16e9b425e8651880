use super::super::acquire::{Acquire, CREDIT, End, Heard, Plan, Step, Wait};
use super::super::retry::Backoff;
use super::super::round::Judgement;
use super::super::wait_list::{WaitEntry, channel_of, client_number, waiter_number};
use super::super::{Mono, Quorum};
use super::{Seeded, at, ms, quorums};
use std::time::Duration;

const ME: u64 = 5 << 28 | 77;
/// When the poll of these waiters is due, after a refusal.
const POLL: Duration = ms(60_000);
const TOOK: Duration = ms(2);
const HELD: Judgement = Judgement::HeldByOther(Some(Duration::from_secs(600)));

fn plan(quorum: Quorum) -> Plan {
    Plan {
        quorum,
        wait: Wait::Forever { outage_patience: ms(10_000) },
        tries: None,
        fail_fast: false,
        backoff: Backoff { min: POLL, max: POLL, cap: POLL },
        custom_pauses: false,
        always_full: false,
        yields: true,
    }
}

fn three() -> Quorum {
    Quorum::new(3, 0).unwrap()
}

fn by(notified: u32) -> Heard {
    Heard { notified, subscribed: false }
}

const SUBSCRIBED: Heard = Heard { notified: 0, subscribed: true };

/// What an attempt says for its place.
#[track_caller]
fn entry(step: &Step) -> WaitEntry {
    match step {
        Step::Round { full: true, entry: Some(entry) } => *entry,
        step => panic!("{step:?}"),
    }
}

/// A waiter whose first attempt was refused at the moment `now`.
fn waiting(plan: Plan, now: Mono) -> Acquire {
    let mut machine = Acquire::new(plan);
    assert_eq!(machine.first(now), Step::Listen, "a call that yields is a waiter from the beginning");
    entry(&machine.listens(ME, now));
    refused(&mut machine, now);
    machine
}

/// The attempt was refused; when the poll is due.
#[track_caller]
fn refused(machine: &mut Acquire, now: Mono) -> Mono {
    match machine.after_round(&HELD, TOOK, now, 0, None) {
        Step::Park(poll) => poll,
        step => panic!("{step:?}"),
    }
}

/// When the next attempt is due.
fn due(machine: &Acquire, now: Mono) -> Mono {
    match machine.clone().resume(now) {
        Step::Round { .. } => now,
        Step::Park(until) => until,
        step => panic!("{step:?}"),
    }
}

#[test]
fn a_call_whose_time_was_over_when_it_listened_ends_contended_and_asks_no_master() {
    let mut machine = Acquire::new(Plan { wait: Wait::Until(at(3)), ..plan(three()) });
    assert_eq!(machine.first(at(0)), Step::Listen);
    assert_eq!(machine.listens(ME, at(3)), Step::Done(End::Contended));
}

#[test]
fn a_notified_waiter_tries_at_the_message_of_the_last_master_of_a_quorum_or_a_round_trip_after_the_first() {
    for quorum in quorums(7) {
        let mut machine = waiting(plan(quorum), at(0));
        for i in 0..quorum.votes() {
            machine.heard(by(1 << i), at(100));
            let expected = if i + 1 == quorum.votes() { at(100) } else { at(100).plus(TOOK) };
            assert_eq!(due(&machine, at(100)), expected, "{quorum:?}, message {i}");
        }
    }
}

#[test]
fn what_is_heard_twice_is_one_message() {
    let mut machine = waiting(plan(three()), at(0));
    for n in 0..10 {
        machine.heard(by(1), at(100 + n));
        assert_eq!(due(&machine, at(100)), at(102));
    }
}

#[test]
fn an_attempt_forgets_what_was_heard_before_it_and_what_is_heard_during_it_counts() {
    let mut machine = waiting(plan(three()), at(0));
    machine.heard(by(1), at(100));
    assert!(!entry(&machine.resume(at(102))).yields, "it was notified");
    refused(&mut machine, at(104));
    machine.heard(by(2), at(105));
    assert_eq!(due(&machine, at(105)), at(107), "the message of master 0 does not count any more");
    machine.resume(at(107));
    machine.heard(by(5), at(108));
    refused(&mut machine, at(109));
    assert_eq!(due(&machine, at(109)), at(109), "at once");
}

#[test]
fn a_waiter_that_came_before_its_subscription_tries_again_when_that_comes() {
    let mut machine = Acquire::new(plan(three()));
    machine.first(at(0));
    machine.heard(SUBSCRIBED, at(1));
    machine.listens(ME, at(2));
    let poll = refused(&mut machine, at(3));
    assert_eq!(due(&machine, at(3)), poll, "it was subscribed before the attempt");
    // A connection that breaks and is made again, over and over, costs no more than messages may.
    for n in 0..u64::from(CREDIT) {
        machine.heard(SUBSCRIBED, at(4 + n));
        assert_eq!(due(&machine, at(4 + n)), at(4 + n), "{n}");
        machine.resume(at(4 + n));
        refused(&mut machine, at(4 + n));
    }
    machine.heard(SUBSCRIBED, at(900));
    assert!(due(&machine, at(900)) > at(900));
}

#[test]
fn an_entry_says_how_long_its_waiter_has_waited_and_keeps_its_place_for_two_polls() {
    let expected = |waited_us, yields| WaitEntry { waiter: ME, life_ms: 120_000, waited_us, yields };
    let mut machine = Acquire::new(plan(three()));
    machine.first(at(10));
    assert_eq!(entry(&machine.listens(ME, at(10))), expected(0, true));
    let poll = refused(&mut machine, at(12));
    assert_eq!(entry(&machine.resume(poll)), expected(60_002_000, true), "at its poll");
    refused(&mut machine, poll);
    machine.heard(by(7), poll.plus(ms(5)));
    assert_eq!(entry(&machine.resume(poll.plus(ms(5)))), expected(60_007_000, false), "it was notified");
    assert_eq!(machine.number(), ME);
    let life = |plan: Plan, now| {
        let mut machine = Acquire::new(plan);
        machine.first(now);
        entry(&machine.listens(ME, now)).life_ms
    };
    let short = Plan { backoff: Backoff { min: ms(1), max: ms(1), cap: ms(1) }, ..plan(three()) };
    assert_eq!(life(short, at(0)), 2_000, "a process may be late");
    let until = |limit| Plan { wait: Wait::Until(at(limit)), ..plan(three()) };
    assert_eq!(life(until(300), at(100)), 200, "no longer than it waits");
    assert_eq!(life(until(300), at(299).plus(ms(1) - Duration::from_nanos(1))), 1, "never zero");
    assert_eq!(life(Plan { custom_pauses: true, ..short }, at(0)), 600_000, "its pauses are not known");
}

#[test]
fn numbers_of_waiters_are_those_of_their_client_and_fit_a_number_of_lua() {
    for (random, own) in [(0, 1), (1, 1), (u64::MAX, (1 << 28) - 1), (1 << 36, 1), (2 << 36, 2)] {
        for client in [0, 1, client_number(u64::MAX)] {
            let number = waiter_number(client, random);
            assert_eq!((number >> 28, number & ((1 << 28) - 1)), (client, own));
            assert!(number < 1 << 53);
        }
    }
    assert_eq!(client_number(u64::MAX), (1 << 24) - 1);
    assert_eq!(channel_of("rl:C:{x}", 7), "rl:C:{x}:7");
}

#[test]
fn forged_messages_cause_at_most_one_attempt_for_each_poll_and_a_few_more() {
    let mut random = Seeded(7);
    let mut machine = waiting(plan(three()), at(0));
    let (mut by_message, mut by_poll, mut poll) = (0, 0, at(60_000));
    for now in (0..6_000_000).step_by(97).map(at) {
        machine.heard(Heard { notified: random.below(8) as u32, subscribed: random.below(2) == 0 }, now);
        if let Step::Round { .. } = machine.resume(now) {
            *(if now < poll { &mut by_message } else { &mut by_poll }) += 1;
            poll = refused(&mut machine, now);
        }
    }
    assert!(by_poll > 40 && by_message >= CREDIT && by_message <= CREDIT + by_poll, "{by_message}, {by_poll} polls");
}

#[test]
fn credit_comes_back_with_each_poll_and_grows_no_further() {
    let mut machine = waiting(plan(three()), at(0));
    let mut now = at(0);
    let mut prompted = |polls: u32| {
        for _ in 0..polls {
            now = now.plus(POLL);
            machine.resume(now);
            refused(&mut machine, now);
        }
        let mut attempts = 0;
        loop {
            machine.heard(by(7), now);
            if !matches!(machine.resume(now), Step::Round { .. }) {
                return attempts;
            }
            attempts += 1;
            refused(&mut machine, now);
        }
    };
    assert_eq!(prompted(3 * CREDIT), CREDIT);
    assert_eq!(prompted(0), 0);
    assert_eq!(prompted(2), 2);
}

/// Whatever is heard in whatever order: a waiter tries at its poll at the latest, and never twice without a new reason.
#[test]
fn every_five_things_heard_move_an_attempt_forward_and_nothing_else() {
    #[derive(Clone, Copy)]
    enum Event {
        Notified(u32),
        Subscribed,
        Recovered,
        Pass(u64),
    }
    const EVENTS: [Event; 7] = [
        Event::Notified(1),
        Event::Notified(2),
        Event::Notified(7),
        Event::Subscribed,
        Event::Recovered,
        Event::Pass(1),
        Event::Pass(3),
    ];
    fn explore(machine: &Acquire, now: u64, (poll, news): (Mono, bool), depth: u32) {
        let next = due(machine, at(now));
        assert!(next <= poll.max(at(now)) && (news || next == poll), "{next:?} {poll:?} {news}");
        let mut machine = machine.clone();
        let mut state = (poll, news);
        if next <= at(now) {
            entry(&machine.resume(at(now)));
            state = (refused(&mut machine, at(now)), false);
            assert!(due(&machine, at(now)) > at(now), "what was heard counts once");
        }
        if depth == 0 {
            return;
        }
        for event in EVENTS {
            let mut machine = machine.clone();
            let (mut later, mut news) = (now, state.1);
            match event {
                Event::Notified(mask) => machine.heard(by(mask), at(now)),
                Event::Subscribed => machine.heard(SUBSCRIBED, at(now)),
                Event::Recovered => machine.recovered(),
                Event::Pass(ms) => later += ms,
            }
            news |= matches!(event, Event::Notified(_) | Event::Subscribed);
            explore(&machine, later, (state.0, news), depth - 1);
        }
    }
    explore(&waiting(plan(three()), at(0)), 0, (at(60_000), false), 5);
}
