//! One master: after a flush nothing tells whether somebody else held the lock in between, so it is lost.

use crate::support::{self, DEADLINE, client, masters, reason, secs, settle, settled, value};
use redleash::{Error, Lease, LeaseState, LossReason, Options};

#[test]
fn flushed_taken_by_another_and_released_again() {
    let Some(masters) = masters(1) else { return };
    let (a, b) = (client(&masters), client(&masters));
    let guard = a.lock("x").acquire().unwrap();
    masters[0].flush().unwrap();
    let other = b.lock("x").try_acquire().unwrap().expect("one master has no memory but its own");
    drop(other);
    support::no_keys_left(&masters);
    // An extension that wrote the key again would make it look like an unbroken hold.
    assert_eq!(reason(guard.extend(secs(20))), LossReason::KeyAbsent);
    assert_eq!(reason(guard.check()), LossReason::KeyAbsent);
    assert_eq!(guard.state(), LeaseState::Lost(LossReason::KeyAbsent));
    assert_eq!(guard.lost().recv_timeout(DEADLINE).unwrap().reason, LossReason::KeyAbsent);
    assert_eq!(value(&masters[0], "x"), None);
}

#[test]
fn the_watchdog_finds_a_lost_key() {
    let Some(masters) = masters(1) else { return };
    let client = client(&masters);
    let guard = client.lock("x").options(Options::new().lease(Lease::Watchdog { ttl: secs(3) })).acquire().unwrap();
    masters[0].flush().unwrap();
    assert_eq!(guard.lost().recv_timeout(DEADLINE).unwrap().reason, LossReason::KeyAbsent);
    assert_eq!(reason(guard.check()), LossReason::KeyAbsent);
    assert_eq!(value(&masters[0], "x"), None, "not written again");
}

#[test]
fn verify_finds_a_lost_key() {
    let Some(masters) = masters(1) else { return };
    let client = client(&masters);
    let guard = client.lock("x").acquire().unwrap();
    guard.verify().unwrap();
    masters[0].flush().unwrap();
    assert_eq!(reason(guard.verify()), LossReason::KeyAbsent);
    assert_eq!(reason(guard.check()), LossReason::KeyAbsent);
}

#[test]
fn taken_by_another_is_taken() {
    let Some(masters) = masters(1) else { return };
    let (a, b) = (client(&masters), client(&masters));
    let guard = a.lock("x").acquire().unwrap();
    masters[0].flush().unwrap();
    let other = b.lock("x").try_acquire().unwrap().unwrap();
    assert_eq!(reason(guard.extend(secs(20))), LossReason::Taken);
    drop(guard);
    other.check().unwrap();
    other.verify().unwrap();
    assert!(value(&masters[0], "x").is_some(), "the late Drop deleted nothing that is another's");
}

#[test]
fn three_masters_flushed_at_once_give_no_votes_to_anybody() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").acquire().unwrap();
    for master in &*masters {
        master.flush().unwrap();
    }
    // The quarantine vouches that nobody else was granted: the lease holds to its end, but no renewal counts.
    assert!(matches!(guard.extend(secs(40)), Err(Error::NoQuorum(_) | Error::Quarantined { .. })));
    guard.check().unwrap();
    let other = support::client(&masters);
    assert!(matches!(other.lock("x").try_acquire(), Err(Error::Quarantined { .. })));
    guard.check().unwrap();
}

#[test]
fn with_the_quarantine_one_deleted_key_is_healed() {
    let Some(masters) = masters(3) else { return };
    let client = settle(support::builder(masters.urls()).ttl(secs(20)));
    let guard = client.lock("x").acquire().unwrap();
    support::eventually("all three have it", || masters.iter().all(|m| value(m, "x").is_some()));
    support::vacate(&masters[1], "x");
    guard.extend(secs(20)).unwrap();
    support::eventually("written again", || value(&masters[1], "x").is_some());
    guard.verify().unwrap();
}
