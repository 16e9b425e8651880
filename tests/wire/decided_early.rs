//! Rounds that are decided while they are still being written: their answers are read, and nobody sleeps on.

use crate::support::{self, builder, deadline, eventually, lock_keys, masters, ms, secs, settled};
use redleash::{Client, Error, Lease, LockGuard, Options, ReleaseOutcome};
use redleash_testkit::Masters;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

/// A client that finds out within half a second that a master hangs. The masters are settled with more patience.
fn quick(masters: &Masters) -> Client {
    drop(settled(masters));
    let quick = builder(masters.urls()).master_timeout(ms(200)).round_timeout(ms(200));
    quick.hang_timeout(ms(500)).connect_timeout(ms(250)).ttl(secs(4)).build().unwrap()
}

/// Waits until this many masters are known to be down: a round does not even ask them.
fn down(client: &Client, wanted: usize) {
    eventually("known to be down", || {
        let failed = client.status("-").unwrap().masters.into_iter().filter_map(|m| m.failure);
        failed.filter(|why| why.contains("not connected")).count() == wanted
    });
}

/// Rounds that are decided while they are written, as `step` makes them, do not make the healthy master a hung one.
fn the_third_stays_well(step: impl Fn(&LockGuard) -> Error) {
    const STEPS: usize = 12;
    let Some(masters) = masters(3) else { return };
    let client = quick(&masters);
    let guard = client.lock("x").options(Options::new().lease(Lease::Fixed { ttl: secs(40) })).acquire().unwrap();
    masters[0].kill();
    masters[1].kill();
    down(&client, 2);
    let mut hung = 0;
    for _ in 0..STEPS {
        let error = step(&guard);
        let said = error.tally().expect("no quorum").masters[2].answer.to_string();
        hung += usize::from(said.contains("hung"));
        support::let_pass(ms(300)); // longer than a master's limit
    }
    // Where idle connections alone are looked at, once a second, it is two of three.
    assert!(hung < STEPS / 3, "{hung} of {STEPS}");
}

/// Nobody read what the healthy master answered to such a round, until a second later somebody looked at idle
/// connections; meanwhile every round called that master hung.
#[test]
fn answers_to_a_round_decided_while_written_are_read() {
    the_third_stays_well(|guard| guard.verify().unwrap_err());
}

/// The same with renewals, which also waited for nothing.
#[test]
fn answers_to_an_extension_decided_while_written_are_read() {
    the_third_stays_well(|guard| guard.extend(secs(40)).unwrap_err());
}

/// A release that was decided so left the next lock with a master that was taken for hung.
#[test]
fn a_release_decided_while_written_does_not_spoil_the_next_lock() {
    let Some(masters) = masters(3) else { return };
    let client = builder(masters.urls()).quarantine(false).connect_timeout(ms(250)).build().unwrap();
    let guard = client.lock("x").acquire().unwrap();
    masters[0].kill();
    masters[1].kill();
    down(&client, 2);
    assert!(matches!(guard.release(), ReleaseOutcome::Unconfirmed(_)));
    masters[1].restart_empty().unwrap();
    eventually("two of three give a lock", || client.lock("y").try_acquire().is_ok_and(|guard| guard.is_some()));
    eventually("it is delivered", || lock_keys(&masters[2]) == 0);
}

/// After such rounds nothing but a Drop or an undo set the client going again, although a quorum was back.
#[test]
fn rounds_decided_while_written_do_not_spoil_the_next_ones() {
    let Some(masters) = masters(3) else { return };
    let client = quick(&masters);
    let guard = client.lock("x").options(Options::new().lease(Lease::Fixed { ttl: secs(40) })).acquire().unwrap();
    masters[0].pause().unwrap();
    masters[1].pause().unwrap();
    down(&client, 2);
    for _ in 0..12 {
        guard.verify().unwrap_err();
        support::let_pass(ms(50)); // in all longer than a master's limit: unread answers would be overdue
    }
    masters[1].resume().unwrap();
    eventually("two of three vouch for it", || guard.verify().is_ok());
    masters[0].resume().unwrap();
}

/// The watchdog's tries were decided while written, so the healthy master was taken for hung: a lock was lost although
/// a quorum was healthy again long before the deadline.
#[test]
fn a_held_lock_survives_an_outage_that_ends_before_the_deadline() {
    let Some(masters) = masters(3) else { return };
    let client = quick(&masters);
    let guard = client.lock("x").acquire().unwrap();
    let end = deadline(&guard);
    masters[0].pause().unwrap();
    masters[1].pause().unwrap();
    // The first renewal is due after a third of the ttl, and from half a second later on two masters are down.
    eventually("the outage has lasted", || guard.remaining() < ms(1_800));
    masters[1].resume().unwrap();
    eventually("renewed or lost", || guard.remaining().is_zero() || deadline(&guard) > end + ms(500));
    guard.check().unwrap();
    guard.verify().unwrap();
    masters[0].resume().unwrap();
}

/// A caller that had taken the lead slept on in its poll when its own round was decided by another's write.
#[test]
fn a_leader_whose_round_is_decided_by_anothers_write_wakes_up() {
    const THREADS: usize = 12;
    let Some(masters) = masters(3) else { return };
    // Who sleeps on sleeps until one of these limits.
    let patient =
        Client::builder().nodes(masters.urls()).quarantine(false).master_timeout(secs(30)).round_timeout(secs(30));
    let client = patient.hang_timeout(secs(300)).build().unwrap();
    drop(client.lock("x").acquire().unwrap());
    masters.iter().for_each(|m| m.kill());
    down(&client, 3);
    let (tell, told) = channel();
    for i in 0..THREADS {
        let (client, tell) = (client.clone(), tell.clone());
        thread::spawn(move || {
            let start = Instant::now();
            let mut calls = 0;
            // Seldom enough to need some calls; they fail in microseconds.
            while start.elapsed() < secs(3) {
                client.lock(&format!("{i}/{calls}")).try_acquire().unwrap_err();
                calls += 1;
            }
            tell.send(calls).unwrap();
        });
    }
    for _ in 0..THREADS {
        let calls = told.recv_timeout(secs(15)).expect("no call sleeps until its limit");
        assert!(calls > 1, "{calls}");
    }
}
