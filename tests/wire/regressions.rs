//! What a review of the connections, lanes and threads found, kept.

use crate::support;
use crate::support::child::{Child, Task, entry, hear, say};
use crate::support::proxy::{Fault, Proxy};
use crate::support::servers::{Cluster, Server, wait_until};
use crate::support::{
    SOON, always, builder, deadline, eventually, lock_keys, masters, ms, no_keys_left, occupy, pttl, secs, settled,
};
use redleash::unversioned::scripts;
use redleash::{Client, Error, Lease, LockGuard, Options, Release};
use rustix::process::{Signal, getpid, kill_process};
use std::collections::BTreeSet;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

/// The connections that clients have to this master, by their number there.
fn connections(master: &Server) -> BTreeSet<u64> {
    let list = master.command(&["CLIENT", "LIST"]).unwrap().text().unwrap();
    let others = list.lines().filter(|line| !line.contains("cmd=client"));
    let id = |line: &str| line.split_whitespace().find_map(|word| word.strip_prefix("id=")?.parse().ok());
    others.filter_map(id).collect()
}

/// A client that finds out within half a second that a master hangs. The masters are settled with more patience.
fn quick(masters: &Cluster) -> Client {
    drop(settled(masters));
    let quick = builder(masters.urls()).master_timeout(ms(200)).round_timeout(ms(200));
    quick.hang_timeout(ms(500)).connect_timeout(ms(250)).ttl(secs(4)).build().unwrap()
}

/// Waits until this many masters are known to be down: a round does not even ask them.
fn down(client: &Client, wanted: usize) {
    eventually("known to be down", || {
        let failed = client.status("-").unwrap().masters.into_iter().filter_map(|m| m.failure);
        failed.filter(|why| why.contains("not connected")).count() == wanted
    });
}

/// Rounds that are decided while they are written, as `step` makes them, do not make the healthy master a hung one.
fn the_third_stays_well(step: impl Fn(&LockGuard) -> Error) {
    const STEPS: usize = 12;
    let Some(masters) = masters(3) else { return };
    let client = quick(&masters);
    let guard = client.lock("x").options(Options::new().lease(Lease::Fixed { ttl: secs(40) })).acquire().unwrap();
    masters[0].kill();
    masters[1].kill();
    down(&client, 2);
    let mut hung = 0;
    for _ in 0..STEPS {
        let error = step(&guard);
        let said = error.tally().expect("no quorum").masters[2].answer.to_string();
        hung += usize::from(said.contains("hung"));
        support::let_pass(ms(300)); // longer than a master's limit
    }
    // Where idle connections alone are looked at, once a second, it is two of three.
    assert!(hung < STEPS / 3, "{hung} of {STEPS}");
}

/// Nobody read what the healthy master answered to such a round, until a second later somebody looked at idle
/// connections; meanwhile every round called that master hung.
#[test]
fn answers_to_a_round_decided_while_written_are_read() {
    the_third_stays_well(|guard| guard.verify().unwrap_err());
}

/// The same with renewals, which also waited for nothing.
#[test]
fn answers_to_an_extension_decided_while_written_are_read() {
    the_third_stays_well(|guard| guard.extend(secs(40)).unwrap_err());
}

/// A release that was decided so left the next lock with a master that was taken for hung.
#[test]
fn a_release_decided_while_written_does_not_spoil_the_next_lock() {
    let Some(masters) = masters(3) else { return };
    let client = builder(masters.urls()).quarantine(false).connect_timeout(ms(250)).build().unwrap();
    let guard = client.lock("x").acquire().unwrap();
    masters[0].kill();
    masters[1].kill();
    down(&client, 2);
    assert!(matches!(guard.release(), ReleaseOutcome::Unconfirmed(_)));
    masters[1].restart_empty().unwrap();
    eventually("two of three give a lock", || client.lock("y").try_acquire().is_ok_and(|guard| guard.is_some()));
    eventually("it is delivered", || lock_keys(&masters[2]) == 0);
}

/// After such rounds nothing but a Drop or an undo set the client going again, although a quorum was back.
#[test]
fn rounds_decided_while_written_do_not_spoil_the_next_ones() {
    let Some(masters) = masters(3) else { return };
    let client = quick(&masters);
    let guard = client.lock("x").options(Options::new().lease(Lease::Fixed { ttl: secs(40) })).acquire().unwrap();
    masters[0].pause().unwrap();
    masters[1].pause().unwrap();
    down(&client, 2);
    for _ in 0..12 {
        guard.verify().unwrap_err();
        support::let_pass(ms(50)); // in all longer than a master's limit: unread answers would be overdue
    }
    masters[1].resume().unwrap();
    eventually("two of three vouch for it", || guard.verify().is_ok());
    masters[0].resume().unwrap();
}

/// The watchdog's tries were decided while written, so the healthy master was taken for hung: a lock was lost although a
/// quorum was healthy again long before the deadline.
#[test]
fn a_held_lock_survives_an_outage_that_ends_before_the_deadline() {
    let Some(masters) = masters(3) else { return };
    let client = quick(&masters);
    let guard = client.lock("x").acquire().unwrap();
    let end = deadline(&guard);
    masters[0].pause().unwrap();
    masters[1].pause().unwrap();
    // The first renewal is due after a third of the ttl, and from half a second later on two masters are down.
    eventually("the outage has lasted", || guard.remaining() < ms(1_800));
    masters[1].resume().unwrap();
    eventually("renewed or lost", || guard.remaining().is_zero() || deadline(&guard) > end + ms(500));
    guard.check().unwrap();
    guard.verify().unwrap();
    masters[0].resume().unwrap();
}

/// A reader that comes late, because the process stood still, closed a healthy connection as hung before it looked into
/// the socket, where all answers lay.
#[test]
fn a_process_that_stood_still_keeps_its_connections() {
    entry(standing_child);
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    let mut child = Child::start(standing_child, &masters.urls(), "");
    child.expect("held");
    let before: Vec<_> = masters.iter().map(connections).collect();
    assert!(before.iter().all(|ids| !ids.is_empty()));
    child.tell("drop it");
    child.stopped();
    support::let_pass(secs(1)); // longer than the connection's limit
    child.signal(Signal::CONT);
    child.expect("going");
    no_keys_left(&masters);
    child.tell("acquire again");
    child.expect("done");
    let after: Vec<_> = masters.iter().map(connections).collect();
    assert_eq!(before, after);
    child.tell("end");
    assert!(child.end(SOON).success());
}

fn standing_child(task: Task) {
    let client = builder(task.nodes).connection_limit(ms(400)).build().unwrap();
    let guard = client.lock("x").acquire().unwrap();
    guard.verify().unwrap();
    say("held");
    hear();
    drop(guard); // nobody waits for what is answered to this
    kill_process(getpid(), Signal::STOP).unwrap();
    say("going");
    hear();
    client.lock("x").acquire().unwrap().verify().unwrap();
    say("done");
    hear();
}

/// A pool that had tried to connect for a while got several connections at once, by r2d2's own tries. They died unnoticed in the
/// next outage, and each of them cost a round after it.
#[test]
fn connections_that_died_in_the_pool_are_not_used() {
    let Some(masters) = masters(1) else { return };
    let client = builder(masters.urls()).connect_timeout(ms(250)).build().unwrap();
    drop(client.lock("x").acquire().unwrap());
    masters[0].kill();
    client.lock("x").try_acquire().unwrap_err();
    support::let_pass(ms(1_500)); // several tries to connect
    masters[0].restart_empty().unwrap();
    eventually("it works again", || client.lock("x").try_acquire().is_ok());
    always(ms(500), "there are none to spare", || connections(&masters[0]).len() == 1);
    masters[0].kill();
    client.lock("x").try_acquire().unwrap_err();
    masters[0].restart_empty().unwrap();
    eventually("it works again", || match client.lock("y").try_acquire() {
        Ok(_) => true,
        Err(error) => {
            // That it is not connected yet is true; that it has closed a connection since it came back is not.
            assert!(error.to_string().contains("not connected"), "{error}");
            false
        }
    });
}

/// Nobody looked at connections that were idle: when the servers had closed them all, the next call failed for want of a
/// quorum, although every master was well.
#[test]
fn connections_closed_while_idle_are_replaced_before_they_are_used() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    drop(client.lock("x").acquire().unwrap());
    no_keys_left(&masters);
    let before: Vec<_> = masters.iter().map(connections).collect();
    for master in &*masters {
        master.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).unwrap();
    }
    eventually("new connections, without a call", || {
        masters.iter().zip(&before).all(|(master, before)| connections(master).difference(before).next().is_some())
    });
    // What the server has accepted is in place a moment later; `status` votes for nothing and undoes nothing.
    eventually("in place", || client.status("x").unwrap().masters.iter().all(|m| m.failure.is_none()));
    drop(client.lock("x").try_acquire().unwrap().expect("free"));
}

/// A caller that had taken the lead slept on in its poll when its own round was decided by another's write.
#[test]
fn a_leader_whose_round_is_decided_by_anothers_write_wakes_up() {
    const THREADS: usize = 12;
    let Some(masters) = masters(3) else { return };
    // Who sleeps on sleeps until one of these limits.
    let patient =
        Client::builder().nodes(masters.urls()).quarantine(false).master_timeout(secs(30)).round_timeout(secs(30));
    let client = patient.hang_timeout(secs(300)).build().unwrap();
    drop(client.lock("x").acquire().unwrap());
    masters.iter().for_each(|m| m.kill());
    down(&client, 3);
    let (tell, told) = channel();
    for i in 0..THREADS {
        let (client, tell) = (client.clone(), tell.clone());
        thread::spawn(move || {
            let start = Instant::now();
            let mut calls = 0;
            // Seldom enough to need some calls; they fail in microseconds.
            while start.elapsed() < secs(3) {
                client.lock(&format!("{i}/{calls}")).try_acquire().unwrap_err();
                calls += 1;
            }
            tell.send(calls).unwrap();
        });
    }
    for _ in 0..THREADS {
        let calls = told.recv_timeout(secs(15)).expect("no call sleeps until its limit");
        assert!(calls > 1, "{calls}");
    }
}

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

/// Every lane that was connected again made the releases of all lanes due; those of lanes still without a connection used
/// up their tries and were left to their ttl.
#[test]
fn undelivered_releases_wait_for_the_connection_of_their_own_lane() {
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    let proxy = Proxy::start(masters[0].port(), Fault::None);
    let nodes = [proxy.url(), masters[1].url(), masters[2].url()];
    let client = builder(nodes).lanes(3).connect_timeout(ms(250)).build().unwrap();
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

/// A release with a minimum hold that was delivered late began the whole hold anew.
#[test]
fn a_minimum_hold_is_not_prolonged_by_a_late_delivery() {
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    let proxy = Proxy::start(masters[0].port(), Fault::None);
    let client = builder([proxy.url(), masters[1].url(), masters[2].url()]).connect_timeout(ms(250)).build().unwrap();
    let hold = secs(6);
    let guard = client.lock("x").options(Options::new().min_hold(hold)).acquire().unwrap();
    let granted = Instant::now();
    eventually("all votes are in", || pttl(&masters[0], "x").is_some());
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

/// The hold began anew after the connection's limit, if the answer to the release had been lost on a connection that hung.
#[test]
fn a_minimum_hold_is_not_prolonged_by_a_lost_answer() {
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    let proxy = Proxy::start(masters[0].port(), Fault::None);
    let client = builder([proxy.url(), masters[1].url(), masters[2].url()]).connect_timeout(ms(250)).build().unwrap();
    let hold = secs(6);
    let guard = client.lock("x").options(Options::new().min_hold(hold)).acquire().unwrap();
    let granted = Instant::now();
    eventually("all votes are in", || pttl(&masters[0], "x").is_some());
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

/// A connection that was made while the client was being closed could stay until the last handle was dropped.
#[test]
fn closing_while_it_connects_leaves_no_connection() {
    let Some(masters) = masters(3) else { return };
    let mut closed = Vec::new();
    for round in 0..60 {
        // It does not wait for so many connections.
        let client = builder(masters.urls()).quarantine(false).lanes(12).connect_timeout(ms(5)).build().unwrap();
        support::let_pass(ms(round % 8));
        client.close(secs(10));
        closed.push(client);
    }
    let gone = wait_until(secs(10), || masters.iter().all(|m| connections(m).is_empty()));
    assert!(gone, "{:?}", masters.iter().map(|m| connections(m).len()).collect::<Vec<_>>());
    drop(closed);
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

/// One master behind a proxy, where a key of somebody else's is in the way of "taken"; one connection carries everything.
fn one_behind_a_proxy() -> Option<(Cluster, Proxy, Client)> {
    let masters = masters(1)?;
    let proxy = Proxy::start(masters[0].port(), Fault::None);
    let patient = builder([proxy.url()]).lanes(1).master_timeout(secs(10)).round_timeout(secs(10));
    let client = patient.hang_timeout(secs(20)).build().unwrap();
    drop(client.lock("warm up").acquire().unwrap());
    no_keys_left(&masters);
    occupy(&masters[0], "taken");
    Some((masters, proxy, client))
}

/// Afterwards the connection has been replaced, and its successor's answers are for those who asked.
fn a_new_connection_works(masters: &Cluster, proxy: &Proxy, client: &Client, before: u64) {
    eventually("the connection is replaced", || proxy.accepted() > before);
    eventually("it works again", || client.lock("again").try_acquire().is_ok_and(|guard| guard.is_some()));
    assert!(client.lock("taken").try_acquire().unwrap().is_none());
    eventually("what was undone is gone", || lock_keys(&masters[0]) == 1);
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
    // Behind all of that on both connections. Its own first try may be given up too: nothing of it may be left to wait for.
    for k in 0..40 {
        let guard = client.lock(&format!("after/{k}")).try_acquire_for(secs(15)).unwrap();
        drop(guard.expect("nobody else wants it"));
    }
    no_keys_left(&masters);
}
