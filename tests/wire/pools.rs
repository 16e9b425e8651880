//! How many connections a client has, and what becomes of those that it does not use.

use crate::support::{always, builder, eventually, lock_key, masters, ms, no_keys_left, secs, settle, value};
use redleash::{Client, Error};
use redleash_testkit::{Server, wait_until};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// The connections at a master, but for the one that asks: their ids, and whether they subscribe to something.
fn connections(master: &Server) -> Vec<(u64, bool)> {
    let list = master.command(&["CLIENT", "LIST"]).unwrap().text().unwrap();
    let others = list.lines().filter(|line| !line.contains("cmd=client"));
    let word = |line: &str, name| line.split_whitespace().find_map(|w| w.strip_prefix(name)?.parse::<u64>().ok());
    others.filter_map(|line| Some((word(line, "id=")?, word(line, "sub=")? > 0))).collect()
}

/// The connection that subscribes.
fn subscriber(master: &Server) -> Option<u64> {
    connections(master).into_iter().find(|(_, subscribes)| *subscribes).map(|(id, _)| id)
}

/// Waits for the held lock `x` until the master has a subscription; its connection.
fn wait_for_x(client: &Client, master: &Server) -> u64 {
    let enough = AtomicBool::new(false);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| client.lock("x").acquire_while(None, || !enough.load(Ordering::Relaxed)).unwrap());
        let mut found = None;
        eventually("somebody subscribes", || {
            found = subscriber(master);
            found.is_some()
        });
        enough.store(true, Ordering::Relaxed);
        assert!(waiter.join().unwrap().is_none());
        found.unwrap()
    })
}

#[test]
fn a_pool_that_is_too_small_is_refused() {
    let refused = |lanes, size| match builder(["redis://127.0.0.1:1"]).lanes(lanes).pool_size(size).build() {
        Err(Error::Config(error)) => {
            assert_eq!(error.field, "pool_size");
            error.to_string()
        }
        other => panic!("{lanes} lanes and {size} connections: {other:?}"),
    };
    assert!(refused(1, 2).contains("3 to 1024"), "{}", refused(1, 2));
    assert!(refused(4, 5).contains("6 to 1024"), "{}", refused(4, 5));
    builder(["redis://127.0.0.1:1"]).lanes(4).pool_size(6).connect_timeout(ms(1)).build().unwrap();
    let short = builder(["redis://127.0.0.1:1"]).idle_timeout(secs(59)).build();
    assert!(matches!(short, Err(Error::Config(e)) if e.field == "idle_timeout"), "shorter than a lease");
}

/// Sets the flag at its end.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Look-ups, subscriptions that come and go, and a master that restarts, all within the smallest pool.
#[test]
fn there_are_never_more_connections_than_the_pool_has_room_for() {
    const SIZE: usize = 4;
    let Some(masters) = masters(1) else { return };
    let short = builder(masters.urls()).lanes(2).pool_size(SIZE as u32).max_lease(secs(2)).ttl(secs(1));
    let client = short.build().unwrap();
    let (over, most) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                // The master may be away.
                let list = masters[0].command(&["CLIENT", "LIST"]).ok().and_then(|list| list.text());
                let count = list.map_or(0, |l| l.lines().filter(|line| !line.contains("cmd=client")).count());
                most.fetch_max(count, Ordering::Relaxed);
                thread::sleep(ms(1));
            }
        });
        // Also when this fails.
        let _end = End(&over);
        let guard = client.lock("x").acquire().unwrap();
        let other = value(&masters[0], "x").unwrap();
        drop(guard);
        no_keys_left(&masters);
        for restarts in [false, true] {
            masters[0].command(&["SET", &lock_key("x"), &other, "PX", "1000"]).unwrap();
            let waits = scope.spawn(|| client.lock("x").acquire().map(drop).unwrap());
            eventually("it waits", || subscriber(&masters[0]).is_some());
            waits.join().unwrap();
            eventually("the connection comes back", || client.stats().connections.idle == 1);
            if restarts {
                masters[0].restart_empty().unwrap();
                eventually("it works again", || client.lock("x").try_acquire().is_ok());
            }
        }
    });
    let most = most.into_inner();
    assert!((3..=SIZE).contains(&most), "{most}");
    let stats = client.stats().connections;
    assert!(stats.open <= SIZE as u64 && stats.made > stats.closed && stats.closed >= 2, "{stats:?}");
    assert!(stats.check_outs >= stats.made, "{stats:?}");
}

#[test]
fn a_subscriptions_connection_is_used_again() {
    let Some(masters) = masters(1) else { return };
    let (holder, client) = (builder(masters.urls()).build().unwrap(), builder(masters.urls()).build().unwrap());
    let _guard = holder.lock("x").acquire().unwrap();
    let first = wait_for_x(&client, &masters[0]);
    eventually("it comes back", || client.stats().connections.idle == 1);
    assert!(connections(&masters[0]).contains(&(first, false)), "{:?}", connections(&masters[0]));
    let made = client.stats().connections.made;
    assert_eq!(wait_for_x(&client, &masters[0]), first);
    let stats = client.stats().connections;
    assert_eq!((stats.open, stats.idle, stats.made, stats.failed_tests), (2, 0, made, 0), "{stats:?}");
}

#[test]
fn a_connection_that_was_closed_while_it_was_idle_is_not_used() {
    let Some(masters) = masters(1) else { return };
    let holder = builder(masters.urls()).build().unwrap();
    let _guard = holder.lock("x").acquire().unwrap();
    thread::scope(|scope| {
        for tested in [true, false] {
            let client = builder(masters.urls()).test_on_check_out(tested).build().unwrap();
            let masters = &masters;
            let one = scope.spawn(move || {
                let first = wait_for_x(&client, &masters[0]);
                eventually("it comes back", || client.stats().connections.idle == 1);
                masters[0].command(&["CLIENT", "KILL", "ID", &first.to_string()]).unwrap();
                assert_ne!(wait_for_x(&client, &masters[0]), first);
                let stats = client.stats().connections;
                assert_eq!((stats.open, stats.closed, stats.failed_tests), (2, 1, u64::from(tested)), "{stats:?}");
            });
            one.join().unwrap();
        }
    });
}

#[test]
fn idle_connections_are_closed_and_made_again_for_the_next_lock() {
    let Some(masters) = masters(3) else { return };
    let short = builder(masters.urls()).max_lease(secs(1)).ttl(ms(500)).idle_timeout(secs(1));
    let client = settle(short);
    // A held lock is renewed: its lane is not idle.
    let guard = client.lock("held").acquire().unwrap();
    always(secs(3), "it is held", || guard.check().is_ok() && !connections(&masters[0]).is_empty());
    drop(guard);
    let none = || masters.iter().all(|m| connections(m).is_empty()) && client.stats().connections.open == 0;
    for round in 0..2 {
        eventually("the connections are closed", none);
        always(secs(1), "nor are addresses looked up", none);
        if round == 1 {
            masters[0].kill();
        }
        thread::scope(|scope| {
            for i in 0..8 {
                let client = &client;
                scope.spawn(move || drop(client.lock(&i.to_string()).try_acquire().unwrap().expect("free")));
            }
        });
    }
}

/// r2d2 closes what has been idle in a pool for the time that the user has set. It looks every 30 s.
#[test]
fn r2d2_closes_what_is_idle_in_a_pool() {
    let Some(masters) = masters(1) else { return };
    let short = |c: redleash::ClientBuilder| c.max_lease(secs(1)).ttl(ms(500));
    let holder = short(builder(masters.urls())).build().unwrap();
    let client = short(builder(masters.urls())).idle_timeout(secs(1)).build().unwrap();
    let _guard = holder.lock("x").acquire().unwrap();
    wait_for_x(&client, &masters[0]);
    assert!(
        wait_until(secs(60), || {
            let stats = client.stats().connections;
            stats.open == 0 && connections(&masters[0]).len() == 1
        }),
        "{:?}",
        client.stats()
    );
}
