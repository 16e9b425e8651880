//! In a forked child a guard is lost and releases nothing; the parent's lock stays the parent's.

use crate::support::child::{in_fork, ran_alone};
use crate::support::{self, DEADLINE, always, builder, lock_keys, masters, no_keys_left, secs, settle, settled, value};
use redleash::{Error, LeaseState, LossReason, Lost, Options, ReleaseOutcome};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

fn forked(lost: &Lost) -> bool {
    lost.reason == LossReason::Forked
}

fn is_forked(result: Result<(), Error>) -> bool {
    matches!(result, Err(Error::Lost(lost)) if forked(&lost))
}

#[test]
fn the_guard_is_lost_in_the_child_and_held_in_the_parent() {
    if ran_alone() {
        return;
    }
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").acquire().unwrap();
    let token = guard.fencing_token().unwrap();
    let before: Vec<_> = masters.iter().map(|m| value(m, "x")).collect();
    let mut guard = Some(guard);
    let answer = in_fork(|| {
        let guard = guard.take().unwrap();
        if !is_forked(guard.check()) {
            return 1;
        }
        if guard.state() != LeaseState::Lost(LossReason::Forked) {
            return 2;
        }
        if !guard.remaining().is_zero() {
            return 3;
        }
        if !is_forked(guard.ensure(secs(1))) {
            return 4;
        }
        if !is_forked(guard.verify()) {
            return 5;
        }
        if !is_forked(guard.extend(secs(5))) {
            return 6;
        }
        drop(guard);
        0
    });
    assert_eq!(answer, 0, "the number says which check failed in the child");
    let guard = guard.expect("the child took only its copy");
    guard.check().unwrap();
    guard.verify().unwrap();
    assert_eq!(guard.fencing_token().unwrap(), token);
    let after: Vec<_> = masters.iter().map(|m| value(m, "x")).collect();
    assert_eq!(before, after, "the child's Drop released nothing");
    assert_eq!(guard.release(), ReleaseOutcome::Released);
}

#[test]
fn release_in_the_child_says_lost_and_releases_nothing() {
    if ran_alone() {
        return;
    }
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let mut guard = Some(client.lock("x").acquire().unwrap());
    let answer = in_fork(|| match guard.take().unwrap().release() {
        ReleaseOutcome::AlreadyLost(Lost { reason: LossReason::Forked, .. }) => 0,
        _ => 1,
    });
    assert_eq!(answer, 0);
    assert!(masters.iter().filter(|m| lock_keys(m) == 1).count() >= 2);
    guard.unwrap().check().unwrap();
}

#[test]
fn the_client_refuses_to_work_in_the_child_and_a_new_one_works() {
    if ran_alone() {
        return;
    }
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    drop(client.lock("before").acquire().unwrap());
    let guard = client.lock("x").acquire().unwrap();
    let urls = masters.urls();
    let reentrant = client.reentrant_lock("re");
    let entered = reentrant.acquire().unwrap();
    let answer = in_fork(|| {
        if !matches!(client.lock("y").try_acquire(), Err(Error::Forked)) {
            return 1;
        }
        if !matches!(client.lock("y").acquire(), Err(Error::Forked)) {
            return 2;
        }
        if !matches!(client.status("x"), Err(Error::Forked)) {
            return 3;
        }
        if !matches!(client.force_release("x"), Err(Error::Forked)) {
            return 4;
        }
        // Re-entry in the child would be two processes in one lock.
        if !matches!(reentrant.acquire(), Err(Error::Forked | Error::Lost(_))) {
            return 5;
        }
        let mine = match builder(urls.clone()).build() {
            Ok(client) => client,
            Err(_) => return 6,
        };
        if !matches!(mine.lock("x").try_acquire(), Ok(None)) {
            return 7;
        }
        match mine.lock("y").acquire() {
            Ok(guard) if guard.check().is_ok() => 0,
            _ => 8,
        }
    });
    assert_eq!(answer, 0, "the number says which check failed in the child");
    guard.check().unwrap();
    entered.check().unwrap();
    // The parent's connections were not read or written by the child.
    for _ in 0..50 {
        drop(client.lock("z").acquire().unwrap());
    }
    drop((guard, entered));
    // The child left by `exit` with its guard alive: that key stays until its ttl, by no fault of ours.
    let _ = masters.iter().map(|m| m.command(&["DEL", &support::lock_key("y")])).collect::<Vec<_>>();
    no_keys_left(&masters);
}

/// The stacks of the parent's threads are used again in the child, with whatever tables still point to them.
#[test]
fn many_children_build_clients_of_their_own() {
    if ran_alone() {
        return;
    }
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").acquire().unwrap();
    for child in 0..30 {
        let answer = in_fork(|| {
            let clients: Vec<_> = (0..3).filter_map(|_| builder(masters.urls()).build().ok()).collect();
            let held = |client: &redleash::Client| matches!(client.lock("x").try_acquire(), Ok(None));
            match clients.iter().filter(|client| held(client)).count() {
                3 => 0,
                n => 10 + n as u8,
            }
        });
        assert_eq!(answer, 0, "child {child}: 10 and more is the number of clients that could ask");
    }
    guard.check().unwrap();
}

#[test]
fn the_parent_renews_while_and_after_the_child_lives() {
    if ran_alone() {
        return;
    }
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls()).ttl(secs(3)));
    let guard = client.lock("x").acquire().unwrap();
    let answer = in_fork(|| {
        // Longer than a renewal: a watchdog in the child, if there were one, would be due.
        support::let_pass(secs(2));
        u8::from(guard.check().is_ok())
    });
    assert_eq!(answer, 0);
    always(secs(4), "held by the parent", || guard.check().is_ok());
}

/// Counts lines, and locks nothing.
struct Lines(AtomicUsize);

static LINES: Lines = Lines(AtomicUsize::new(0));

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, _: &log::Record<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn flush(&self) {}
}

/// The child has the log of the parent, but not the thread that writes it, and finds it as another thread of the parent
/// may have been changing it.
#[test]
fn a_child_logs_while_its_parent_does() {
    if ran_alone() {
        return;
    }
    let Some(masters) = masters(1) else { return };
    log::set_logger(&LINES).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    let client = settled(&masters);
    let other = builder(masters.urls()).build().unwrap();
    let held = client.lock("x").acquire().unwrap();
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Each attempt that is refused is a line.
        scope.spawn(|| {
            while !end.load(Ordering::SeqCst) {
                drop(other.lock("x").try_acquire());
            }
        });
        for _ in 0..20 {
            let answer = in_fork(|| {
                LINES.0.store(0, Ordering::SeqCst);
                let Ok(client) = builder(masters.urls()).build() else { return 1 };
                if !matches!(client.lock("x").try_acquire(), Ok(None)) {
                    return 2;
                }
                client.close(DEADLINE);
                if LINES.0.load(Ordering::SeqCst) == 0 { 3 } else { 0 }
            });
            if answer != 0 {
                end.store(true, Ordering::SeqCst);
            }
            assert_eq!(answer, 0);
        }
        end.store(true, Ordering::SeqCst);
    });
    held.check().unwrap();
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

/// A handle of the parent's lock was made, or waited for, in the child; and dropping what the guard shared took
/// mutexes.
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
        assert!(guard.lost().try_recv().is_err(), "its loss was not announced");
    }
    assert_eq!(guards.iter().flatten().count(), 2);
    assert!(masters.iter().filter(|m| lock_keys(m) == 2).count() >= 2);
}
