use super::super::health::{Link, STEADY, Treatment, give_up, reconnect_pause, treat};
use super::super::round::{Round, Rule};
use super::super::{Mono, Quorum};
use super::{at, ms};
use std::time::Duration;

#[test]
fn a_master_without_a_connection_is_skipped() {
    assert_eq!(treat(Link::Down, at(0), ms(50)), Treatment::Skip);
}

#[test]
fn a_master_that_owes_nothing_is_asked() {
    assert_eq!(treat(Link::Up(None), Mono::NEVER, Duration::ZERO), Treatment::Ask);
}

#[test]
fn a_master_is_not_waited_for_once_it_owes_an_answer_for_longer_than_the_limit() {
    for owed in 0..=200 {
        let treatment = treat(Link::Up(Some(at(0))), at(owed), ms(50));
        assert_eq!(treatment, if owed > 50 { Treatment::AskOnly } else { Treatment::Ask }, "{owed} ms");
    }
}

#[test]
fn a_request_of_the_future_is_not_overdue() {
    assert_eq!(treat(Link::Up(Some(at(9))), at(0), Duration::ZERO), Treatment::Ask);
    assert!(!give_up(Some(at(9)), at(0), Duration::ZERO));
}

#[test]
fn a_connection_is_given_up_by_its_own_limit_only() {
    assert!(!give_up(None, Mono::NEVER, Duration::ZERO));
    for owed in [0, 999, 1_000, 1_001, 5_000] {
        assert_eq!(give_up(Some(at(0)), at(owed), ms(1_000)), owed > 1_000, "{owed} ms");
    }
    // A round with a short limit stops waiting long before the connection is closed.
    assert_eq!(treat(Link::Up(Some(at(0))), at(100), ms(50)), Treatment::AskOnly);
    assert!(!give_up(Some(at(0)), at(100), ms(1_000)));
}

#[test]
fn a_round_is_decided_at_once_when_too_few_masters_are_worth_waiting_for() {
    let links = [Link::Down, Link::Up(Some(at(0))), Link::Up(None)];
    let mut round = Round::new(Quorum::new(3, 0).unwrap(), Rule::Quorum);
    for (i, link) in links.into_iter().enumerate() {
        if treat(link, at(60), ms(50)) != Treatment::Ask {
            round.do_not_await(i);
        }
    }
    assert!(round.is_decided());
}

#[test]
fn a_master_whose_connections_break_at_once_is_connected_to_ever_more_rarely() {
    let pauses: Vec<u128> = (0..10).map(|flaps| reconnect_pause(flaps).as_millis()).collect();
    assert_eq!(pauses, [0, 0, 50, 100, 200, 400, 800, 1_000, 1_000, 1_000]);
    assert_eq!(reconnect_pause(u32::MAX), STEADY);
}
