//! A thread may enter again the lock that it holds; another thread may not.

use crate::support::{
    DEADLINE, always, client, eventually, lock_keys, masters, ms, no_keys_left, reason, secs, settled,
};
use redleash::{Error, Lease, LossReason, Options, ReleaseOutcome, Retry};
use redleash_testkit::Server;
use std::thread;

/// Commands that a master has executed, but for those of the tests themselves.
fn commands(master: &Server) -> u64 {
    let stats = master.command(&["INFO", "commandstats"]).unwrap().text().unwrap();
    let calls = stats.lines().filter(|line| !line.starts_with("cmdstat_info:"));
    calls.filter_map(|line| line.split("calls=").nth(1)?.split(',').next()?.parse::<u64>().ok()).sum()
}

#[test]
fn entering_again_asks_no_master() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let lock = client.reentrant_lock("x");
    let outer = lock.acquire().unwrap();
    eventually("late votes are in", || outer.margin() == 1);
    let before: Vec<_> = masters.iter().map(commands).collect();
    for _ in 0..1000 {
        let inner = lock.acquire().unwrap();
        let again = lock.try_acquire().unwrap().unwrap();
        assert_eq!(again.depth(), 3);
        drop((inner, again));
    }
    assert_eq!(outer.depth(), 1);
    let after: Vec<_> = masters.iter().map(commands).collect();
    assert_eq!(before, after);
    // Not even masters that hang are noticed.
    masters.iter().for_each(|m| m.pause().unwrap());
    let inner = lock.try_acquire_for(secs(1)).unwrap().unwrap();
    let last = lock.try_acquire_until(std::time::Instant::now()).unwrap().unwrap();
    masters.iter().for_each(|m| m.resume().unwrap());
    drop((outer, inner, last));
    no_keys_left(&masters);
}

#[test]
fn another_thread_and_another_client_are_excluded() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    let lock = a.reentrant_lock("x");
    let _outer = lock.acquire().unwrap();
    let _inner = lock.acquire().unwrap();
    thread::scope(|scope| {
        assert!(scope.spawn(|| lock.try_acquire().unwrap().is_none()).join().unwrap(), "another thread");
    });
    assert!(b.reentrant_lock("x").try_acquire().unwrap().is_none(), "another client in this thread");
    assert!(a.lock("x").try_acquire().unwrap().is_none(), "a plain lock of the same name");
    drop(a.reentrant_lock("y").try_acquire().unwrap().expect("another name"));
}

#[test]
fn guards_may_be_dropped_in_any_order() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1], [1, 2, 0], [2, 0, 1]] {
        let lock = a.reentrant_lock("x");
        let mut guards: Vec<_> = (0..3).map(|_| Some(lock.acquire().unwrap())).collect();
        for (n, i) in order.into_iter().enumerate() {
            assert!(b.lock("x").try_acquire().unwrap().is_none(), "{order:?}: held until the last is dropped");
            assert_eq!(guards[i].as_ref().unwrap().depth(), 3 - n);
            guards[i].as_ref().unwrap().check().unwrap();
            guards[i] = None;
        }
        no_keys_left(&masters);
        // And a new first entry is a first entry.
        assert_eq!(lock.acquire().unwrap().depth(), 1);
        no_keys_left(&masters);
    }
}

#[test]
fn a_lock_and_its_clones_are_the_same() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let outer = client.reentrant_lock("x").acquire().unwrap();
    let inner = client.clone().reentrant_lock("x").clone().acquire().unwrap();
    assert_eq!((outer.depth(), inner.depth()), (2, 2));
    assert_eq!(outer.fencing_token().unwrap(), inner.fencing_token().unwrap());
    assert_eq!(inner.name(), "x");
}

#[test]
fn entering_a_lost_lease_is_an_error_until_its_guards_are_gone() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let lock = client.reentrant_lock("x").options(Options::new().lease(Lease::Fixed { ttl: ms(300) }));
    let outer = lock.acquire().unwrap();
    eventually("over", || outer.check().is_err());
    for result in [lock.acquire().map(Some), lock.try_acquire(), lock.try_acquire_for(secs(1))] {
        assert!(matches!(&result, Err(Error::Lost(l)) if l.reason == LossReason::Expired), "{result:?}");
    }
    assert_eq!(reason(outer.check()), LossReason::Expired);
    drop(outer);
    let again = lock.acquire().unwrap();
    again.check().unwrap();
    assert_eq!(again.depth(), 1);
}

#[test]
fn nested_functions_while_the_watchdog_renews() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    let lock = a.reentrant_lock("x").options(Options::new().lease(Lease::Watchdog { ttl: secs(2) }));
    lock.with(|_| {
        lock.with(|guard| {
            assert_eq!(guard.depth(), 2);
            always(secs(4), "held in the inner scope", || guard.check().is_ok());
            Ok::<_, Error>(())
        })?;
        assert!(b.lock("x").try_acquire().unwrap().is_none(), "the inner scope released nothing");
        Ok::<_, Error>(())
    })
    .unwrap();
    no_keys_left(&masters);
}

#[test]
fn threads_exclude_each_other() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let inside = std::sync::atomic::AtomicU32::new(0);
    let eager = Options::new().retry(Retry::Backoff { min: ms(1), max: ms(4), cap: ms(10) });
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let lock = client.reentrant_lock("x").options(eager.clone());
                for _ in 0..20 {
                    let _outer = lock.acquire().unwrap();
                    let _inner = lock.acquire().unwrap();
                    assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0, "two inside");
                    thread::yield_now();
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                }
            });
        }
    });
    no_keys_left(&masters);
}

#[test]
fn a_thread_that_ends_with_its_guards_leaves_nothing() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let worker = client.clone();
    let ended = thread::spawn(move || {
        let lock = worker.reentrant_lock("x");
        let _outer = lock.acquire().unwrap();
        let _inner = lock.acquire().unwrap();
        panic!("on purpose, with two guards alive");
    });
    assert!(ended.join().is_err());
    no_keys_left(&masters);
    assert!(client.reentrant_lock("x").try_acquire_for(DEADLINE).unwrap().is_some());
    assert!(masters.iter().all(|m| lock_keys(m) <= 1));
}

#[test]
fn a_thread_may_hold_several() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let (a, b) = (client.reentrant_lock("a"), client.reentrant_lock("b"));
    let (a1, b1) = (a.acquire().unwrap(), b.acquire().unwrap());
    let (b2, a2) = (b.acquire().unwrap(), a.acquire().unwrap());
    drop(a1);
    drop(b1);
    assert_eq!((a2.depth(), b2.depth()), (1, 1));
    a2.check().unwrap();
    b2.check().unwrap();
    drop((a2, b2));
    no_keys_left(&masters);
}

#[test]
fn a_release_says_what_became_of_the_last_entry() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let lock = client.reentrant_lock("x");
    let (outer, inner) = (lock.acquire().unwrap(), lock.acquire().unwrap());
    assert_eq!(inner.release(), None, "the thread still holds it");
    outer.check().unwrap();
    assert_eq!(outer.release(), Some(ReleaseOutcome::Released));
    no_keys_left(&masters);
    // In the other order, and with a lease that was lost.
    let brief = lock.clone().options(Options::new().lease(Lease::Fixed { ttl: ms(300) }));
    let (outer, inner) = (brief.acquire().unwrap(), brief.acquire().unwrap());
    assert_eq!(outer.release(), None);
    eventually("over", || inner.check().is_err());
    let Some(ReleaseOutcome::AlreadyLost(lost)) = inner.release() else { panic!("it was lost") };
    assert_eq!((lost.name.as_str(), lost.reason), ("x", LossReason::Expired));
    assert_eq!(lock.acquire().unwrap().depth(), 1, "a new first entry");
}

#[test]
fn a_wait_goes_on_while_the_caller_says_so() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    let lock = a.reentrant_lock("x");
    let held = b.lock("x").acquire().unwrap();
    let mut asked = 0;
    let refused = lock.acquire_while(None, || {
        asked += 1;
        asked < 3
    });
    assert!(refused.unwrap().is_none() && asked == 3);
    assert!(lock.acquire_while(Some(ms(50)), || true).unwrap().is_none(), "its time is over");
    drop(held);
    let outer = lock.acquire_while(Some(DEADLINE), || true).unwrap().expect("free");
    let inner = lock.acquire_while(None, || panic!("re-entry does not ask")).unwrap().expect("this thread's");
    assert_eq!((outer.depth(), inner.depth()), (2, 2));
}
