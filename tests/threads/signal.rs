//! The announcement of a loss (`src/engine/signal.rs`): once, by every channel and callback, and never after a release.

use crate::engine::error::Lost;
use crate::engine::signal::{Callbacks, Signal};
use crate::protocol::LossReason;
use crate::sys::thread::Threads;
use crate::world;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn lost(reason: LossReason) -> Lost {
    Lost { name: "x".into(), reason }
}

fn scenario() {
    let signal = Arc::new(Signal::default());
    let called = Arc::new(AtomicUsize::new(0));
    let count = |called: &Arc<AtomicUsize>| {
        let called = called.clone();
        Box::new(move |_| {
            called.fetch_add(1, Ordering::SeqCst);
        })
    };
    let spawn = |body: Box<dyn FnOnce(&Signal) + Send>| {
        let signal = signal.clone();
        thread::spawn(move || body(&signal))
    };
    let fire = |signal: &Signal, reason| {
        for callback in signal.fire(&lost(reason)) {
            callback(lost(reason));
        }
    };
    let callback = count(&called);
    let hears = signal.clone();
    let hears = thread::spawn(move || {
        let told = hears.receiver(None).recv().is_ok();
        assert!(!matches!(hears.receiver(None).poll(), Some(Ok(_))), "told twice");
        told
    });
    let threads = [
        spawn(Box::new(move |s| fire(s, LossReason::Taken))),
        spawn(Box::new(move |s| fire(s, LossReason::Expired))),
        spawn(Box::new(|s| drop(s.end()))),
        spawn(Box::new(move |s| {
            if let Some((callback, Some(lost))) = s.on_lost(callback) {
                callback(lost);
            }
        })),
    ];
    threads.into_iter().for_each(|t| t.join().unwrap());
    let told = hears.join().unwrap();
    let fired = signal.on_lost(count(&called)).is_some_and(|(_, lost)| lost.is_some());
    assert_eq!(told, fired, "the channel");
    assert_eq!(called.load(Ordering::SeqCst), usize::from(fired), "the callback");
    assert_eq!(signal.receiver(None).poll(), Some(Err(crate::sys::channel::Disconnected)), "it is over");
}

#[test]
fn a_loss_is_announced_once_to_all() {
    world::check("signal of a loss", scenario);
}

/// Callbacks come in while the client is closed and, in half of the runs, no thread can be started any more: each is
/// called once.
fn callbacks() {
    let (threads, callbacks) = (Arc::<Threads>::default(), Arc::new(Callbacks::default()));
    callbacks.start(&threads).unwrap();
    let scarce = thread_rng().gen_bool(0.5);
    threads.scarce.store(scarce, Ordering::SeqCst);
    let called = Arc::new(AtomicUsize::new(0));
    let callers = [(); 3].map(|()| {
        let (threads, callbacks, called) = (threads.clone(), callbacks.clone(), called.clone());
        thread::spawn(move || {
            for _ in 0..2 {
                let called = called.clone();
                let callback = Box::new(move |_| {
                    called.fetch_add(1, Ordering::SeqCst);
                });
                callbacks.call(&threads, callback, lost(LossReason::Taken));
            }
        })
    });
    if !scarce {
        callbacks.stop();
    }
    callers.into_iter().for_each(|t| t.join().unwrap());
    callbacks.stop();
    world::join_all();
    assert_eq!(called.load(Ordering::SeqCst), 6);
}

#[test]
fn every_callback_is_called_once_and_its_threads_end() {
    world::check("threads of the callbacks", callbacks);
}
