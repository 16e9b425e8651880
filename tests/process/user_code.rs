//! What the user gives the client to run - callbacks, closures, pauses - cannot stop it: not by a panic, and not by
//! what it does when it is dropped.

use crate::support::{self, DEADLINE, always, client, masters, ms, no_keys_left, secs, settled};
use redleash::{Client, Lease, LockGuard, Options, Retry};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

fn renewed(ttl: Duration) -> Options {
    Options::new().lease(Lease::Watchdog { ttl })
}

/// Runs `body` on a thread of its own, because a client that is stuck would take the test with it.
#[track_caller]
fn in_time(what: &str, body: impl FnOnce() + Send + 'static) {
    let (tell, told) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        body();
        let _ = tell.send(());
    });
    match told.recv_timeout(3 * DEADLINE) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("stuck: {what}"),
        _ => thread.join().unwrap(),
    }
}

/// A callback that is not called any more is dropped, and dropping it may take any lock of the client's.
#[test]
fn a_hand_over_drops_the_callback_under_no_lock() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    in_time("a hand-over that drops a callback which owns guards", move || {
        let bystander = client.lock("bystander").options(renewed(secs(2))).acquire().unwrap();
        for round in 0..10 {
            let lock = client.lock("x");
            let held = lock.acquire().unwrap();
            // So many that one of them is kept beside `x`, wherever that is.
            let others: Vec<LockGuard> =
                (0..64).map(|i| client.lock(&format!("{round}/{i}")).acquire().unwrap()).collect();
            held.on_lost(move |_| drop(others));
            let lock = &lock;
            std::thread::scope(|scope| {
                let (tell, told) = mpsc::channel();
                let waiting = scope.spawn(move || {
                    let mut asked = 0;
                    let guard = lock.acquire_while(None, || {
                        asked += 1;
                        let _ = tell.send(asked);
                        true
                    });
                    guard.unwrap().unwrap().check().unwrap();
                });
                // It is in the local queue when it is asked whether to go on.
                told.recv_timeout(DEADLINE).unwrap();
                drop(held);
                waiting.join().unwrap();
            });
        }
        always(secs(3), "the bystander is renewed", || bystander.check().is_ok());
        drop(client.lock("new").try_acquire_for(DEADLINE).unwrap().expect("a lock that nobody holds"));
        drop(bystander);
        let start = Instant::now();
        assert_eq!(client.close(DEADLINE).threads_left, 0);
        assert!(start.elapsed() < DEADLINE);
    });
    no_keys_left(&masters);
}

/// A waiter whose closure panics leaves the local queue, and what it was given goes to the next.
#[test]
fn a_closure_that_panics_leaves_the_local_queue() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    in_time("a closure that panics in the local queue", move || {
        for budget in [Duration::ZERO, ms(10)] {
            let lock = client.lock("x").options(Options::new().hand_over(budget));
            let waits = |mut asked: Box<dyn FnMut(u32) + Send>| {
                let mut times = 0;
                let go_on = || {
                    times += 1;
                    asked(times);
                    true
                };
                catch_unwind(AssertUnwindSafe(|| lock.acquire_while(None, go_on).map(drop))).is_err()
            };
            // It panics while it waits, and the lock is released behind it.
            let guard = lock.acquire().unwrap();
            assert!(waits(Box::new(|times| assert!(times < 3, "on purpose"))), "{budget:?}");
            drop(guard);
            drop(lock.try_acquire_for(DEADLINE).unwrap().expect("free"));
            // It is given the lock, or the turn, and panics before it takes it.
            let mut guard = Some(lock.acquire().unwrap());
            let gives = move |times: u32| {
                if times == 2 {
                    drop(guard.take());
                    panic!("on purpose");
                }
            };
            assert!(waits(Box::new(gives)), "{budget:?}");
            drop(lock.try_acquire_for(DEADLINE).unwrap().expect("free"));
        }
    });
    no_keys_left(&masters);
}

#[test]
fn a_pause_that_panics_leaves_the_local_queue() {
    let Some(masters) = masters(3) else { return };
    let (one, other) = (settled(&masters), client(&masters));
    in_time("a pause that panics", move || {
        let guard = other.lock("x").acquire().unwrap();
        let lock = one.lock("x").options(Options::new().retry(Retry::Custom(Arc::new(|_| panic!("on purpose")))));
        assert!(catch_unwind(AssertUnwindSafe(|| lock.acquire().map(drop))).is_err());
        drop(guard);
        drop(one.lock("x").try_acquire_for(DEADLINE).unwrap().expect("free"));
    });
    no_keys_left(&masters);
}

/// What a user's pause owns, dropped: it takes a lock of the same client.
struct Last(Client);

impl Drop for Last {
    fn drop(&mut self) {
        for i in 0..32 {
            drop(self.0.lock(&format!("last/{i}")).try_acquire());
        }
    }
}

#[test]
fn a_pause_is_dropped_under_no_lock() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    in_time("waiters whose pauses use the client when they are dropped", move || {
        let guard = client.lock("x").acquire().unwrap();
        let waiting: Vec<_> = (0..8)
            .map(|_| {
                let last = Last(client.clone());
                let pause = Retry::Custom(Arc::new(move |_| {
                    let _ = &last;
                    ms(20)
                }));
                let lock = client.lock("x").options(Options::new().retry(pause));
                std::thread::spawn(move || lock.acquire().map(drop))
            })
            .collect();
        support::let_pass(ms(300)); // by then most of them wait; it does not matter which
        drop(guard);
        support::let_pass(ms(20));
        client.close(DEADLINE);
        waiting.into_iter().for_each(|w| drop(w.join().unwrap()));
    });
}
