//! More held locks than a client may have watchdog threads.

use crate::support::child::ran_alone;
use crate::support::{self, builder, eventually, masters, no_keys_left, secs, settle};
use redleash::{LockGuard, WatchdogMode};

/// Above the limit of a client, which is 4 096 threads.
const LOCKS: usize = 4_300;

#[test]
fn locks_beyond_the_last_thread_are_renewed_together() {
    if ran_alone() {
        return;
    }
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls()).ttl(secs(15)).watchdog(WatchdogMode::PerLock));
    let hold = |i: usize| client.lock(&format!("crowd/{i}")).acquire().unwrap();
    let guards: Vec<LockGuard> = (0..LOCKS).map(hold).collect();
    let mut seen: Vec<_> = guards.iter().map(|guard| (guard.remaining(), false)).collect();
    eventually("every lock is renewed", || {
        for (guard, (left, renewed)) in guards.iter().zip(&mut seen) {
            let now = guard.remaining();
            *renewed |= now > *left;
            *left = now;
        }
        seen.iter().all(|(_, renewed)| *renewed)
    });
    assert!(guards.iter().all(|guard| guard.check().is_ok()));
    if support::proc::readable() {
        let names = support::proc::our_threads();
        let watchdogs = names.iter().filter(|name| name.starts_with("redleash-watch")).count();
        // The shared one is among them.
        assert!((3_000..=4_097).contains(&watchdogs), "{watchdogs} watchdog threads");
    }
    drop(guards);
    no_keys_left(&masters);
}
