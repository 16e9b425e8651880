//! A lock is free as soon as its guard is released or dropped, wherever that happens.

use crate::support::child::{Child, Task, entry, say};
use crate::support::{
    self, DEADLINE, always, builder, client, eventually, lock_keys, masters, no_keys_left, proc, pttl, secs, settle,
    settled, value,
};
use redleash::{Lease, Options, ReleaseOutcome};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

#[test]
fn dropped_in_another_thread() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    let guard = a.lock("x").acquire().unwrap();
    assert!(b.lock("x").try_acquire().unwrap().is_none());
    thread::spawn(move || {
        guard.check().unwrap();
        drop(guard);
    })
    .join()
    .unwrap();
    assert!(b.lock("x").try_acquire_for(secs(10)).unwrap().is_some(), "long before the ttl of 30 s");
    no_keys_left(&masters);
}

#[test]
fn released_with_a_report() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").acquire().unwrap();
    assert_eq!(guard.release(), ReleaseOutcome::Released);
    no_keys_left(&masters);
    // Nothing answers: the report names every master.
    let guard = client.lock("y").acquire().unwrap();
    for master in &*masters {
        master.pause().unwrap();
    }
    match guard.release() {
        ReleaseOutcome::Unconfirmed(unconfirmed) => {
            let text = unconfirmed.to_string();
            assert_eq!((unconfirmed.name.as_str(), unconfirmed.masters.len()), ("y", 3), "{text}");
            for (report, master) in unconfirmed.masters.iter().zip(&*masters) {
                assert!(report.master.contains(&master.port().to_string()), "{report:?}");
                assert!(text.contains(&report.to_string()), "{text}");
            }
        }
        other => panic!("{other:?}"),
    }
    for master in &*masters {
        master.resume().unwrap();
    }
    // It was on its way.
    no_keys_left(&masters);
}

#[test]
fn a_panic_in_the_scope_of_a_guard_releases() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let lock = client.lock("x");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _guard = lock.acquire().unwrap();
        panic!("in the scope, on purpose");
    }));
    assert!(panicked.is_err());
    no_keys_left(&masters);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        lock.with(|_| -> Result<(), redleash::Error> { panic!("in the closure, on purpose") })
    }));
    assert!(panicked.is_err());
    no_keys_left(&masters);
    drop(lock.try_acquire().unwrap().expect("free"));
}

#[test]
fn a_thousand_drops_and_then_silence() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guards: Vec<_> = (0..1000).map(|i| client.lock(&format!("x/{i}")).acquire().unwrap()).collect();
    assert!(masters.iter().filter(|m| lock_keys(m) == 1000).count() >= 2);
    drop(guards);
    // From here on nobody calls the client, so nobody but its own threads can read what the masters answer.
    no_keys_left(&masters);
    eventually("the masters have sent everything", || masters.iter().all(|m| pending(m).is_empty()));
    if proc::readable() {
        eventually("everything is read", || masters.iter().all(|m| proc::unread_from(m.port()) == 0));
    }
    assert_eq!(support::undelivered(&client), (0, 0));
    drop(client.lock("x/0").try_acquire().unwrap().expect("free, and the connections are in order"));
}

/// Clients to whom this master has something to send, or from whom it has half a command.
fn pending(master: &redleash_testkit::Server) -> Vec<String> {
    let list = master.command(&["CLIENT", "LIST"]).unwrap().text().unwrap();
    let idle = |line: &&str| line.contains(" obl=0 ") && line.contains(" oll=0 ") && line.contains(" omem=0 ");
    let ours = list.lines().filter(|line| !line.contains("cmd=client"));
    ours.filter(|line| !idle(line) || !line.contains(" qbuf=0 ")).map(String::from).collect()
}

#[test]
fn a_process_that_drops_its_guard_and_exits_at_once_leaves_no_key() {
    entry(drop_and_exit_child);
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    for round in 0..10 {
        let mut child = Child::start(drop_and_exit_child, &masters.urls(), &round.to_string());
        child.expect("held");
        assert!(child.end(DEADLINE).success());
        // Everything was on its way when it ended; the servers read it after.
        no_keys_left(&masters);
    }
}

fn drop_and_exit_child(task: Task) {
    let client = builder(task.urls).build().unwrap();
    let guard = client.lock("x").acquire().unwrap();
    say("held");
    drop(guard);
    std::process::exit(0);
}

#[test]
fn many_guards_dropped_by_many_threads() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    thread::scope(|scope| {
        for t in 0..8 {
            let client = &client;
            scope.spawn(move || {
                for i in 0..100 {
                    let guard = client.lock(&format!("{t}/{i}")).acquire().unwrap();
                    guard.check().unwrap();
                }
            });
        }
    });
    no_keys_left(&masters);
}

#[test]
fn dropping_the_client_first_keeps_the_guard() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").options(Options::new().lease(Lease::Watchdog { ttl: secs(2) })).acquire().unwrap();
    drop(client);
    support::always(secs(4), "still renewed", || guard.check().is_ok());
    assert!(masters.iter().all(|m| pttl(m, "x").is_some()));
    drop(guard);
    no_keys_left(&masters);
    assert_eq!(value(&masters[0], "x"), None);
}

/// The release of a lock with a long ttl, refused by every master for as long as `refuse` is in force.
fn a_refused_release(refuse: &[&str], allow: &[&str]) {
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls()));
    // What counts is the end of the key, not the ttl of the lock.
    let guard = client.lock("refused").options(Options::new().lease(Lease::Fixed { ttl: secs(1) })).acquire().unwrap();
    guard.extend(secs(50)).unwrap();
    let configure = |command: &[&str]| masters.iter().for_each(|m| assert!(m.command(command).unwrap().is_ok()));
    configure(refuse);
    drop(guard);
    eventually("every master has refused it", || support::undelivered(&client).0 == 3);
    // Longer than the first few pauses.
    always(secs(2), "it waits for its delivery", || masters.iter().all(|m| lock_keys(m) == 1));
    configure(allow);
    no_keys_left(&masters);
    eventually("nothing waits any more", || support::undelivered(&client) == (0, 0));
}

#[test]
fn a_release_that_was_refused_for_want_of_replicas_is_delivered_soon_after() {
    a_refused_release(
        &["CONFIG", "SET", "min-replicas-to-write", "1"],
        &["CONFIG", "SET", "min-replicas-to-write", "0"],
    );
}

#[test]
fn a_release_that_was_not_permitted_is_delivered_when_it_is() {
    a_refused_release(&["ACL", "SETUSER", "default", "-evalsha", "-eval"], &["ACL", "SETUSER", "default", "+@all"]);
}
