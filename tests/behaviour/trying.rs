//! Ways to ask for a lock: once, for a time, until a moment, so many times, with pauses of one's own.

use crate::support::{self, DEADLINE, builder, client, masters, ms, secs, settle, settled};
use redleash::{Error, Options, Retry};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[test]
fn once() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    let guard = a.lock("x").try_acquire().unwrap().expect("free");
    let start = Instant::now();
    assert!(b.lock("x").try_acquire().unwrap().is_none(), "contention is no error");
    assert!(b.lock("x").try_acquire_for(Duration::ZERO).unwrap().is_none());
    assert!(b.lock("x").try_acquire_until(start).unwrap().is_none(), "a moment that has passed asks once");
    assert!(start.elapsed() < secs(10));
    drop(guard);
    support::no_keys_left(&masters);
    assert!(b.lock("x").try_acquire_until(start).unwrap().is_some());
}

#[test]
fn for_a_time_and_until_a_moment() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    let guard = a.lock("x").acquire().unwrap();
    let start = Instant::now();
    assert!(b.lock("x").try_acquire_for(secs(1)).unwrap().is_none());
    assert!(start.elapsed() >= ms(900) && start.elapsed() < secs(8), "{:?}", start.elapsed());
    let start = Instant::now();
    assert!(b.lock("x").try_acquire_until(start + secs(1)).unwrap().is_none());
    assert!(start.elapsed() >= ms(900) && start.elapsed() < secs(8), "{:?}", start.elapsed());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| b.lock("x").try_acquire_until(Instant::now() + DEADLINE).unwrap().is_some());
        support::let_pass(ms(300)); // somebody waits for this long
        drop(guard);
        assert!(waiting.join().unwrap());
    });
}

#[test]
fn a_number_of_times() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    let guard = a.lock("x").acquire().unwrap();
    let pauses = Arc::new(Mutex::new(Vec::new()));
    let noted = pauses.clone();
    // The fourth pause would outlast every test: after the last try there is none.
    let retry = Retry::Custom(Arc::new(move |n| {
        noted.lock().unwrap().push(n);
        if n < 3 { ms(10) } else { secs(3600) }
    }));
    let lock = b.lock("x").options(Options::new().tries(4).retry(retry));
    match lock.acquire() {
        Err(error @ Error::TriesUsedUp { tries: 4, .. }) => {
            assert!(error.is_retryable() && error.tally().is_some_and(|t| t.masters.len() == 3));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(pauses.lock().unwrap()[..3], [0, 1, 2]);
    // The caller of a timed one asked for an answer in time, not for an error.
    let start = Instant::now();
    assert!(lock.try_acquire_for(secs(30)).unwrap().is_none());
    assert!(start.elapsed() < secs(15), "{:?}", start.elapsed());
    drop(guard);
    support::no_keys_left(&masters);
    drop(lock.acquire().unwrap());
}

#[test]
fn with_pauses_of_its_own() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    let guard = a.lock("x").acquire().unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let custom = Retry::Custom(Arc::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        ms(5)
    }));
    assert!(b.lock("x").options(Options::new().retry(custom)).try_acquire_for(secs(2)).unwrap().is_none());
    let calls = calls.load(Ordering::SeqCst);
    assert!(calls > 20, "{calls} pauses of 5 ms in two seconds");
    // A long pause never outlasts the limit that the caller gave.
    let start = Instant::now();
    let slow = Options::new().retry(Retry::Fixed(secs(3600)));
    assert!(b.lock("x").options(slow).try_acquire_for(secs(1)).unwrap().is_none());
    assert!(start.elapsed() < secs(8), "{:?}", start.elapsed());
    drop(guard);
}

/// A pause of zero asked the masters 32 000 times a second.
#[test]
fn a_pause_of_zero_is_a_millisecond() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    let guard = a.lock("x").acquire().unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let custom = Retry::Custom(Arc::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Duration::ZERO
    }));
    let start = Instant::now();
    assert!(b.lock("x").options(Options::new().retry(custom)).try_acquire_for(ms(300)).unwrap().is_none());
    let (calls, passed) = (u128::from(calls.load(Ordering::SeqCst)), start.elapsed().as_millis());
    assert!(calls > 2 && calls <= passed + 2, "{calls} pauses in {passed} ms");
    drop(guard);
}

#[test]
fn the_clients_retry_is_every_locks_default() {
    let Some(masters) = masters(3) else { return };
    let a = settled(&masters);
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let custom = Retry::Custom(Arc::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        ms(5)
    }));
    let b = builder(masters.urls()).ttl(secs(7)).retry(custom).build().unwrap();
    let guard = a.lock("x").acquire().unwrap();
    assert!(b.lock("x").try_acquire_for(secs(1)).unwrap().is_none());
    assert!(calls.load(Ordering::SeqCst) > 5);
    drop(guard);
    // And the ttl beside it is the client's too.
    let guard = b.lock("y").acquire().unwrap();
    assert!(guard.remaining() <= secs(7), "{:?}", guard.remaining());
}

#[test]
fn fail_fast_reports_an_outage_at_once() {
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls()).outage_patience(secs(30)));
    masters[0].kill();
    masters[1].kill();
    let lock = client.lock("x").options(Options::new().fail_fast(true));
    let start = Instant::now();
    assert!(matches!(lock.acquire(), Err(Error::NoQuorum(_))));
    assert!(matches!(lock.try_acquire_for(secs(30)), Err(Error::NoQuorum(_))));
    assert!(start.elapsed() < secs(15), "{:?}", start.elapsed());
}

#[test]
fn fail_fast_still_waits_for_a_holder() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    let guard = a.lock("x").acquire().unwrap();
    let lock = b.lock("x").options(Options::new().fail_fast(true));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| lock.acquire().map(|g| g.check().is_ok()));
        support::let_pass(ms(500)); // somebody waits for this long
        assert!(!waiting.is_finished());
        drop(guard);
        assert!(waiting.join().unwrap().unwrap());
    });
}

#[test]
fn options_that_are_wrong_are_found_when_the_lock_is_asked_for() {
    let Some(masters) = masters(1) else { return };
    let client = client(&masters);
    let lock = client.lock("x").options(Options::new().tries(0));
    assert!(matches!(lock.try_acquire(), Err(Error::Config(e)) if e.field == "tries"));
    // Replaced by good ones, the lock works.
    drop(lock.options(Options::new()).acquire().unwrap());
}

/// The pauses of the client were forgotten by every lock that had options of its own.
#[test]
fn a_lock_with_options_keeps_the_clients_pauses() {
    let Some(masters) = masters(3) else { return };
    let count = Arc::new(AtomicU32::new(0));
    let counting = count.clone();
    let pause = move |_| {
        counting.fetch_add(1, Ordering::SeqCst);
        ms(1)
    };
    let client = settle(builder(masters.urls()).retry(Retry::Custom(Arc::new(pause))));
    let _guard = client.lock("x").acquire().unwrap();
    for options in [Options::new().tries(5), Options::new().tries(5).fenced(true)] {
        count.store(0, Ordering::SeqCst);
        let error = client.lock("x").options(options).acquire().unwrap_err();
        assert!(matches!(error, Error::TriesUsedUp { .. }), "{error:?}");
        assert!(count.load(Ordering::SeqCst) >= 4, "the client's pauses were asked {count:?} times");
    }
    // A lock's own pauses come first.
    count.store(0, Ordering::SeqCst);
    let own = Options::new().tries(3).retry(Retry::Fixed(ms(1)));
    client.lock("x").options(own).acquire().unwrap_err();
    assert_eq!(count.load(Ordering::SeqCst), 0);
}
