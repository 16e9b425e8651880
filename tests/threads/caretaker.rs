//! The caretaker's arming (`src/wire/lane.rs`, `src/engine/drain.rs`): no reply is left unread, whichever
//! thread asks and leaves.

use crate::engine::root::Engine;
use crate::engine::rounds::RoundResult;
use crate::protocol::Mono;
use crate::world;
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const A_WHILE: Duration = Duration::from_millis(10);

/// Lets time pass until `done`. Where that never comes, the schedule's steps run out, which fails it.
fn until(done: impl Fn() -> bool) {
    while !done() {
        world::advance(A_WHILE);
        thread::yield_now();
    }
}

/// One posts and does not wait, two wait for their answers, one gives up early: all have left when the last replies
/// come.
fn wave(engine: &Arc<Engine>) {
    let lane = engine.lane().clone();
    let left = Arc::new(AtomicUsize::new(4));
    let spawn = |body: Box<dyn FnOnce(&Engine) + Send>| {
        let (engine, left) = (engine.clone(), left.clone());
        thread::spawn(move || {
            body(&engine);
            left.fetch_sub(1, Ordering::SeqCst);
        })
    };
    let threads = [
        spawn(Box::new(|engine| {
            for _ in 0..2 {
                engine.lane().post(engine.release_of("posted", false));
            }
        })),
        spawn(Box::new(patient)),
        spawn(Box::new(patient)),
        spawn(Box::new(|engine| {
            let round = ask(engine, world::now().plus(A_WHILE));
            round.request.close();
            engine.lane().post(engine.release_of("undone", false));
        })),
    ];
    until(|| left.load(Ordering::SeqCst) == 0 && !lane.is_owed());
    threads.into_iter().for_each(|t| t.join().unwrap());
}

fn patient(engine: &Engine) {
    let round = ask(engine, Mono::NEVER);
    assert!(round.request.round.lock().reached(), "it waited to the end without its answer");
}

fn ask(engine: &Engine, deadline: Mono) -> RoundResult {
    let request = engine.release_of("asked", true);
    engine.lane().enqueue(request.clone());
    RoundResult::wait(engine.lane(), request, world::now(), deadline)
}

fn scenario() {
    let engine = Engine::start(false);
    // Twice: a caretaker that has once been asked for must be asked for again.
    wave(&engine);
    wave(&engine);
    let lane = engine.lane().clone();
    until(|| !lane.drain_requested.load(crate::sys::sync::Ordering::SeqCst));
    assert!(!lane.is_led(), "the lead was lost");
    engine.close();
    world::join_all();
}

#[test]
fn no_reply_is_left_unread() {
    world::check("arming of the caretaker", scenario);
}
