//! One watchdog thread for all leases of a client.

use crate::support::child::ran_alone;
use crate::support::{
    self, always, builder, client, eventually, lock_keys, masters, no_keys_left, pttl, reason, secs, settle, value,
};
use redleash::{Client, LeaseState, LockGuard, LossReason, ReleaseOutcome, WatchdogMode};
use redleash_testkit::Masters;
use std::time::Duration;

fn shared(masters: &Masters, ttl: Duration) -> Client {
    settle(builder(masters.urls()).ttl(ttl).watchdog(WatchdogMode::Shared))
}

fn hold(client: &Client, n: usize) -> Vec<LockGuard> {
    (0..n).map(|i| client.lock(&format!("many/{i}")).acquire().unwrap()).collect()
}

#[test]
fn two_thousand_locks_are_held_by_one_thread() {
    if ran_alone() {
        return;
    }
    let Some(masters) = masters(3) else { return };
    let client = shared(&masters, secs(6));
    let guards = hold(&client, 2_000);
    always(secs(8), "every lock is held", || guards.iter().all(|g| g.check().is_ok()));
    assert!(guards.iter().all(|g| g.remaining() > secs(1)), "renewed not long ago");
    if support::proc::readable() {
        // The stand-in of the other mode is one, and the shared thread.
        let names = support::proc::our_threads();
        assert_eq!(names.iter().filter(|n| n.starts_with("redleash-watch")).count(), 1, "{names:?}");
    }
    eventually("three masters have all keys", || masters.iter().all(|m| lock_keys(m) == 2_000));
    drop(guards);
    no_keys_left(&masters);
}

#[test]
fn by_default_256_locks_have_a_thread_each_and_the_others_share_one() {
    if ran_alone() {
        return;
    }
    if !support::proc::readable() {
        return;
    }
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls()).ttl(secs(6)));
    let guards = hold(&client, 400);
    let mut seen: Vec<_> = guards.iter().map(|guard| (guard.remaining(), false)).collect();
    eventually("every lock is renewed", || {
        for (guard, (left, renewed)) in guards.iter().zip(&mut seen) {
            let now = guard.remaining();
            *renewed |= now > *left;
            *left = now;
        }
        seen.iter().all(|(_, renewed)| *renewed)
    });
    let names = support::proc::our_threads();
    let watchdogs = names.iter().filter(|name| name.starts_with("redleash-watch")).count();
    // The shared one and the one that starts the others are among them.
    assert!((200..=258).contains(&watchdogs), "{watchdogs} watchdog threads");
    drop(guards);
    no_keys_left(&masters);
}

#[test]
fn many_locks_are_held_while_one_master_hangs() {
    let Some(masters) = masters(3) else { return };
    let client = shared(&masters, secs(6));
    let guards = hold(&client, 1_000);
    masters[1].pause().unwrap();
    always(secs(8), "every lock is held", || guards.iter().all(|g| g.check().is_ok()));
    assert!(guards.iter().all(|g| g.state() == LeaseState::Held));
    masters[1].resume().unwrap();
    eventually("the third master has its keys again", || lock_keys(&masters[1]) == 1_000);
    drop(guards);
    no_keys_left(&masters);
}

#[test]
fn one_lock_that_is_taken_away_is_lost_and_no_other() {
    let Some(masters) = masters(3) else { return };
    let (client, admin) = (shared(&masters, secs(2)), client(&masters));
    let guards = hold(&client, 10);
    admin.force_release("many/3").unwrap();
    let lost = guards[3].lost().recv_timeout(support::DEADLINE).unwrap();
    assert_eq!((lost.name.as_str(), lost.reason), ("many/3", LossReason::Taken));
    assert_eq!(reason(guards[3].check()), LossReason::Taken);
    always(secs(3), "the others are held", || (0..10).filter(|k| *k != 3).all(|k| guards[k].check().is_ok()));
}

#[test]
fn a_lock_deleted_by_force_is_not_written_again() {
    let Some(masters) = masters(3) else { return };
    let (client, admin) = (shared(&masters, secs(2)), client(&masters));
    let guards = hold(&client, 3);
    admin.force_release_now("many/1").unwrap();
    assert_eq!(guards[1].lost().recv_timeout(support::DEADLINE).unwrap().reason, LossReason::Taken);
    assert!(masters.iter().all(|m| value(m, "many/1").is_none()));
    guards[0].check().unwrap();
}

#[test]
fn a_key_that_a_master_lost_is_written_again() {
    let Some(masters) = masters(3) else { return };
    let client = shared(&masters, secs(2));
    let guards = hold(&client, 5);
    assert_eq!(masters[2].command(&["DEL", &support::lock_key("many/4")]).unwrap().int(), Some(1));
    eventually("it is back", || pttl(&masters[2], "many/4").is_some());
    assert!(guards.iter().all(|g| g.check().is_ok()));
}

#[test]
fn renewals_survive_a_script_flush() {
    let Some(masters) = masters(3) else { return };
    let client = shared(&masters, secs(2));
    let guards = hold(&client, 5);
    always(secs(5), "every lock is held", || {
        for master in &*masters {
            master.command(&["SCRIPT", "FLUSH"]).unwrap();
        }
        guards.iter().all(|g| g.check().is_ok())
    });
}

#[test]
fn locks_that_are_released_while_others_are_renewed_leave_no_keys() {
    let Some(masters) = masters(3) else { return };
    let client = shared(&masters, secs(1));
    for round in 0..20 {
        let guards = hold(&client, 100);
        // Renewals are due after a third of a second; release around then.
        support::let_pass(Duration::from_millis(320 + round * 3));
        for guard in guards {
            assert_eq!(guard.release(), ReleaseOutcome::Released);
        }
    }
    let left: usize = masters.iter().map(lock_keys).sum();
    assert_eq!(left, 0, "keys that a renewal wrote behind a release");
}
