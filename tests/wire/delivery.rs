//! Releases and undos: on the connection of what they undo, behind it, and as often as they need to.

use crate::support::{self, builder, eventually, lock_keys, masters, ms, no_keys_left, pttl, secs, settled};
use redleash::unversioned::scripts;
use redleash::{Client, LockGuard, Options};
use redleash_testkit::{Fault, Masters, Proxy};
use std::time::{Duration, Instant};

/// A script that a slow master did not know was sent in full behind the release of its own lock: the key came back and
/// stayed for a ttl.
#[test]
fn no_script_is_sent_again_behind_the_release_of_its_lock() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    for round in 0..5 {
        let lock = client.lock(&format!("x/{round}")).options(Options::new().fenced(true));
        // The scripts of a lock's life have been sent on every connection.
        for _ in 0..2 {
            let guard = lock.acquire().unwrap();
            guard.extend(secs(30)).unwrap();
            drop(guard);
        }
        no_keys_left(&masters);
        for master in &*masters {
            master.command(&["SCRIPT", "FLUSH"]).unwrap();
            // As if another client had released something in between.
            let release = scripts().into_iter().find(|s| s.name == "release").unwrap();
            master.command(&["SCRIPT", "LOAD", release.text]).unwrap();
        }
        masters[2].pause().unwrap();
        drop(lock.acquire().unwrap());
        masters[2].resume().unwrap();
        // The first answer comes behind the one that asks for the script, the second behind the script.
        for _ in 0..2 {
            eventually("heard", || client.status("-").unwrap().masters[2].failure.is_none());
        }
        assert_eq!(pttl(&masters[2], &format!("x/{round}")), None, "round {round}");
        no_keys_left(&masters);
    }
}

/// Every lane that was connected again made the releases of all lanes due; those of lanes still without a connection
/// used up their tries and were left to their ttl.
#[test]
fn undelivered_releases_wait_for_the_connection_of_their_own_lane() {
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    let proxy = Proxy::start(masters[0].port(), Fault::None).unwrap();
    let urls = [proxy.url(), masters[1].url(), masters[2].url()];
    let client = builder(urls).lanes(3).connect_timeout(ms(250)).build().unwrap();
    let guards: Vec<_> = (0..30).map(|i| client.lock(&format!("x/{i}")).acquire().unwrap()).collect();
    eventually("all votes are in", || lock_keys(&masters[0]) == 30);
    proxy.set(Fault::Cut);
    drop(guards);
    eventually("undelivered", || support::undelivered(&client) == (30, 0));
    support::let_pass(ms(1_500)); // their next try falls due while the master is away
    assert_eq!(support::undelivered(&client), (30, 0));
    proxy.mend();
    eventually("delivered", || lock_keys(&masters[0]) == 0);
    assert_eq!(support::undelivered(&client), (0, 0));
}

/// Acquires the lock "x" on all masters, with a minimum hold, through a proxy to the first one; and when that was.
fn held_for_at_least(hold: Duration, masters: &Masters) -> (Proxy, Client, LockGuard, Instant) {
    drop(settled(masters));
    let proxy = Proxy::start(masters[0].port(), Fault::None).unwrap();
    let client = builder([proxy.url(), masters[1].url(), masters[2].url()]).connect_timeout(ms(250)).build().unwrap();
    let guard = client.lock("x").options(Options::new().min_hold(hold)).acquire().unwrap();
    let granted = Instant::now();
    eventually("all votes are in", || pttl(&masters[0], "x").is_some());
    (proxy, client, guard, granted)
}

/// A release with a minimum hold that was delivered late began the whole hold anew.
#[test]
fn a_minimum_hold_is_not_prolonged_by_a_late_delivery() {
    let Some(masters) = masters(3) else { return };
    let hold = secs(6);
    let (proxy, client, guard, granted) = held_for_at_least(hold, &masters);
    proxy.set(Fault::Cut);
    drop(guard);
    eventually("undelivered", || support::undelivered(&client) == (1, 0));
    support::let_pass(secs(2)); // a third of the hold
    proxy.mend();
    let (mut read, mut left) = (Instant::now(), None);
    eventually("delivered", || {
        read = Instant::now();
        left = pttl(&masters[0], "x");
        left.is_none_or(|left| left <= hold)
    });
    let end = read + left.unwrap_or_default();
    assert!(end <= granted + hold + secs(1), "{:?} too long", end - (granted + hold));
}

/// The hold began anew after the connection's limit, if the answer to the release had been lost on a connection that
/// hung.
#[test]
fn a_minimum_hold_is_not_prolonged_by_a_lost_answer() {
    let Some(masters) = masters(3) else { return };
    let hold = secs(6);
    let (proxy, client, guard, granted) = held_for_at_least(hold, &masters);
    proxy.set(Fault::Mute);
    drop(guard);
    eventually("the hold runs", || pttl(&masters[0], "x").is_some_and(|left| left <= hold));
    // When the connection is given up after two seconds.
    eventually("undelivered", || support::undelivered(&client) == (1, 0));
    proxy.mend();
    eventually("delivered again", || support::undelivered(&client) == (0, 0));
    // Behind the second release.
    eventually("answered", || client.status("-").unwrap().masters[0].failure.is_none());
    let read = Instant::now();
    let end = read + pttl(&masters[0], "x").unwrap_or_default();
    assert!(end <= granted + hold + secs(1), "{:?} too long", end - (granted + hold));
}

#[test]
fn an_undo_goes_down_the_connection_of_its_attempt() {
    let Some(masters) = masters(1) else { return };
    let client = Client::builder()
        .nodes(masters.urls())
        .lanes(2)
        .master_timeout(ms(50))
        .hang_timeout(secs(20))
        .connect_timeout(secs(2))
        .build()
        .unwrap();
    for k in 0..40 {
        drop(client.lock(&format!("warm up/{k}")).acquire().unwrap());
    }
    no_keys_left(&masters);
    masters[0].pause().unwrap();
    // Each attempt is given up and undone while the master reads neither; it will read one connection after the other.
    for k in 0..40 {
        assert!(client.lock(&format!("undone/{k}")).try_acquire().is_err(), "the master hangs");
    }
    masters[0].resume().unwrap();
    // Behind all of that on both connections. Its own first try may be given up too: nothing of it may be left to wait
    // for.
    for k in 0..40 {
        let guard = client.lock(&format!("after/{k}")).try_acquire_for(secs(15)).unwrap();
        drop(guard.expect("nobody else wants it"));
    }
    no_keys_left(&masters);
}
