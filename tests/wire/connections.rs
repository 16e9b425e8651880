//! Connections that end: while they are idle, while the client is closed, under signals.

use crate::support::child::{Child, Task, entry, hear, say};
use crate::support::{
    self, DEADLINE, always, builder, connections, eventually, masters, masters_with, ms, no_keys_left, secs, settled,
    value,
};
use redleash::Client;
use redleash_testkit::wait_until;
use rustix::process::{Signal, kill_process};
use std::thread;

/// A pool that had tried to connect for a while got several connections at once, by r2d2's own tries. They died
/// unnoticed in the next outage, and each of them cost a round after it.
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

/// Nobody looked at connections that were idle: when the servers had closed them all, the next call failed for want of
/// a quorum, although every master was well.
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

/// A server closes connections that are idle (`timeout 1`, say); the first call behind it finds them closed.
#[test]
fn connections_that_were_closed_a_moment_ago() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    for round in 0..5 {
        drop(client.lock("x").acquire().unwrap());
        eventually("released", || masters.iter().all(|m| value(m, "x").is_none()));
        // So long that a server may have closed them, and at no fixed distance from a check of the idle ones.
        support::let_pass(ms(700 + 130 * round));
        for master in &*masters {
            master.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).unwrap();
        }
        let guard = client.lock("x").try_acquire().unwrap().expect("free");
        drop(guard);
    }
}

#[test]
fn a_server_that_closes_idle_connections() {
    let Some(masters) = masters_with(3, &["--timeout", "1"]) else { return };
    let client = settled(&masters);
    for round in 0..6 {
        support::let_pass(ms(1_000 + 170 * round));
        drop(client.lock("x").try_acquire().unwrap().expect("free"));
        eventually("released", || masters.iter().all(|m| value(m, "x").is_none()));
    }
}

/// System calls with a time limit end early when a signal has stopped the process, whatever its handlers are.
#[test]
fn signals_do_not_fail_a_connection() {
    entry(interrupted_child);
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    let mut child = Child::start(interrupted_child, &masters.urls(), "");
    let pid = child.pid();
    child.expect("ready");
    child.tell("go");
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = stop.clone();
    let signals = thread::spawn(move || {
        let mut count = 0_u32;
        while !stopped.load(std::sync::atomic::Ordering::SeqCst) {
            for signal in [Signal::STOP, Signal::CONT] {
                if kill_process(pid, signal).is_err() {
                    return count;
                }
            }
            count += 1;
            // So that the signals hit the call at many places: there is no state to wait for.
            thread::sleep(std::time::Duration::from_micros(100));
        }
        count
    });
    let said = child.expect("");
    stop.store(true, std::sync::atomic::Ordering::SeqCst);
    let count = signals.join().unwrap();
    assert_eq!(said, "60 of 60", "under {count} signals");
    child.tell("end");
    assert!(child.end(DEADLINE).success());
}

fn interrupted_child(task: Task) {
    say("ready");
    hear();
    let (mut good, mut failures) = (0, Vec::new());
    for i in 0..60 {
        // The limits are those of a patient user: what is asked is whether signals fail a call, not whether they delay
        // it.
        let limits = Client::builder()
            .nodes(&task.urls)
            .connect_timeout(secs(10))
            .master_timeout(secs(5))
            .round_timeout(secs(5));
        let client = limits.hang_timeout(secs(10)).ttl(secs(60)).build().unwrap();
        match client.lock(&format!("x/{i}")).try_acquire() {
            Ok(Some(_)) => good += 1,
            other => failures.push(format!("{other:?}")),
        }
        client.close(secs(5));
    }
    if failures.is_empty() {
        say(&format!("{good} of 60"))
    } else {
        say(&format!("{good} of 60: {}", failures[0]))
    }
    hear();
}
