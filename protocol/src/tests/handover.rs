use super::super::fence::STEP;
use super::super::handover::{BUDGET, Handover};
use super::super::lease::{Lease, LossReason, Terms};
use super::super::validity::Drift;
use super::{at, ms};
use std::time::Duration;

const TTL: Duration = ms(3_000);

fn lease(renew: bool, max_hold: Option<Duration>) -> Lease {
    Lease::new(Terms { ttl: TTL, drift: Drift::DEFAULT, renew, max_hold }, at(0))
}

#[test]
fn a_healthy_lease_is_passed_on_until_the_budget_is_spent() {
    let (lease, mut handover) = (lease(true, None), Handover::new(BUDGET));
    // The budget counts from the first hand-over, however long the first holder kept the lock.
    assert!(handover.pass(&lease, at(700)));
    assert!(handover.pass(&lease, at(700).plus(BUDGET).minus(Duration::from_nanos(1))));
    assert!(!handover.pass(&lease, at(700).plus(BUDGET)));
    assert!(!handover.pass(&lease, at(1_000)), "and it does not begin again");
}

#[test]
fn without_a_budget_nothing_is_passed_on() {
    assert!(!Handover::new(Duration::ZERO).pass(&lease(true, None), at(0)));
}

#[test]
fn only_a_held_lease_that_is_renewed_without_end_is_passed_on() {
    let pass = |lease: &Lease, now| Handover::new(BUDGET).pass(lease, now);
    assert!(pass(&lease(true, None), at(0)));
    assert!(!pass(&lease(false, None), at(0)), "a fixed lease is one holder's");
    assert!(!pass(&lease(true, Some(ms(60_000))), at(0)), "so is one with a longest hold");
    let mut jeopardy = lease(true, None);
    jeopardy.extension_failed(at(10), 0);
    assert!(!pass(&jeopardy, at(11)));
    let mut lost = lease(true, None);
    lost.lose(LossReason::Taken);
    assert!(!pass(&lost, at(1)));
    let mut released = lease(true, None);
    released.release(at(1));
    assert!(!pass(&released, at(2)));
    let mut announced = lease(true, None);
    announced.poll(announced.until().minus(ms(1)));
    assert!(!pass(&announced, at(1)), "its end was announced, so it is not renewed any more");
}

#[test]
fn half_of_the_ttl_must_be_left() {
    let lease = lease(true, None);
    let last = lease.until().minus(TTL / 2);
    assert!(Handover::new(BUDGET).pass(&lease, last));
    assert!(!Handover::new(BUDGET).pass(&lease, last.plus(Duration::from_nanos(1))));
}

#[test]
fn a_token_that_was_asked_for_rises_by_one_and_stays_below_the_next_lease() {
    let (lease, mut handover) = (lease(true, None), Handover::new(Duration::MAX));
    assert_eq!(handover.token(), None);
    for _ in 0..500 {
        assert!(handover.pass(&lease, at(1)), "nobody has asked: nothing to run out of");
    }
    handover.remember(6_400);
    assert_eq!(handover.token(), Some(6_400), "the first that asks gets the counter itself");
    handover.remember(9_999);
    assert_eq!(handover.token(), Some(6_400), "the first counter stays");
    for passed in 1..STEP {
        assert!(handover.pass(&lease, at(1)));
        assert_eq!(handover.token(), Some(6_400 + passed));
    }
    assert!(!handover.pass(&lease, at(1)));
    assert_eq!(handover.token(), Some(6_400 + STEP - 1));
}
