//! How long a lock is kept: at least, at most, and after its holder died.

use crate::support::child::{Child, Task, entry, hear, say};
use crate::support::{self, DEADLINE, always, builder, client, masters, ms, pttl, reason, secs, settled};
use redleash::{Error, Lease, LossReason, Options, ReleaseOutcome};
use redleash_testkit::Masters;
use std::time::{Duration, Instant};

#[test]
fn min_hold_keeps_a_released_lock_taken() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    for explicit in [true, false] {
        let asked = Instant::now();
        let guard = a.lock("x").options(Options::new().min_hold(secs(2))).acquire().unwrap();
        if explicit {
            assert_eq!(guard.release(), ReleaseOutcome::Released);
        } else {
            drop(guard);
        }
        let next =
            b.lock("x").try_acquire_for(DEADLINE).unwrap().expect("free when the hold is over, long before the ttl");
        assert!(asked.elapsed() >= ms(1_980), "granted after {:?}", asked.elapsed());
        drop(next);
        support::no_keys_left(&masters);
    }
}

#[test]
fn min_hold_that_is_over_costs_nothing() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    let guard = a.lock("x").options(Options::new().min_hold(ms(500))).acquire().unwrap();
    support::let_pass(ms(700)); // held for longer than the minimum
    assert_eq!(guard.release(), ReleaseOutcome::Released);
    assert!(b.lock("x").try_acquire_for(secs(10)).unwrap().is_some());
}

#[test]
fn max_hold_ends_a_lock_as_announced() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    let options = Options::new().lease(Lease::Watchdog { ttl: secs(2) }).max_hold(secs(4));
    let asked = Instant::now();
    let guard = a.lock("x").options(options).acquire().unwrap();
    always(secs(3), "renewed until then", || guard.check().is_ok());
    let lost = guard.lost().recv_timeout(DEADLINE).unwrap();
    assert_eq!(lost.reason, LossReason::MaxHold);
    // The announcement comes a little before the end.
    assert!(asked.elapsed() > ms(3_700), "{:?}", asked.elapsed());
    support::eventually("over", || guard.check().is_err());
    assert_eq!(reason(guard.check()), LossReason::MaxHold);
    assert!(guard.remaining().is_zero());
    let next = b.lock("x").try_acquire_for(DEADLINE).unwrap().expect("free without a release");
    next.check().unwrap();
}

/// When a quorum of masters has forgotten the lock, at the earliest, if nobody touches it.
fn free_at(masters: &Masters) -> Instant {
    let read = Instant::now();
    let mut left: Vec<Duration> = masters.iter().map(|m| pttl(m, "x").unwrap_or_default()).collect();
    left.sort();
    // Two of three; a key ends up to a millisecond before its PTTL says so.
    read + left[1] - ms(2)
}

#[test]
fn a_killed_holder_is_waited_for_until_its_ttl_and_not_longer() {
    entry(holding_child);
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let mut child = Child::start(holding_child, &masters.urls(), "3000 0");
    child.expect("held");
    // Renewed at least once: it is the last renewal that counts.
    always(secs(4), "held by the child", || client.lock("x").try_acquire().unwrap().is_none());
    child.kill();
    let (killed, free) = (Instant::now(), free_at(&masters));
    let guard = client.lock("x").try_acquire_for(DEADLINE).unwrap().expect("free after the ttl");
    assert!(Instant::now() >= free, "{:?} too early", free - Instant::now());
    assert!(killed.elapsed() < secs(10), "{:?}", killed.elapsed());
    guard.verify().unwrap();
}

#[test]
fn lock_delay_keeps_a_killed_holders_lock_taken() {
    entry(holding_child);
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let mut child = Child::start(holding_child, &masters.urls(), "1000 4000");
    child.expect("held");
    child.kill();
    let (killed, free) = (Instant::now(), free_at(&masters));
    let guard = client.lock("x").try_acquire_for(DEADLINE).unwrap().expect("free after ttl and delay");
    assert!(Instant::now() >= free, "{:?} too early", free - Instant::now());
    // The lease was over a second after it was granted; the delay came on top.
    assert!(killed.elapsed() > secs(2), "{:?}", killed.elapsed());
    guard.verify().unwrap();
}

fn holding_child(task: Task) {
    let (ttl, delay) = task.arg.split_once(' ').unwrap();
    let (ttl, delay) = (ms(ttl.parse().unwrap()), ms(delay.parse().unwrap()));
    let client = builder(task.urls).build().unwrap();
    let options = Options::new().lease(Lease::Watchdog { ttl }).lock_delay(delay);
    let _guard = client.lock("x").options(options).acquire().unwrap();
    say("held");
    hear(); // for ever: it is killed
}

#[test]
fn lock_delay_leaves_no_pause_after_a_clean_release() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    let options = Options::new().lease(Lease::Fixed { ttl: secs(10) }).lock_delay(secs(50));
    let guard = a.lock("x").options(options).acquire().unwrap();
    assert!(guard.remaining() < secs(10), "the delay is not part of the lease");
    assert!(masters.iter().filter(|m| pttl(m, "x").is_some_and(|left| left > secs(40))).count() >= 2);
    let released = Instant::now();
    drop(guard);
    assert!(b.lock("x").try_acquire_for(DEADLINE).unwrap().is_some());
    assert!(released.elapsed() < secs(9), "{:?}", released.elapsed());
}

#[test]
fn an_extension_carries_the_delay_with_it() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let options = Options::new().lease(Lease::Fixed { ttl: secs(5) }).lock_delay(secs(20));
    let guard = client.lock("x").options(options).acquire().unwrap();
    guard.extend(secs(30)).unwrap();
    assert!(masters.iter().filter(|m| pttl(m, "x").is_some_and(|left| left > secs(40))).count() >= 2);
    // Together with the delay it would be above max_lease (60 s).
    assert!(matches!(guard.extend(secs(45)), Err(Error::Config(e)) if e.field == "ttl"));
    guard.check().unwrap();
}
