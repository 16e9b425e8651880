//! The line of a lock inside a process (`src/engine/queue.rs`) and the hand-over of a lease (`src/engine/hold.rs`): one
//! thread at a time, in the order in which they came, and nobody is forgotten.

use crate::engine::hold::Hold;
use crate::engine::queue::Entered;
use crate::engine::root::Engine;
use crate::engine::settings::Terms;
use crate::engine::waiting::Patience;
use crate::protocol::wait_list::QUANTUM;
use crate::protocol::{Keys, Mono, Wait};
use crate::world;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a lease may be passed around; time passes only where the scenario lets it.
const BUDGET: Duration = Duration::from_millis(10);

struct Scene {
    engine: Arc<Engine>,
    keys: Keys,
    terms: Arc<Terms>,
    inside: AtomicUsize,
    /// Who was handed a lease, and how many were granted one by a master.
    handed: AtomicUsize,
    granted: AtomicUsize,
    losses: AtomicUsize,
}

impl Scene {
    /// Enters the line; the lease, or `None` when the limit is over first.
    fn acquire(&self, limit: Option<Mono>) -> Option<Arc<Hold>> {
        let wait = limit.map_or(Wait::Forever { outage_patience: Duration::ZERO }, Wait::Until);
        loop {
            let mut patience = Patience { wait, limit: limit.unwrap_or(Mono::NEVER), lives: PhantomData };
            match self.engine.queues.enter(&self.keys, &self.terms, &mut patience) {
                Entered::Contends(place, _) => {
                    world::step();
                    let held = self.engine.grant_on("x", &self.terms, Some(place));
                    self.granted.fetch_add(1, Ordering::SeqCst);
                    return Some(held);
                }
                Entered::Lease(lease, place) => {
                    let held = Hold::new(self.engine.clone(), lease, Some(place));
                    if held.lease.remaining().is_zero() {
                        held.let_go();
                        continue;
                    }
                    self.handed.fetch_add(1, Ordering::SeqCst);
                    return Some(held);
                }
                Entered::Refused => return None,
                Entered::ContendsBeside | Entered::Closed => panic!("there is neither an outage nor an end"),
            }
        }
    }

    fn work(&self, held: &Arc<Hold>) {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two threads hold the lock");
        world::step();
        if held.lease.check().is_err() {
            self.losses.fetch_add(1, Ordering::SeqCst);
        }
        world::step();
        self.inside.fetch_sub(1, Ordering::SeqCst);
        held.let_go();
    }
}

fn scene(budget: Duration) -> Arc<Scene> {
    let engine = Engine::start(false);
    let keys = engine.masters.settings.namespace.keys("x").unwrap();
    Arc::new(Scene {
        engine,
        keys,
        terms: Engine::terms(true, budget),
        inside: AtomicUsize::new(0),
        handed: AtomicUsize::new(0),
        granted: AtomicUsize::new(0),
        losses: AtomicUsize::new(0),
    })
}

/// Nobody is left in the local queue, and the next thread contends at once.
fn nobody_is_left(scene: &Scene) {
    assert_eq!(scene.engine.queues.queued("x"), 0);
    let held = scene.acquire(Some(world::now())).expect("the queue is free");
    held.let_go();
    scene.engine.close();
    world::join_all();
}

fn three_threads_share(budget: Duration) -> Arc<Scene> {
    let scene = scene(budget);
    let worker = || {
        let scene = scene.clone();
        thread::spawn(move || {
            for _ in 0..2 {
                let held = scene.acquire(None).expect("it waits for as long as it takes");
                scene.work(&held);
            }
        })
    };
    let workers = [worker(), worker(), worker()];
    workers.into_iter().for_each(|w| w.join().unwrap());
    assert_eq!(scene.handed.load(Ordering::SeqCst) + scene.granted.load(Ordering::SeqCst), 6);
    assert_eq!(scene.losses.load(Ordering::SeqCst), 0);
    scene
}

#[test]
fn one_thread_at_a_time_and_nobody_is_forgotten() {
    world::check("queue without hand-over", || {
        let scene = three_threads_share(Duration::ZERO);
        assert_eq!(scene.handed.load(Ordering::SeqCst), 0);
        nobody_is_left(&scene);
    });
}

#[test]
fn a_lease_passes_from_thread_to_thread() {
    world::check("queue with hand-over", || nobody_is_left(&three_threads_share(BUDGET)));
}

#[test]
fn who_gives_up_leaves_no_trace_and_loses_nothing() {
    world::check("queue with limits", || {
        let scene = scene(BUDGET);
        let limit = world::now().plus(Duration::from_millis(5));
        let worker = |limit: Option<Mono>| {
            let scene = scene.clone();
            thread::spawn(move || {
                if let Some(held) = scene.acquire(limit) {
                    scene.work(&held);
                }
            })
        };
        let workers = [worker(None), worker(Some(limit)), worker(Some(limit)), worker(None)];
        // Mostly a thread is in the local queue when the limit is over.
        for _ in 0..thread_rng().gen_range(0..40) {
            if scene.engine.queues.queued("x") > 1 {
                break;
            }
            thread::yield_now();
        }
        world::advance(Duration::from_millis(5));
        workers.into_iter().for_each(|w| w.join().unwrap());
        nobody_is_left(&scene);
    });
}

#[test]
fn threads_get_the_lock_in_the_order_in_which_they_came() {
    world::check("order of the queue", || {
        let scene = scene(if thread_rng().gen_bool(0.5) { BUDGET } else { Duration::ZERO });
        let first = scene.acquire(None).expect("the queue is free");
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut workers = Vec::new();
        for k in 0..3 {
            let (mine, order) = (scene.clone(), order.clone());
            workers.push(thread::spawn(move || {
                let held = mine.acquire(None).expect("it waits for as long as it takes");
                order.lock().unwrap().push(k);
                mine.work(&held);
            }));
            while scene.engine.queues.queued("x") <= k {
                thread::yield_now();
            }
        }
        first.let_go();
        workers.into_iter().for_each(|w| w.join().unwrap());
        assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
        nobody_is_left(&scene);
    });
}

/// The next thread contends right behind the release, before it is answered.
#[test]
fn a_process_yields_after_its_quantum_without_waiting_for_an_answer() {
    world::check("yielding", || {
        let scene = scene(BUDGET);
        let Scene { engine, keys, terms, .. } = &*scene;
        let enter = || {
            let wait = Wait::Forever { outage_patience: Duration::ZERO };
            let mut patience = Patience { wait, limit: Mono::NEVER, lives: PhantomData };
            let Entered::Contends(place, yields) = engine.queues.enter(keys, terms, &mut patience) else {
                panic!("the queue is empty")
            };
            (engine.grant_on("x", terms, Some(place)), yields)
        };
        let (held, _) = enter();
        // It was answered to a release of before.
        engine.queues.waiters_elsewhere(&keys.name, world::now(), false);
        held.let_go();
        let (held, yields) = enter();
        assert!(!yields, "its quantum has just begun");
        world::advance(QUANTUM);
        held.let_go();
        let (held, yields) = enter();
        assert!(yields, "its quantum is over, and others wait");
        held.let_go();
        let (held, yields) = enter();
        assert!(yields, "nobody was notified");
        held.let_go();
        engine.queues.waiters_elsewhere(&keys.name, world::now(), true);
        let (held, yields) = enter();
        assert!(yields, "a waiter was notified");
        held.let_go();
        let (held, yields) = enter();
        assert!(!yields, "it has the lock again: a new quantum");
        held.let_go();
        nobody_is_left(&scene);
    });
}
