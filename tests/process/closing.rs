//! close() ends the client: its threads, its promises, and what it still held.

use crate::support::child::ran_alone;
use crate::support::{self, DEADLINE, builder, client, eventually, masters, ms, proc, reason, secs, settle, settled};
use redleash::{Error, Lease, LossReason, Options};
use std::thread;
use std::time::Instant;

#[test]
fn the_threads_are_gone() {
    if ran_alone() {
        return;
    }
    if !proc::readable() {
        return;
    }
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guards: Vec<_> = (0..10)
        .map(|i| {
            let lease = Lease::Watchdog { ttl: secs(3) };
            client.lock(&format!("x/{i}")).options(Options::new().lease(lease)).acquire().unwrap()
        })
        .collect();
    // Each renewal has its own thread by then.
    eventually("the watchdogs are there", || proc::watchdogs() >= 10);
    drop(guards);
    let start = Instant::now();
    let report = client.close(secs(10));
    assert!(start.elapsed() < secs(10), "{:?}", start.elapsed());
    assert_eq!((report.threads_left, report.unreleased.len()), (0, 0), "{report:?}");
    // The kernel forgets a joined thread a moment later.
    eventually("no thread of the library", || proc::our_threads().is_empty());
}

#[test]
fn the_threads_go_by_themselves_with_the_last_handle() {
    if ran_alone() {
        return;
    }
    if !proc::readable() {
        return;
    }
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let lock = client.lock("x");
    let guard = lock.acquire().unwrap();
    assert!(!proc::our_threads().is_empty());
    drop((client, lock));
    guard.check().unwrap();
    drop(guard);
    eventually("no thread of the library", || proc::our_threads().is_empty());
    support::no_keys_left(&masters);
}

#[test]
fn what_is_held_is_reported_to_the_caller_and_to_the_holder() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let a = client.lock("a").acquire().unwrap();
    let b = client.lock("b").options(Options::new().lease(Lease::Fixed { ttl: secs(20) })).acquire().unwrap();
    drop(client.lock("c").acquire().unwrap());
    let (tell, told) = std::sync::mpsc::channel();
    a.on_lost(move |lost| tell.send(lost).unwrap());
    let mut report = client.close(secs(10));
    report.unreleased.sort();
    assert_eq!(report.unreleased, ["a", "b"]);
    for guard in [&a, &b] {
        assert_eq!(guard.lost().recv_timeout(DEADLINE).unwrap().reason, LossReason::Closed);
        assert_eq!(reason(guard.check()), LossReason::Closed);
    }
    assert_eq!(told.recv_timeout(DEADLINE).unwrap().reason, LossReason::Closed);
    drop((a, b));
}

#[test]
fn a_closed_client_refuses() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let lock = client.lock("x");
    let clone = client.clone();
    client.close(secs(10));
    assert!(matches!(lock.try_acquire(), Err(Error::Closed)));
    assert!(matches!(lock.acquire(), Err(Error::Closed)));
    assert!(matches!(lock.try_acquire_for(secs(1)), Err(Error::Closed)));
    assert!(matches!(clone.reentrant_lock("x").acquire(), Err(Error::Closed)));
    assert!(matches!(clone.status("x"), Err(Error::Closed)));
    assert!(matches!(clone.init(), Err(Error::Closed)));
    assert_eq!(clone.close(secs(1)).threads_left, 0, "closing twice is no harm");
}

#[test]
fn waiting_callers_get_the_error_closed() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    let guard = a.lock("x").acquire().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| b.lock("x").acquire());
        support::let_pass(support::ms(300)); // it waits in some pause between two attempts
        let start = Instant::now();
        b.close(secs(10));
        let error = waiting.join().unwrap().unwrap_err();
        assert!(matches!(error, Error::Closed), "{error:?}");
        assert!(start.elapsed() < secs(10), "{:?}", start.elapsed());
    });
    guard.check().unwrap();
}

#[test]
fn closing_while_the_masters_hang_keeps_its_limit() {
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls()).ttl(secs(3)));
    let guard = client.lock("x").acquire().unwrap();
    masters.iter().for_each(|m| m.pause().unwrap());
    support::let_pass(secs(1)); // a renewal is under way
    let start = Instant::now();
    let report = client.close(secs(5));
    assert!(start.elapsed() < secs(8), "{:?}", start.elapsed());
    assert_eq!(report.unreleased, ["x"]);
    assert_eq!(reason(guard.check()), LossReason::Closed);
}

/// A lock that was granted while the client was being closed was never renewed, nor was its holder ever told.
#[test]
fn a_lock_granted_while_the_client_closes_is_reported_lost() {
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    let mut told = 0;
    for round in 0..25 {
        let client = builder(masters.urls()).ttl(secs(20)).build().unwrap();
        let holders: Vec<_> = (0..4)
            .map(|i| {
                let client = client.clone();
                thread::spawn(move || {
                    // Until the client is closed: `None`, or the last lock, if that was granted before.
                    for k in 0.. {
                        let guard = client.lock(&format!("{round}/{i}/{k}")).try_acquire().ok()??;
                        if client.lock(&format!("probe/{i}")).try_acquire().is_err() {
                            return Some(guard);
                        }
                    }
                    None
                })
            })
            .collect();
        support::let_pass(ms(5 + round % 7)); // somewhere in a round
        let report = client.close(secs(10));
        for holder in holders {
            let Some(guard) = holder.join().unwrap() else { continue };
            let lost = guard.lost().recv_timeout(secs(2)).expect("told that its lock is lost");
            assert_eq!(lost.reason, LossReason::Closed);
            assert_eq!(reason(guard.check()), LossReason::Closed);
            assert!(report.unreleased.contains(&guard.name().to_string()), "{} not in {report:?}", guard.name());
            told += 1;
        }
    }
    assert!(told > 0, "nobody held anything when the client was closed");
}
