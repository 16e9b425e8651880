//! The timer's thread (`src/engine/timer.rs`): what is entered is handled when it is due, whatever it is waiting for.

use crate::engine::chores::Chore;
use crate::engine::root::Engine;
use crate::world;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::time::Duration;

fn scenario() {
    let engine = Engine::start(false);
    let start = world::now();
    let at = move |i: usize| start.plus(Duration::from_millis(i as u64));
    let enters = [[30, 10], [20, 25]].map(|events| {
        let engine = engine.clone();
        thread::spawn(move || {
            for i in events {
                engine.chores.enter(at(i), Chore::Reap(i));
            }
        })
    });
    let leaver = engine.clone();
    let leaves = thread::spawn(move || {
        let first = leaver.chores.enter(at(5), Chore::Reap(5));
        let key = leaver.chores.enter(at(1_000), Chore::Reap(1_000));
        // Perhaps it was handled.
        leaver.chores.leave(first);
        leaver.chores.leave(key);
    });
    // Some of it falls due while more is entered.
    let early = thread_rng().gen_range(0..40);
    world::advance(Duration::from_millis(early));
    enters.into_iter().for_each(|t| t.join().unwrap());
    leaves.join().unwrap();
    world::advance(Duration::from_millis(40 - early));
    let seen = engine.clone();
    let handled = move || seen.reaped.lock().unwrap().clone();
    // Deadlocks if a wake-up was lost.
    let all = handled.clone();
    world::wait_until(move || [10, 20, 25, 30].iter().all(|i| all().iter().any(|(k, _)| k == i)));
    world::advance(Duration::from_secs(2));
    let again = engine.chores.enter(world::now(), Chore::Reap(7));
    assert!(again.0 <= world::now());
    let last = handled.clone();
    world::wait_until(move || last().iter().any(|(i, _)| *i == 7));
    for (i, now) in handled() {
        assert!(i == 7 || now >= at(i), "{i} was handled too early");
        assert_eq!(handled().iter().filter(|(k, _)| *k == i).count(), 1, "{i} was handled twice");
        assert_ne!(i, 1_000, "handled after it was taken out");
    }
    engine.close();
    world::join_all();
}

#[test]
fn what_is_entered_is_handled_when_it_is_due() {
    world::check("timer", scenario);
}
