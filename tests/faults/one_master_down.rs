//! One of three masters is down, hangs, comes back empty or is flushed: the other two carry the lock.

use crate::support::{self, client, eventually, lock_keys, masters, ms, no_keys_left, pttl, secs, settled, value};
use redleash::{Lease, Options, ReleaseOutcome};
use std::time::Instant;

#[test]
fn a_dead_master_costs_nothing_but_its_vote() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    masters[1].kill();
    let start = Instant::now();
    for i in 0..100 {
        let guard = client.lock(&format!("dead/{i}")).acquire().unwrap();
        guard.check().unwrap();
        assert_eq!(guard.release(), ReleaseOutcome::Released);
    }
    // Ten seconds are far above what a hundred cycles take, and far below a hundred time-outs.
    assert!(start.elapsed() < secs(10), "{:?}", start.elapsed());
}

#[test]
fn no_release_waits_for_a_master_that_has_nothing_of_the_lock() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    masters[1].kill();
    eventually("it is known to be down", || {
        drop(client.lock("probe").acquire().unwrap());
        let before = support::undelivered(&client);
        assert_eq!(client.lock("after").acquire().unwrap().release(), ReleaseOutcome::Released);
        support::undelivered(&client) == before
    });
    let before = support::undelivered(&client);
    for i in 0..500 {
        assert_eq!(client.lock(&format!("after/{i}")).acquire().unwrap().release(), ReleaseOutcome::Released);
    }
    let after = support::undelivered(&client);
    assert!(after.0 <= before.0 && after.1 <= before.1 + before.0 as u64, "{before:?}, then {after:?}");
}

#[test]
fn a_dead_master_at_the_start_is_no_error() {
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    masters[0].kill();
    let client = client(&masters);
    let guard = client.lock("start").acquire().unwrap();
    assert!(value(&masters[1], "start").is_some() && value(&masters[2], "start").is_some());
    assert_eq!(guard.release(), ReleaseOutcome::Released);
}

#[test]
fn a_hung_master_delays_nobody() {
    let Some(masters) = masters(3) else { return };
    // The limits as they come: this is about them.
    let client = redleash::Client::builder().nodes(masters.urls()).build().unwrap();
    client.init().unwrap();
    masters[2].pause().unwrap();
    let start = Instant::now();
    for i in 0..200 {
        let guard = client.lock(&format!("hung/{i}")).acquire().unwrap();
        assert_eq!(guard.release(), ReleaseOutcome::Released);
    }
    // A master's limit is 500 ms with this ttl: two hundred of them are 100 s.
    assert!(start.elapsed() < secs(10), "{:?}", start.elapsed());
    masters[2].resume().unwrap();
    no_keys_left(&masters);
}

#[test]
fn a_hung_master_that_comes_back_votes_again() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    masters[0].pause().unwrap();
    drop(client.lock("first").acquire().unwrap());
    masters[0].resume().unwrap();
    // It votes again, so another may go now.
    eventually("the master gets keys again", || {
        let guard = client.lock("again").acquire().unwrap();
        let there = redleash_testkit::wait_until(ms(50), || value(&masters[0], "again").is_some());
        drop(guard);
        there
    });
    masters[1].pause().unwrap();
    let guard = client.lock("second").acquire().unwrap();
    guard.check().unwrap();
    masters[1].resume().unwrap();
    drop(guard);
    no_keys_left(&masters);
}

#[test]
fn a_restarted_master_is_healed_by_the_holder_and_votes_after_its_quarantine() {
    let Some(masters) = masters(3) else { return };
    let client = support::settle(support::builder(masters.urls()).max_lease(secs(3)).ttl(secs(3)));
    let guard = client.lock("held").acquire().unwrap();
    masters[1].restart_empty().unwrap();
    // Others still get locks from the two that remember.
    let other = client.lock("other").acquire().unwrap();
    drop(other);
    eventually("the renewal writes the lost key again", || value(&masters[1], "held").is_some());
    guard.check().unwrap();
    // When it votes again, another may be lost.
    eventually("the restarted master votes", || {
        client.status("held").unwrap().masters[1].quarantined_for.is_none() && value(&masters[1], "held").is_some()
    });
    masters[0].kill();
    support::always(secs(4), "renewed by the two that are left", || guard.check().is_ok());
    assert_eq!(guard.release(), ReleaseOutcome::Released);
    assert_eq!(lock_keys(&masters[1]) + lock_keys(&masters[2]), 0);
}

#[test]
fn a_flushed_master_is_healed_by_the_holder() {
    let Some(masters) = masters(3) else { return };
    let client = support::settle(support::builder(masters.urls()).max_lease(secs(3)).ttl(secs(3)));
    let guard = client.lock("held").acquire().unwrap();
    masters[2].flush().unwrap();
    eventually("the renewal writes the lost key again", || value(&masters[2], "held").is_some());
    guard.check().unwrap();
    guard.verify().unwrap();
    assert_eq!(guard.release(), ReleaseOutcome::Released);
    no_keys_left(&masters);
}

#[test]
fn the_votes_beyond_the_quorum_are_counted() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("margin").acquire().unwrap();
    eventually("all three voted, late ones included", || guard.margin() == 1);
    drop(guard);
    no_keys_left(&masters);
    masters[0].kill();
    let guard = client.lock("margin").acquire().unwrap();
    assert_eq!(guard.margin(), 0);
}

#[test]
fn a_master_that_missed_the_release_gets_it_later() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let lease = Options::new().lease(Lease::Fixed { ttl: secs(60) });
    let guard = client.lock("late").options(lease).acquire().unwrap();
    eventually("all three have the key", || masters.iter().all(|m| pttl(m, "late").is_some()));
    masters[0].pause().unwrap();
    assert_eq!(guard.release(), ReleaseOutcome::Released);
    masters[0].resume().unwrap();
    // Sixty seconds of ttl are far longer than this waits.
    no_keys_left(&masters);
}
