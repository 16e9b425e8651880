//! The watchdog threads (`src/engine/watchdog.rs`): none is lost, none serves two leases.

use crate::engine::root::{Engine, TTL};
use crate::world;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const A_THIRD: Duration = Duration::from_millis(1_001);

/// The leases that have ended, and how many renewals there had been by then.
type Ends = Arc<Mutex<Vec<(String, usize)>>>;

/// Holds one lease after the other, each for a while.
fn holder(engine: &Arc<Engine>, names: [&'static str; 2], ends: &Ends) -> thread::JoinHandle<()> {
    let (engine, ends) = (engine.clone(), ends.clone());
    thread::spawn(move || {
        for name in names {
            let held = engine.grant(name, true);
            world::step();
            world::step();
            ends.lock().unwrap().push((name.into(), world::renewals().len()));
            held.let_go();
        }
    })
}

fn scenario() {
    let engine = Engine::start(false);
    let ends = Ends::default();
    let scarce = thread_rng().gen_bool(0.2);
    engine.masters.threads.scarce.store(scarce, Ordering::SeqCst);
    let threads = [holder(&engine, ["a", "b"], &ends), holder(&engine, ["c", "d"], &ends)];
    for _ in 0..4 {
        world::advance(A_THIRD);
        thread::yield_now();
    }
    threads.into_iter().for_each(|t| t.join().unwrap());
    engine.masters.threads.scarce.store(false, Ordering::SeqCst);
    // A thread that was lost has ended, and is never idle again.
    let all = || world::started("watchdog") + world::started("standby");
    world::wait_until_idle(all);
    let before = world::started("watchdog");
    let last = [engine.grant("e", true), engine.grant("f", true)];
    world::advance(A_THIRD);
    world::wait_until(|| {
        let renewals = world::renewals();
        ["e", "f"].iter().all(|name| renewals.iter().any(|(_, _, n)| n == name))
    });
    assert_eq!(world::started("watchdog"), before.max(2), "an idle thread was not used again");
    ends.lock().unwrap().push(("e".into(), usize::MAX));
    last.iter().for_each(|held| assert!(held.let_go()));
    world::wait_until_idle(all);
    each_has_its_own_thread(&ends.lock().unwrap());
    engine.close();
    world::join_all();
}

/// A thread renews a second lease only after the end of the first, and a lease has one thread.
fn each_has_its_own_thread(ends: &[(String, usize)]) {
    let renewals = world::renewals();
    let own: Vec<_> = renewals.iter().enumerate().filter(|(_, (_, role, _))| role == "watchdog").collect();
    for (at, (thread, _, name)) in &own {
        for (later, (other_thread, _, other)) in own.iter().filter(|(later, _)| later > at) {
            if other == name {
                assert_eq!(thread, other_thread, "two threads renew {name}: {renewals:?}");
            } else if other_thread == thread {
                let end = ends.iter().find(|(n, _)| n == name).map_or(usize::MAX, |(_, count)| *count);
                assert!(end <= *later, "{name} and {other} share a thread: {renewals:?}, ended {ends:?}");
            }
        }
    }
}

#[test]
fn no_watchdog_is_lost_or_serves_two_leases() {
    world::check("watchdog threads", scenario);
}
