//! The watchdog renews a held lock for as long as its guard lives.

use crate::support::child::{Child, Task, entry, say};
use crate::support::{
    self, always, builder, client, eventually, lock_keys, masters, no_keys_left, proc, pttl, secs, settle, settled,
};
use redleash::{Lease, LeaseState, Options, ReleaseOutcome};
use std::time::Instant;

#[test]
fn a_watchdog_lease_outlives_its_ttl() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    let guard = a.lock("x").options(Options::new().lease(Lease::Watchdog { ttl: secs(2) })).acquire().unwrap();
    always(secs(5), "held through two and a half times the ttl", || {
        assert_eq!(guard.state(), LeaseState::Held);
        guard.check().is_ok() && b.lock("x").try_acquire().unwrap().is_none()
    });
    assert!(masters.iter().all(|m| pttl(m, "x").is_some()));
    assert_eq!(guard.release(), ReleaseOutcome::Released);
    assert!(b.lock("x").try_acquire_for(secs(10)).unwrap().is_some());
}

#[test]
fn five_hundred_locks_through_three_renewals() {
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls()).ttl(secs(6)));
    let guards: Vec<_> = (0..500).map(|i| client.lock(&format!("many/{i}")).acquire().unwrap()).collect();
    let start = Instant::now();
    // A third of 6 s each: three are over after 6 s, and without any all leases have ended by then.
    always(secs(7), "every lock is held", || guards.iter().all(|g| g.check().is_ok()));
    assert!(start.elapsed() > secs(6));
    assert!(guards.iter().all(|g| g.remaining() > secs(1)), "renewed not long ago");
    assert!(masters.iter().filter(|m| lock_keys(m) == 500).count() >= 2);
    drop(guards);
    no_keys_left(&masters);
}

#[test]
fn the_watchdog_begins_when_the_first_renewal_is_due() {
    entry(watchdog_child);
    if !proc::readable() {
        return;
    }
    let Some(masters) = masters(3) else { return };
    // Of this file's tests, this one alone looks at the process's threads, so it runs in a process of its own.
    let mut child = Child::start(watchdog_child, &masters.urls(), "");
    child.expect("none after short locks");
    child.expect("none yet");
    child.expect("there");
    assert!(child.end(support::DEADLINE).success());
}

fn watchdog_child(task: Task) {
    let client = settle(builder(task.urls).ttl(secs(9)));
    for _ in 0..50 {
        drop(client.lock("short").acquire().unwrap());
    }
    assert_eq!(proc::watchdogs(), 0, "a short critical section does not pay for a thread: {:?}", proc::our_threads());
    say("none after short locks");
    let asked = Instant::now();
    let guard = client.lock("x").acquire().unwrap();
    let early = proc::watchdogs();
    assert!(early == 0 || asked.elapsed() > secs(2), "{:?}", proc::our_threads());
    say("none yet");
    eventually("a thread of that name", || proc::watchdogs() == 1);
    assert!(asked.elapsed() >= secs(2), "not before a third of the ttl");
    guard.check().unwrap();
    say("there");
}

#[test]
fn renewal_goes_on_when_one_master_hangs() {
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls()).ttl(secs(3)));
    let guard = client.lock("x").acquire().unwrap();
    masters[0].pause().unwrap();
    always(secs(7), "held", || guard.check().is_ok());
    masters[0].resume().unwrap();
    assert_eq!(guard.release(), ReleaseOutcome::Released);
    no_keys_left(&masters);
}

#[test]
fn an_outage_shorter_than_the_lease_is_survived() {
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls()).ttl(secs(12)));
    let guard = client.lock("x").acquire().unwrap();
    let pttls = || masters.iter().filter_map(|m| pttl(m, "x")).min();
    for master in &*masters {
        master.pause().unwrap();
    }
    // The first renewal is due after 4 s, and fails.
    eventually("the failed renewal is noticed", || guard.state() == LeaseState::Jeopardy);
    guard.check().unwrap();
    for master in &*masters {
        master.resume().unwrap();
    }
    eventually("renewed", || guard.state() == LeaseState::Held);
    guard.check().unwrap();
    eventually("on every master", || pttls().is_some_and(|left| left > secs(7)));
}
