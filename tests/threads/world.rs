//! One schedule's world: its clock, what threads wait for, and the threads that were started.
//!
//! All threads of a schedule are coroutines of one thread of the system, so what they share here lies in a thread local
//! and needs no lock; `step` is where the scheduler may switch.

use crate::protocol::Mono;
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread::{JoinHandle, Thread};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many schedules a model runs through, by each of two schedulers.
const SCHEDULES: usize = if cfg!(debug_assertions) { 100 } else { 5_000 };

/// Where the random choices begin: a run is the same as the last.
const SEED: u64 = 0x5eed;

/// Something that a thread waits for, and how it is woken.
struct Waiter {
    happened: Box<dyn Fn() -> bool>,
    told: Arc<(Mutex<bool>, Condvar)>,
}

/// A thread that was started through `sys::thread`.
struct Started {
    role: String,
    id: usize,
    handle: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct World {
    running: Cell<bool>,
    now: Cell<u64>,
    idle: Cell<usize>,
    waiters: RefCell<Vec<Waiter>>,
    parked: RefCell<Vec<(Mono, Thread)>>,
    started: RefCell<Vec<Started>>,
    /// Renewals that a watchdog has ended: the thread and the lock's name.
    renewals: RefCell<Vec<(usize, String)>>,
}

thread_local! {
    static WORLD: World = World::default();
}

/// Runs `scenario` through many schedules: at random, and by PCT, which finds bugs that take few, rare switches.
pub(crate) fn check(what: &str, scenario: fn()) {
    let _ = log::set_logger(&RenewalLog).map(|()| log::set_max_level(log::LevelFilter::Trace));
    let start = Instant::now();
    let whole = move || {
        begin();
        scenario();
        end();
    };
    let mut config = shuttle::Config::new();
    config.silence_warnings = true;
    config.max_steps = shuttle::MaxSteps::FailAfter(100_000);
    config.stack_size = 256 * 1024;
    let random = shuttle::scheduler::RandomScheduler::new_from_seed(SEED, SCHEDULES);
    shuttle::Runner::new(random, config.clone()).run(whole);
    let pct = shuttle::scheduler::PctScheduler::new_from_seed(SEED, 3, SCHEDULES);
    shuttle::Runner::new(pct, config).run(whole);
    println!("{what}: {} schedules in {:.1?}", 2 * SCHEDULES, start.elapsed());
}

fn begin() {
    WORLD.with(|w| {
        w.running.set(true);
        // Far from zero, which has a meaning of its own.
        w.now.set(1_000_000_000_000);
        w.idle.set(0);
        w.waiters.take();
        w.parked.take();
        w.started.take();
        w.renewals.take();
    });
}

fn end() {
    WORLD.with(|w| w.running.set(false));
}

/// A moment at which the scheduler may switch.
pub(crate) fn step() {
    AtomicBool::new(false).load(Ordering::SeqCst);
}

pub(crate) fn now() -> Mono {
    Mono::from_nanos(WORLD.with(|w| w.now.get()))
}

/// Lets time pass, and wakes the threads that waited for that.
pub(crate) fn advance(span: Duration) {
    step();
    let now = now().plus(span);
    WORLD.with(|w| w.now.set(now.nanos()));
    let due: Vec<Thread> = WORLD.with(|w| {
        let mut parked = w.parked.borrow_mut();
        parked.extract_if(.., |(at, _)| *at <= now).map(|(_, thread)| thread).collect()
    });
    due.iter().for_each(Thread::unpark);
    changed();
}

/// Parks the calling thread until it is unparked or `span` has passed.
pub(crate) fn park_for(span: Duration) {
    let (at, me) = (now().plus(span), shuttle::thread::current());
    WORLD.with(|w| w.parked.borrow_mut().push((at, me.clone())));
    shuttle::thread::park();
    WORLD.with(|w| w.parked.borrow_mut().retain(|(_, thread)| thread.id() != me.id()));
}

/// Waits until `happened`; a thread that may have made it true calls `changed`.
pub(crate) fn wait_until(happened: impl Fn() -> bool + 'static) {
    step();
    if happened() {
        return;
    }
    let told = Arc::new((Mutex::new(false), Condvar::new()));
    let waiter = Waiter { happened: Box::new(happened), told: told.clone() };
    WORLD.with(|w| w.waiters.borrow_mut().push(waiter));
    let mut open = told.0.lock().unwrap();
    while !*open {
        open = told.1.wait(open).unwrap();
    }
}

/// Something has changed that others may wait for.
pub(crate) fn changed() {
    // What is dropped after the end, or by a failing test, wakes no thread.
    if !WORLD.with(|w| w.running.get()) || std::thread::panicking() {
        return;
    }
    let waiters = WORLD.with(|w| w.waiters.take());
    let (told, others): (Vec<_>, Vec<_>) = waiters.into_iter().partition(|w| (w.happened)());
    WORLD.with(|w| w.waiters.borrow_mut().extend(others));
    for waiter in told {
        *waiter.told.0.lock().unwrap() = true;
        waiter.told.1.notify_all();
    }
}

/// Starts a thread that is joined at the end.
pub(crate) fn start(role: &str, body: impl FnOnce() + Send + 'static) {
    let handle = shuttle::thread::spawn(body);
    let id = handle.thread().id().into();
    WORLD.with(|w| w.started.borrow_mut().push(Started { role: role.into(), id, handle: Some(handle) }));
}

/// How many threads of this role were ever started.
pub(crate) fn started(role: &str) -> usize {
    WORLD.with(|w| w.started.borrow().iter().filter(|s| s.role == role).count())
}

/// Waits for all threads that were started.
pub(crate) fn join_all() {
    while let Some(handle) = WORLD.with(|w| w.started.borrow_mut().iter_mut().find_map(|s| s.handle.take())) {
        handle.join().unwrap();
    }
}

/// Notes that the calling thread waits for work (`true`) or has been given some.
pub(crate) fn idle(now: bool) {
    WORLD.with(|w| w.idle.set(if now { w.idle.get() + 1 } else { w.idle.get() - 1 }));
    if now {
        changed();
    }
}

/// How many threads wait for work.
pub(crate) fn idle_count() -> usize {
    WORLD.with(|w| w.idle.get())
}

/// Waits until `count` watchdogs wait for work. If one of them was lost, its thread has ended, and this is a deadlock.
pub(crate) fn wait_until_idle(count: impl Fn() -> usize + 'static) {
    wait_until(move || WORLD.with(|w| w.idle.get()) == count());
}

/// The renewals that watchdogs have ended so far: the thread, its role, and the lock's name.
pub(crate) fn renewals() -> Vec<(usize, String, String)> {
    WORLD.with(|w| {
        let role = |id| w.started.borrow().iter().find(|s| s.id == id).map_or_else(String::new, |s| s.role.clone());
        w.renewals.borrow().iter().map(|(id, name)| (*id, role(*id), name.clone())).collect()
    })
}

/// Reads in the watchdog's own log which thread renewed what.
struct RenewalLog;

impl log::Log for RenewalLog {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().ends_with("engine::watchdog")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) && WORLD.with(|w| w.running.get()) {
            let text = record.args().to_string();
            let name = text.split('"').nth(1).unwrap_or_default().to_string();
            WORLD.with(|w| w.renewals.borrow_mut().push((shuttle::thread::current().id().into(), name)));
        }
    }

    fn flush(&self) {}
}
