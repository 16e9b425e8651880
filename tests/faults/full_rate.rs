//! One master hangs while others of this client's threads lock and unlock as fast as they can: what is held stays held,
//! and masters that have answered are not called hung.

use crate::support;
use crate::support::child::{Child, Task, entry, hear, say};
use crate::support::{SOON, eventually, let_pass, masters, ms, secs};
use redleash::{Client, Lease, Options, Release};
use rustix::process::{Signal, kill_process};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Sets its flag when it is dropped, also by a failed assertion: the scope's threads must end.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_held_lock_is_renewed_in_time_beside_threads_at_full_rate_while_a_master_hangs() {
    let Some(masters) = masters(3) else { return };
    // The limits as they come: this is about them.
    let client = Client::builder().nodes(masters.urls()).build().unwrap();
    client.init().unwrap();
    let held = client.lock("held").options(Options::new().lease(Lease::Watchdog { ttl: secs(3) })).acquire().unwrap();
    masters[2].pause().unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let end = Over(&over);
        // The ttl of 30 s keeps every release that the hung master has not taken.
        let cycle = |name: &'static str, awaited: bool| {
            let (lock, over) = (client.lock(name), &over);
            move || {
                let (mut cycles, mut longest) = (0u64, Duration::ZERO);
                while !over.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    let guard = lock.acquire().unwrap();
                    longest = longest.max(start.elapsed());
                    if awaited {
                        assert_eq!(guard.release(), ReleaseOutcome::Released);
                    } else {
                        drop(guard);
                    }
                    cycles += 1;
                }
                (cycles, longest)
            }
        };
        let workers = [("awaited", true), ("dropped", false)].map(|(name, awaited)| scope.spawn(cycle(name, awaited)));
        // It is renewed every second, so two seconds are left at the least if nothing is in the way.
        let (start, mut least) = (Instant::now(), held.remaining());
        while start.elapsed() < secs(8) && least > ms(500) {
            least = least.min(held.remaining());
            let_pass(ms(2));
        }
        let after = start.elapsed();
        drop(end);
        let results = workers.map(|worker| worker.join().unwrap());
        held.check().unwrap();
        let stats = client.stats();
        assert!(stats.renewal_latest < secs(1), "{stats:?}");
        assert!(least > ms(500), "only {least:?} were left of the lease after {after:?}; cycles, longest: {results:?}");
        for (cycles, longest) in results {
            assert!(cycles > 100, "{cycles} cycles are no load");
            assert!(longest < secs(3), "an acquire took {longest:?}");
        }
    });
    assert_eq!(held.release(), ReleaseOutcome::Released);
    masters[2].resume().unwrap();
    eventually("what was kept for the hung master is delivered", || client.stats().undelivered.pending == 0);
    let stats = client.stats();
    assert!(stats.renewal_latest < secs(3) && stats.chore_latest < secs(60), "{stats:?}");
}

/// Several times, a child lets a guard go and stops itself before anybody has read the answers; when it goes on, they have
/// been in its sockets for longer than a master may take.
fn the_first_try_after_a_stop_of(masters: &support::servers::Cluster, hung: bool) {
    support::settled(masters);
    let mut child = Child::start(stopped_child, &masters.urls(), "");
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
    assert!(child.end(SOON).success());
}

#[test]
fn answers_that_came_while_the_process_stood_still_are_read_before_a_master_is_called_hung() {
    entry(stopped_child);
    let Some(masters) = masters(3) else { return };
    the_first_try_after_a_stop_of(&masters, false);
}

#[test]
fn the_same_while_one_master_hangs() {
    entry(stopped_child);
    let Some(masters) = masters(3) else { return };
    the_first_try_after_a_stop_of(&masters, true);
}

fn stopped_child(task: Task) {
    // The limits as they come: a master may take 500 ms, its connection lasts for 1 s.
    let client = Client::builder().nodes(task.nodes).build().unwrap();
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
