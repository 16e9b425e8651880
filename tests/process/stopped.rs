//! A process that stands still (SIGSTOP, a suspended machine): what it lost stays lost, and what was answered meanwhile
//! counts.

use crate::support::child::{Child, Task, entry, hear, say};
use crate::support::{self, DEADLINE, builder, connections, let_pass, masters, ms, no_keys_left, secs, settled};
use redleash::{Client, Lease, LeaseState, Options};
use rustix::process::{Signal, getpid, kill_process};
use std::thread;
use std::time::Instant;

/// A renewal that was under way when the process stood still could be counted after the deadline, when `check` had said
/// that the lock is lost: then it was held again.
#[test]
fn a_guard_that_was_lost_while_the_process_stood_still_stays_lost() {
    entry(losing_child);
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    let children: Vec<_> = (0..4).map(|i| Child::start(losing_child, &masters.urls(), &i.to_string())).collect();
    children.iter().for_each(|child| drop(child.expect("ready")));
    thread::scope(|scope| {
        for (i, mut child) in children.into_iter().enumerate() {
            scope.spawn(move || {
                for round in 0..2 {
                    child.tell("acquire");
                    child.expect("held");
                    // About when the renewal is due, a third of the ttl later.
                    support::let_pass(ms(328 + 2 * (2 * i as u64 + round)));
                    child.stop();
                    support::let_pass(ms(1_300)); // longer than what is left of any lease
                    child.signal(Signal::CONT);
                    child.expect("lost for good");
                }
                child.tell("end");
                assert!(child.end(DEADLINE).success());
            });
        }
    });
}

fn losing_child(task: Task) {
    let client = builder(task.urls).build().unwrap();
    let options = Options::new().lease(Lease::Watchdog { ttl: secs(1) });
    say("ready");
    while hear() == "acquire" {
        let guard = client.lock(&format!("x/{}", task.arg)).options(options.clone()).acquire().unwrap();
        say("held");
        let start = Instant::now();
        while guard.check().is_ok() {
            assert!(start.elapsed() < DEADLINE, "nobody stopped it");
        }
        support::always(ms(1_200), "lost", || {
            guard.check().is_err() && guard.remaining().is_zero() && matches!(guard.state(), LeaseState::Lost(_))
        });
        assert!(guard.verify().is_err() && guard.extend(secs(1)).is_err());
        say("lost for good");
    }
}

/// Several times, a child lets a guard go and stops itself before anybody has read the answers; when it goes on, they
/// have been in its sockets for longer than a master may take.
fn the_first_try_after_a_stop_of(masters: &redleash_testkit::Masters, hung: bool) {
    support::settled(masters);
    let mut child = Child::start(trying_child, &masters.urls(), "");
    child.expect("ready");
    if hung {
        masters[2].pause().unwrap();
    }
    for (round, stop) in [ms(700), ms(1500), ms(700), ms(1500)].into_iter().enumerate() {
        child.tell("go on");
        child.stopped();
        let_pass(stop);
        child.signal(Signal::CONT);
        let answer = child.expect("");
        assert_eq!(answer, "granted", "round {round}, after {stop:?}");
    }
    child.tell("end");
    // The connections are looked at every second, so a stop of 1.5 s makes that late.
    let late: u64 = child.expect("late by ms: ").parse().unwrap();
    assert!(late >= 300, "the timer of the chores was {late} ms late at the most");
    assert!(child.end(DEADLINE).success());
}

#[test]
fn answers_that_came_while_the_process_stood_still_are_read_before_a_master_is_called_hung() {
    entry(trying_child);
    let Some(masters) = masters(3) else { return };
    the_first_try_after_a_stop_of(&masters, false);
}

#[test]
fn answers_that_came_while_the_process_stood_still_are_read_also_beside_a_hung_master() {
    entry(trying_child);
    let Some(masters) = masters(3) else { return };
    the_first_try_after_a_stop_of(&masters, true);
}

fn trying_child(task: Task) {
    // The limits as they come: a master may take 500 ms, its connection lasts for 1 s.
    let client = Client::builder().nodes(task.urls).build().unwrap();
    let once = Options::new().tries(1).fail_fast(true);
    drop(client.lock("before").acquire().unwrap());
    say("ready");
    let me = rustix::process::getpid();
    while hear() == "go on" {
        let guard = client.lock("dropped").acquire().unwrap();
        // All that was asked before is answered and read, except by a master that hangs.
        drop(guard);
        let (mut last, mut now) = (Instant::now(), Instant::now());
        kill_process(me, Signal::STOP).unwrap();
        // Another thread may take the signal: this one goes on until it is stopped, which is a jump of its clock.
        while now - last < ms(200) {
            (last, now) = (now, Instant::now());
        }
        match client.lock("next").options(once.clone()).acquire() {
            Ok(guard) => {
                say("granted");
                drop(guard);
            }
            Err(error) => say(&format!("{error}").replace('\n', "; ")),
        }
    }
    say(&format!("late by ms: {}", client.stats().chore_latest.as_millis()));
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
    assert!(child.end(DEADLINE).success());
}

fn standing_child(task: Task) {
    let client = builder(task.urls).hang_timeout(ms(400)).build().unwrap();
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
