//! One lease between its guard, the watchdog and the timer (`src/engine/lease.rs`, `src/engine/hold.rs`).

use crate::engine::error::ReleaseOutcome;
use crate::engine::hold::Hold;
use crate::engine::root::{Engine, TTL};
use crate::protocol::{LossReason, Operation};
use crate::world;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Looks at a lease from several threads: once it is lost to one of them, it is lost to all.
#[derive(Default)]
struct Watch {
    over: AtomicBool,
    told: AtomicUsize,
}

impl Watch {
    fn of(held: &Hold) -> Arc<Watch> {
        let watch = Arc::<Watch>::default();
        let callback = watch.clone();
        held.on_lost(Box::new(move |_| {
            callback.told.fetch_add(1, Ordering::SeqCst);
        }));
        watch
    }

    fn look(&self, held: &Hold) -> bool {
        let over = self.over.load(Ordering::SeqCst);
        let holds = held.lease.check().is_ok();
        assert!(!(over && holds), "a lost lease came back");
        if !holds {
            self.over.store(true, Ordering::SeqCst);
        }
        holds
    }
}

/// Lets a renewal fall due, and some of the lease pass.
fn clock(thirds: usize) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for _ in 0..thirds {
            world::advance(TTL / 3 + Duration::from_millis(1));
            thread::yield_now();
        }
    })
}

fn looks(held: &Arc<Hold>, watch: &Arc<Watch>) -> thread::JoinHandle<()> {
    let (held, watch) = (held.clone(), watch.clone());
    thread::spawn(move || {
        for _ in 0..3 {
            watch.look(&held);
        }
    })
}

/// Lets time pass until nothing is owed, the watchdogs have nothing to do, and `done`.
fn settle(engine: &Arc<Engine>, done: impl Fn() -> bool) {
    let watchdogs = || world::started("watchdog") + world::started("standby");
    for round in 0.. {
        let (owed, idle) = (engine.lane().is_owed(), world::idle_count());
        if !owed && idle == watchdogs() && done() {
            return;
        }
        assert!(round < 1_000, "it does not settle: owed {owed}, {idle} of {} watchdogs idle", watchdogs());
        world::advance(Duration::from_millis(10));
        thread::yield_now();
    }
}

/// What the master heard of each lease: nothing behind its release.
fn nothing_behind_the_release(engine: &Engine) {
    let release = Operation::Release { keep: Duration::ZERO, tell: None }.number();
    let heard = engine.heard.lock().unwrap();
    let behind = heard.iter().skip_while(|(n, _)| *n != release).skip(1).find(|(n, _)| *n != release);
    assert!(behind.is_none(), "written behind the release: {heard:?}");
    let releases = heard.iter().filter(|(n, _)| *n == release).count();
    assert_eq!(releases, 1, "{heard:?}");
}

/// The guard ends in any way while it is renewed by the watchdog and by hand.
fn release(forgetful: bool) {
    let engine = Engine::start(forgetful);
    let held = engine.grant("x", true);
    let watch = Watch::of(&held);
    let mut threads = vec![looks(&held, &watch), clock(2)];
    let by_hand = held.clone();
    let extended = Arc::new(AtomicBool::new(false));
    let ready = extended.clone();
    let by_hand = thread::spawn(move || {
        drop(by_hand.lease.extend(TTL));
        ready.store(true, Ordering::SeqCst);
    });
    let (ending, ended) = (held.clone(), watch.clone());
    threads.push(thread::spawn(move || {
        ended.look(&ending);
        if thread_rng().gen_bool(0.5) {
            let release = ending.release();
            // The lease is far from its end, and no other owner takes it.
            assert_eq!(release, ReleaseOutcome::Released);
        } else {
            assert!(ending.let_go());
        }
        assert!(!ended.look(&ending), "held after its release");
    }));
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(held.release(), ReleaseOutcome::Released, "a second release is none");
    // What is not sent again is waited for until its round is over.
    settle(&engine, || extended.load(Ordering::SeqCst));
    by_hand.join().unwrap();
    nothing_behind_the_release(&engine);
    engine.close();
    world::join_all();
    assert_eq!(watch.told.load(Ordering::SeqCst), 0, "a release was announced as a loss");
}

#[test]
fn nothing_is_written_behind_the_release() {
    world::check("release against renewal", || release(false));
}

#[test]
fn nothing_is_sent_again_behind_the_release() {
    world::check("release against a renewal sent again", || release(true));
}

/// The lease is not released: it is renewed, taken, expires or meets the end of the client. Its loss is announced once.
fn loss() {
    let engine = Engine::start(false);
    let held = engine.grant("x", true);
    let watch = Watch::of(&held);
    let mut threads = vec![looks(&held, &watch), looks(&held, &watch), clock(4)];
    if thread_rng().gen_bool(0.5) {
        let taken = held.clone();
        threads.push(thread::spawn(move || drop(taken.lease.taken())));
    }
    let channel = held.clone();
    threads.push(thread::spawn(move || {
        // Deadlocks if the loss is not announced.
        let _ = channel.lost_signal().recv().expect("it is not released");
        assert!(channel.lost_signal().poll().is_none(), "announced twice");
    }));
    let waits = threads.pop().unwrap();
    threads.into_iter().for_each(|t| t.join().unwrap());
    engine.close();
    waits.join().unwrap();
    world::join_all();
    assert_eq!(watch.told.load(Ordering::SeqCst), 1);
    // If it was announced shortly before its end, that comes now.
    world::advance(2 * TTL);
    assert!(!watch.look(&held));
}

#[test]
fn a_loss_is_announced_once_and_for_good() {
    world::check("loss of a lease", loss);
}

/// A loss meets the end of the guard: it is announced at most once, and never after a release that found the lock held.
fn loss_against_release() {
    let engine = Engine::start(false);
    let held = engine.grant("x", false);
    let watch = Watch::of(&held);
    let taken = held.clone();
    let mut threads = vec![looks(&held, &watch), clock(3)];
    threads.push(thread::spawn(move || taken.lease.lose(LossReason::Taken)));
    let released = held.release();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert!(!watch.look(&held));
    settle(&engine, || true);
    nothing_behind_the_release(&engine);
    engine.close();
    world::join_all();
    let told = watch.told.load(Ordering::SeqCst);
    assert!(told <= 1, "told {told} times");
    if told == 0 {
        // Then the release itself has said so, or came first.
        assert!(matches!(released, ReleaseOutcome::Released | ReleaseOutcome::AlreadyLost(_)));
    }
}

#[test]
fn a_loss_and_a_release_do_not_both_count() {
    world::check("loss against release", loss_against_release);
}
