//! Waiters that give up before the lock is theirs.

use crate::support::{client, eventually, masters, secs, settled};
use crate::waiting::{lazy, wait_list, waiter};
use redleash::ReleaseOutcome;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Without leaving, it would be notified of the next release in vain, and the other would wait for its poll of 50 s.
#[test]
fn a_waiter_that_gives_up_leaves_the_list_and_the_next_one_is_notified() {
    let Some(masters) = masters(3) else { return };
    let (holder, quitter, other) = (settled(&masters), client(&masters), client(&masters));
    let guard = holder.lock("quit").acquire().unwrap();
    let on = Arc::new(AtomicBool::new(true));
    let (lock, goes_on) = (quitter.lock("quit").options(lazy()), on.clone());
    let quits = thread::spawn(move || lock.acquire_while(None, || goes_on.load(Ordering::SeqCst)));
    let waiters = |count: usize| masters.iter().all(|m| wait_list(m, "quit").len() == count);
    eventually("the first one waits", || waiters(1));
    let waiting = waiter(&other, "quit", lazy());
    eventually("both wait", || waiters(2));
    on.store(false, Ordering::SeqCst);
    assert!(quits.join().unwrap().unwrap().is_none());
    eventually("it has left", || waiters(1));
    assert_eq!(guard.release(), ReleaseOutcome::Released);
    assert!(waiting.join().unwrap().unwrap() < secs(45), "the poll, not the notification, woke it");
}
