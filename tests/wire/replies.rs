//! A reply answers the request that it belongs to, or nobody's.

use crate::support::{self, builder, eventually, lock_keys, masters, ms, no_keys_left, occupy, secs};
use redleash::{Client, Options};
use redleash_testkit::{Fault, Masters, Proxy};
use std::thread;

/// One master behind a proxy, where a key of somebody else's is in the way of "taken"; one connection carries
/// everything.
fn one_behind_a_proxy() -> Option<(Masters, Proxy, Client)> {
    let masters = masters(1)?;
    let proxy = Proxy::start(masters[0].port(), Fault::None).unwrap();
    let patient = builder([proxy.url()]).lanes(1).master_timeout(secs(10)).round_timeout(secs(10));
    let client = patient.hang_timeout(secs(20)).build().unwrap();
    drop(client.lock("warm up").acquire().unwrap());
    no_keys_left(&masters);
    occupy(&masters[0], "taken");
    Some((masters, proxy, client))
}

/// Afterwards the connection has been replaced, and its successor's answers are for those who asked.
fn a_new_connection_works(masters: &Masters, proxy: &Proxy, client: &Client, before: u64) {
    eventually("the connection is replaced", || proxy.accepted() > before);
    eventually("it works again", || client.lock("again").try_acquire().is_ok_and(|guard| guard.is_some()));
    assert!(client.lock("taken").try_acquire().unwrap().is_none());
    eventually("the undone key is absent", || lock_keys(&masters[0]) == 1);
}

#[test]
fn a_late_reply_answers_no_other_request() {
    let Some(masters) = masters(1) else { return };
    let client = Client::builder()
        .nodes(masters.urls())
        .master_timeout(secs(3))
        .round_timeout(secs(3))
        .hang_timeout(secs(1))
        .connect_timeout(secs(2))
        .build()
        .unwrap();
    drop(client.lock("warm up").acquire().unwrap());
    no_keys_left(&masters);
    occupy(&masters[0], "taken");
    masters[0].pause().unwrap();
    // By scripts, whose replies do not say which lock they are about.
    assert!(
        client.lock("free").options(Options::new().fenced(true)).try_acquire_for(ms(100)).is_err(),
        "the master hangs"
    );
    // Beyond the connection's limit, so that its oldest request is given up; what is asked then is answered later.
    support::let_pass(ms(1_500));
    let asking = {
        let lock = client.lock("taken").options(Options::new().fenced(true));
        std::thread::spawn(move || lock.try_acquire_for(secs(5)).is_ok_and(|guard| guard.is_some()))
    };
    support::let_pass(ms(100));
    masters[0].resume().unwrap();
    assert!(!asking.join().unwrap(), "the grant of another lock was taken for ours");
}

#[test]
fn a_reply_too_many_answers_no_other_request() {
    let Some((masters, proxy, client)) = one_behind_a_proxy() else { return };
    let before = proxy.accepted();
    masters[0].pause().unwrap();
    let ask = |name: &str| {
        let lock = client.lock(name);
        let asking = thread::spawn(move || lock.try_acquire().map(|guard| guard.is_some()));
        support::let_pass(ms(200)); // until it is written
        asking
    };
    // Both stand on the connection when the answers come, and the first is for neither.
    let (free, taken) = (ask("free"), ask("taken"));
    proxy.set(Fault::Before(b":7\r\n"));
    masters[0].resume().unwrap();
    assert!(free.join().unwrap().is_err(), "nonsense is no vote");
    assert!(taken.join().unwrap().is_err(), "an answer to another request was taken for its own");
    assert_eq!(proxy.misbehaved(), 1);
    a_new_connection_works(&masters, &proxy, &client, before);
}

#[test]
fn a_reply_that_nobody_asked_for_ends_the_connection() {
    let Some((masters, proxy, client)) = one_behind_a_proxy() else { return };
    let before = proxy.accepted();
    proxy.set(Fault::Behind(b"+OK\r\n"));
    let guard = client.lock("x").acquire().unwrap();
    eventually("the connection is replaced", || proxy.accepted() > before);
    guard.check().unwrap();
    drop(guard);
    assert_eq!(proxy.misbehaved(), 1);
    a_new_connection_works(&masters, &proxy, &client, before);
}
