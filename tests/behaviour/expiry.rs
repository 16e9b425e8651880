//! A lease ends when its time is over: not before, and without anybody's help.

use crate::support::{
    self, always, builder, client, deadline, eventually, masters, ms, no_keys_left, reason, secs, settled,
};
use redleash::{Error, Lease, LeaseState, LossReason, Options, ReleaseOutcome};
use std::time::{Duration, Instant};

#[test]
fn a_fixed_lease_is_free_after_its_ttl_and_not_before() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    let asked = Instant::now();
    let guard = a.lock("x").options(Options::new().lease(Lease::Fixed { ttl: secs(2) })).acquire().unwrap();
    let end = deadline(&guard);
    let second = b.lock("x").try_acquire_for(secs(20)).unwrap().expect("free after the ttl");
    // The key lives for 2 s from a moment after `asked`.
    assert!(asked.elapsed() >= ms(1_990), "granted {:?} after the first", asked.elapsed());
    assert!(Instant::now() >= end, "granted before the deadline of the first holder");
    assert_eq!(reason(guard.check()), LossReason::Expired);
    assert_eq!(guard.state(), LeaseState::Lost(LossReason::Expired));
    assert!(guard.remaining().is_zero());
    second.check().unwrap();
}

#[test]
fn validity_is_shorter_than_the_ttl() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").options(Options::new().lease(Lease::Fixed { ttl: secs(10) })).acquire().unwrap();
    let left = guard.remaining();
    // One per cent of drift, and 2 ms.
    assert!(left <= ms(9_898), "{left:?}");
    assert!(left > secs(5), "{left:?}");
    guard.ensure(secs(1)).unwrap();
    match guard.ensure(secs(10)) {
        Err(Error::EndsSoon { left, wanted, .. }) => assert!(left < wanted),
        other => panic!("{other:?}"),
    }
    guard.check().unwrap();
}

#[test]
fn an_extension_moves_the_end() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    let guard = a.lock("x").options(Options::new().lease(Lease::Fixed { ttl: secs(2) })).acquire().unwrap();
    guard.extend(secs(6)).unwrap();
    let before = guard.remaining();
    assert!(before > secs(3), "{before:?}");
    // It never shortens.
    guard.extend(secs(1)).unwrap();
    assert!(guard.remaining() > secs(2), "{:?}", guard.remaining());
    always(secs(3), "held beyond the first ttl", || {
        guard.check().is_ok() && b.lock("x").try_acquire().unwrap().is_none()
    });
    drop(guard);
    assert!(b.lock("x").try_acquire_for(secs(10)).unwrap().is_some());
}

/// It gave 1 % less, for the drift of the clocks.
#[test]
fn an_extension_lasts_at_least_as_long_as_was_asked_for() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    for lease in [Lease::Fixed { ttl: secs(2) }, Lease::Watchdog { ttl: secs(30) }] {
        let guard = client.lock("x").options(Options::new().lease(lease)).acquire().unwrap();
        for ttl in [secs(40), secs(50)] {
            let asked = Instant::now();
            guard.extend(ttl).unwrap();
            assert!(support::deadline(&guard) >= asked + ttl, "{:?} of {ttl:?}", guard.remaining());
        }
        assert_eq!(guard.release(), ReleaseOutcome::Released);
    }
}

#[test]
fn the_longest_extension_is_named_and_granted() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let options = Options::new().lease(Lease::Fixed { ttl: secs(2) }).lock_delay(secs(10));
    let guard = client.lock("x").options(options).acquire().unwrap();
    // (60 s - 10 s) * 99 % - 2 ms.
    for too_long in [ms(49_499), secs(50), secs(60), Duration::MAX] {
        let error = guard.extend(too_long).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Config(_)) && text.contains("49.498s") && text.contains("max_lease"), "{text}");
    }
    guard.extend(ms(49_498)).unwrap();
    assert!(guard.remaining() > secs(40));
}

#[test]
fn an_extension_that_the_longest_hold_cuts_short_says_so() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let options = Options::new().lease(Lease::Fixed { ttl: secs(5) }).max_hold(secs(20));
    let guard = client.lock("x").options(options).acquire().unwrap();
    match guard.extend(secs(30)) {
        Err(Error::EndsSoon { left, wanted, .. }) => assert!(left > secs(10) && wanted == secs(30), "{left:?}"),
        other => panic!("{other:?}"),
    }
    assert!(guard.remaining() > secs(10), "it was extended as far as it may be");
    guard.extend(secs(5)).unwrap();
}

#[test]
fn an_extension_after_the_end_is_lost() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").options(Options::new().lease(Lease::Fixed { ttl: ms(200) })).acquire().unwrap();
    eventually("the lease is over", || guard.check().is_err());
    assert_eq!(reason(guard.extend(secs(5))), LossReason::Expired);
    assert_eq!(reason(guard.ensure(ms(1))), LossReason::Expired);
    assert_eq!(reason(guard.check()), LossReason::Expired);
    assert!(matches!(
        guard.release(),
        redleash::ReleaseOutcome::AlreadyLost(lost) if lost.reason == LossReason::Expired && lost.name == "x"
    ));
}

#[test]
fn a_short_lock_beside_long_ones() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    let long: Vec<_> = (0..20).map(|i| a.lock(&format!("long/{i}")).acquire().unwrap()).collect();
    // A third master that hangs makes the short lock's rounds run into their limit, while the long ones go on.
    masters[2].pause().unwrap();
    let short = Options::new().lease(Lease::Fixed { ttl: ms(100) });
    let mut granted = 0;
    for i in 0..20 {
        // A busy machine may need longer than 100 ms for a round: then there is no lock, which is right.
        match a.lock(&format!("short/{i}")).options(short.clone()).try_acquire() {
            Ok(Some(guard)) => {
                granted += 1;
                assert!(guard.remaining() <= ms(97));
                eventually("the short lease is over", || guard.check().is_err());
            }
            Ok(None) => panic!("nobody else asks for it"),
            Err(Error::TooSlow { .. } | Error::NoQuorum(_)) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(granted > 0, "not one in twenty");
    masters[2].resume().unwrap();
    for guard in &long {
        guard.check().unwrap();
        guard.verify().unwrap();
        assert!(guard.remaining() > secs(5), "{:?}", guard.remaining());
    }
    assert!(b.lock("long/0").try_acquire().unwrap().is_none());
    drop(long);
    no_keys_left(&masters);
}

#[test]
fn a_watchdog_lease_of_100_ms_is_held_or_lost_but_never_wrong() {
    let Some(masters) = masters(3) else { return };
    let short = builder(masters.urls()).ttl(ms(100));
    let (a, b) = (support::settle(short), client(&masters));
    let start = Instant::now();
    while start.elapsed() < secs(2) {
        let guard = a.lock("x").acquire().unwrap();
        let held = Instant::now();
        while held.elapsed() < ms(300) {
            // On a machine this busy a renewal may come too late; then `check` must say so before the other is granted.
            let other = b.lock("x").try_acquire().unwrap();
            if other.is_some() {
                assert!(guard.check().is_err(), "two holders");
                break;
            }
        }
    }
}
