//! What a review found about processes that fork or stand still, kept.

use crate::support;
use crate::support::child::{Child, Task, entry, hear, in_fork, ran_alone, say};
use crate::support::{SOON, builder, lock_keys, masters, ms, secs, settled};
use redleash::{Error, Lease, Lost, Options, Reason, State};
use rustix::process::Signal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

fn forked(lost: &Lost) -> bool {
    lost.reason == LossReason::Forked
}

/// Runs `busy` on two threads for as long as `work` takes, so that a fork in between finds its mutexes locked.
fn beside(busy: impl Fn() + Sync, work: impl FnOnce()) {
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    busy();
                }
            });
        }
        let _stop = Stop(&stop); // also if an assertion fails
        work();
    });
}

/// These methods took mutexes before they asked whether this is a child, in which nobody unlocks them.
#[test]
fn a_child_asks_a_guard_whose_mutexes_were_locked_and_hangs_nowhere() {
    if ran_alone() {
        return;
    }
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").acquire().unwrap();
    let margin = || assert!(guard.margin() <= 1);
    beside(margin, || {
        for round in 0..25 {
            assert_eq!(in_fork(|| u8::from(guard.margin() != 0)), 0, "round {round}");
        }
    });
    // Nobody calls `lost` before the child does.
    let on_lost = || guard.on_lost(|_| ());
    beside(on_lost, || {
        for round in 0..25 {
            let answer = in_fork(|| {
                guard.on_lost(|_| std::process::exit(3));
                match guard.lost().try_recv() {
                    Ok(lost) if forked(&lost) => 0,
                    Ok(_) => 1,
                    Err(_) => 2,
                }
            });
            assert_eq!(answer, 0, "round {round}");
        }
    });
    guard.check().unwrap();
    guard.verify().unwrap();
}

/// A handle of the parent's lock was made, or waited for, in the child; and dropping what the guard shared took mutexes.
#[test]
fn a_child_hands_nothing_over() {
    if ran_alone() {
        return;
    }
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let mut guards: Vec<_> = (0..2)
        .map(|i| Some(client.lock(&format!("x/{i}")).options(Options::new().fenced(true)).acquire().unwrap()))
        .collect();
    for guard in guards.iter_mut().flatten() {
        // The child drops a sender and callbacks, too.
        assert!(guard.lost().try_recv().is_err());
        guard.on_lost(|_| ());
    }
    let answer = in_fork(|| {
        match guards[0].take().unwrap().detach() {
            Err(Error::Lost(lost)) if forked(&lost) => {}
            _ => return 1,
        }
        drop(guards[1].take());
        0
    });
    assert_eq!(answer, 0, "the number says which check failed in the child");
    for guard in guards.iter().flatten() {
        guard.check().unwrap();
        guard.verify().unwrap();
        assert!(guard.lost().try_recv().is_err(), "nobody was told that it is lost");
    }
    assert_eq!(guards.iter().flatten().count(), 2);
    assert!(masters.iter().filter(|m| lock_keys(m) == 2).count() >= 2);
}

/// A renewal that was under way when the process stood still could be counted after the deadline, when `check` had said
/// that the lock is lost: then it was held again.
#[test]
fn a_guard_that_was_lost_while_the_process_stood_still_stays_lost() {
    entry(stopped_child);
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    let children: Vec<_> = (0..4).map(|i| Child::start(stopped_child, &masters.urls(), &i.to_string())).collect();
    children.iter().for_each(|child| drop(child.expect("ready")));
    thread::scope(|scope| {
        for (i, mut child) in children.into_iter().enumerate() {
            scope.spawn(move || {
                for round in 0..2 {
                    child.tell("acquire");
                    child.expect("held");
                    // About when the renewal is due, a third of the ttl later.
                    support::let_pass(ms(328 + 2 * (2 * i as u64 + round)));
                    child.signal(Signal::STOP);
                    support::let_pass(ms(1_300)); // longer than what is left of any lease
                    child.signal(Signal::CONT);
                    child.expect("lost for good");
                }
                child.tell("end");
                assert!(child.end(SOON).success());
            });
        }
    });
}

fn stopped_child(task: Task) {
    let client = builder(task.nodes).build().unwrap();
    let options = Options::new().lease(Lease::Watchdog { ttl: secs(1) });
    say("ready");
    while hear() == "acquire" {
        let guard = client.lock(&format!("x/{}", task.arg)).options(options.clone()).acquire().unwrap();
        say("held");
        let start = Instant::now();
        while guard.check().is_ok() {
            assert!(start.elapsed() < SOON, "nobody stopped it");
        }
        support::always(ms(1_200), "lost", || {
            guard.check().is_err() && guard.remaining().is_zero() && matches!(guard.state(), LeaseState::Lost(_))
        });
        assert!(guard.verify().is_err() && guard.extend(secs(1)).is_err());
        say("lost for good");
    }
}
