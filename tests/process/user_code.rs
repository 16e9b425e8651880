//! What the user gives the client to run - callbacks, closures, pauses - cannot stop it: not by a panic, and not by what it
//! does when it is dropped.

use crate::support::{self, SOON, always, client, masters, ms, no_keys_left, secs, settled};
use redleash::{Client, Lease, LockGuard, Options, Retry};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

fn renewed(ttl: Duration) -> Options {
    Options::new().lease(Lease::Watchdog { ttl })
}

/// Runs `body` on a thread of its own, because a client that is stuck would take the test with it.
#[track_caller]
fn in_time(what: &str, body: impl FnOnce() + Send + 'static) {
    let (tell, told) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        body();
        let _ = tell.send(());
    });
    match told.recv_timeout(3 * SOON) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("stuck: {what}"),
        _ => thread.join().unwrap(),
    }
}

/// A callback that is not called any more is dropped, and dropping it may take any lock of the client's.
#[test]
fn a_hand_over_drops_the_callback_under_no_lock() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    in_time("a hand-over that drops a callback which owns guards", move || {
        let bystander = client.lock("bystander").options(renewed(secs(2))).acquire().unwrap();
        for round in 0..10 {
            let lock = client.lock("x");
            let held = lock.acquire().unwrap();
            // So many that one of them is kept beside `x`, wherever that is.
            let others: Vec<LockGuard> =
                (0..64).map(|i| client.lock(&format!("{round}/{i}")).acquire().unwrap()).collect();
            held.on_lost(move |_| drop(others));
            let lock = &lock;
            std::thread::scope(|scope| {
                let (tell, told) = mpsc::channel();
                let waiting = scope.spawn(move || {
                    let mut asked = 0;
                    let guard = lock.acquire_while(None, || {
                        asked += 1;
                        let _ = tell.send(asked);
                        true
                    });
                    guard.unwrap().unwrap().check().unwrap();
                });
                // It stands in line when it is asked whether to go on.
                told.recv_timeout(SOON).unwrap();
                drop(held);
                waiting.join().unwrap();
            });
        }
        always(secs(3), "the bystander is renewed", || bystander.check().is_ok());
        drop(client.lock("new").try_acquire_for(SOON).unwrap().expect("a lock that nobody holds"));
        drop(bystander);
        let start = Instant::now();
        assert_eq!(client.close(SOON).threads_left, 0);
        assert!(start.elapsed() < SOON);
    });
    no_keys_left(&masters);
}

/// A waiter whose closure panics is not in line any more, and what it was given goes to the next.
#[test]
fn a_closure_that_panics_leaves_the_local_queue() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    in_time("a closure that panics in line", move || {
        for budget in [Duration::ZERO, ms(10)] {
            let lock = client.lock("x").options(Options::new().hand_over(budget));
            let waits = |mut asked: Box<dyn FnMut(u32) + Send>| {
                let mut times = 0;
                let go_on = || {
                    times += 1;
                    asked(times);
                    true
                };
                catch_unwind(AssertUnwindSafe(|| lock.acquire_while(None, go_on).map(drop))).is_err()
            };
            // It panics while it waits, and the lock is released behind it.
            let guard = lock.acquire().unwrap();
            assert!(waits(Box::new(|times| assert!(times < 3, "on purpose"))), "{budget:?}");
            drop(guard);
            drop(lock.try_acquire_for(SOON).unwrap().expect("free"));
            // It is given the lock, or the turn, and panics before it takes it.
            let mut guard = Some(lock.acquire().unwrap());
            let gives = move |times: u32| {
                if times == 2 {
                    drop(guard.take());
                    panic!("on purpose");
                }
            };
            assert!(waits(Box::new(gives)), "{budget:?}");
            drop(lock.try_acquire_for(SOON).unwrap().expect("free"));
        }
    });
    no_keys_left(&masters);
}

#[test]
fn a_pause_that_panics_leaves_the_local_queue() {
    let Some(masters) = masters(3) else { return };
    let (one, other) = (settled(&masters), client(&masters));
    in_time("a pause that panics", move || {
        let guard = other.lock("x").acquire().unwrap();
        let lock = one.lock("x").options(Options::new().retry(Retry::Custom(Arc::new(|_| panic!("on purpose")))));
        assert!(catch_unwind(AssertUnwindSafe(|| lock.acquire().map(drop))).is_err());
        drop(guard);
        drop(one.lock("x").try_acquire_for(SOON).unwrap().expect("free"));
    });
    no_keys_left(&masters);
}

/// What a user's pause owns, dropped: it takes a lock of the same client.
struct Last(Client);

impl Drop for Last {
    fn drop(&mut self) {
        for i in 0..32 {
            drop(self.0.lock(&format!("last/{i}")).try_acquire());
        }
    }
}

#[test]
fn a_pause_is_dropped_under_no_lock() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    in_time("waiters whose pauses use the client when they are dropped", move || {
        let guard = client.lock("x").acquire().unwrap();
        let waiting: Vec<_> = (0..8)
            .map(|_| {
                let last = Last(client.clone());
                let pause = Retry::Custom(Arc::new(move |_| {
                    let _ = &last;
                    ms(20)
                }));
                let lock = client.lock("x").options(Options::new().retry(pause));
                std::thread::spawn(move || lock.acquire().map(drop))
            })
            .collect();
        support::let_pass(ms(300)); // most of them are in line
        drop(guard);
        support::let_pass(ms(20));
        client.close(SOON);
        waiting.into_iter().for_each(|w| drop(w.join().unwrap()));
    });
}

// Callbacks.

#[test]
fn many_slow_callbacks_share_a_few_threads_and_all_are_called() {
    entry(slow_callbacks_child);
    if !proc::readable() {
        return;
    }
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    // Other clients of this process have such threads too.
    Child::start(slow_callbacks_child, &masters.urls(), "").expect("all called");
}

fn slow_callbacks_child(task: Task) {
    let client = builder(task.nodes).build().unwrap();
    let called = Arc::new(AtomicUsize::new(0));
    let (end, ended) = redleash::crossbeam_channel::bounded::<()>(0);
    let guards: Vec<_> = (0..200)
        .map(|i| {
            let guard = client.lock(&format!("{i}")).options(fixed(secs(1))).acquire().unwrap();
            let (called, ended) = (called.clone(), ended.clone());
            guard.on_lost(move |_| {
                let _ = ended.recv();
                called.fetch_add(1, Ordering::SeqCst);
            });
            guard
        })
        .collect();
    guards.iter().for_each(|guard| drop(guard.lost().recv_timeout(SOON).unwrap()));
    let threads = || proc::our_threads().iter().filter(|name| name.starts_with("redleash-callb")).count();
    always(ms(300), "at most 16 threads", || threads() <= 16);
    assert_eq!(called.load(Ordering::SeqCst), 0);
    drop(end);
    eventually("all are called", || called.load(Ordering::SeqCst) == 200);
    eventually("the threads that are not needed any more end", || threads() <= 2);
    say("all called");
}

#[test]
fn a_callback_has_a_stack_of_the_standard_size() {
    entry(stack_child);
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    Child::start(stack_child, &masters.urls(), "").expect("called");
}

fn stack_child(task: Task) {
    let client = builder(task.nodes).build().unwrap();
    let guard = client.lock("x").options(fixed(ms(300))).acquire().unwrap();
    let (tell, told) = mpsc::channel();
    guard.on_lost(move |_| {
        // Copied once or twice where nothing is optimised.
        let room = std::hint::black_box([1_u8; 512 * 1024]);
        tell.send(std::hint::black_box(&room).iter().map(|b| u64::from(*b)).sum::<u64>()).unwrap();
    });
    assert_eq!(told.recv_timeout(SOON), Ok(512 * 1024));
    say("called");
}

#[test]
fn callbacks_are_called_where_no_thread_can_be_started() {
    entry(no_threads_child);
    if !proc::readable() {
        return;
    }
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    let child = Child::start(no_threads_child, &masters.urls(), "");
    assert_eq!(child.expect("called"), "4");
}

fn no_threads_child(task: Task) {
    let client = builder(task.nodes).build().unwrap();
    let (tell, told) = mpsc::channel();
    let guards: Vec<_> = (0..4)
        .map(|i| {
            let guard = client.lock(&format!("{i}")).options(fixed(secs(1))).acquire().unwrap();
            let tell = tell.clone();
            guard.on_lost(move |_| tell.send(i).unwrap());
            guard
        })
        .collect();
    // No room for another stack: there is less of it than one takes.
    use rustix::process::{Resource, Rlimit, setrlimit};
    let room = (proc::kib("VmSize") + 128) * 1024;
    setrlimit(Resource::As, Rlimit { current: Some(room), maximum: Some(room) }).unwrap();
    assert!(std::thread::Builder::new().stack_size(256 * 1024).spawn(|| ()).is_err(), "a thread can be started");
    let mut called: Vec<i32> = (0..4).map(|_| told.recv_timeout(SOON).expect("called")).collect();
    called.sort_unstable();
    called.dedup();
    say(&format!("called {}", called.len()));
    drop(guards);
}

// The logger.

/// A logger as its user wrote it.
struct Logger {
    conduct: String,
    lines: Mutex<Vec<(log::Level, String, String)>>,
}

impl Logger {
    fn install(conduct: &str) -> &'static Logger {
        let logger = Box::leak(Box::new(Logger { conduct: conduct.into(), lines: Mutex::default() }));
        log::set_logger(logger).unwrap();
        log::set_max_level(log::LevelFilter::Trace);
        logger
    }

    fn has(&self, level: log::Level, target: &str, text: &str) -> bool {
        let lines = self.lines.lock().unwrap();
        lines.iter().any(|(l, t, line)| *l == level && t == target && line.contains(text))
    }
}

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        self.misbehave();
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.misbehave();
        self.lines.lock().unwrap().push((record.level(), record.target().into(), record.args().to_string()));
    }

    fn flush(&self) {
        self.misbehave();
    }
}

impl Logger {
    fn misbehave(&self) {
        match &*self.conduct {
            "panics" => panic!("a logger that panics, on purpose"),
            "blocks" => loop {
                std::thread::park();
            },
            _ => {}
        }
    }
}

#[test]
fn a_logger_that_panics_stops_nothing() {
    entry(logger_child);
    outlives_its_logger("panics");
}

#[test]
fn a_logger_that_blocks_for_ever_stops_nothing() {
    entry(logger_child);
    outlives_its_logger("blocks");
}

#[track_caller]
fn outlives_its_logger(conduct: &str) {
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    let mut child = Child::start(logger_child, &masters.urls(), conduct);
    for step in ["built", "told", "renewed", "cut"] {
        child.expect(step);
    }
    for master in masters.iter() {
        master.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    }
    child.tell("go on");
    for step in ["connected", "closed"] {
        child.expect(step);
    }
    assert!(child.end(SOON).success());
}

fn logger_child(task: Task) {
    let panics = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.to_string().contains("on purpose") {
            panics(info);
        }
    }));
    Logger::install(&task.arg);
    let client = builder(task.nodes).build().unwrap();
    say("built");
    let short = client.lock("short").options(fixed(ms(300))).acquire().unwrap();
    let (tell, told) = mpsc::channel();
    short.on_lost(move |lost| tell.send(lost.reason).unwrap());
    assert_eq!(short.lost().recv_timeout(SOON).unwrap().reason, LossReason::Expired);
    assert_eq!(told.recv_timeout(SOON).unwrap(), LossReason::Expired);
    say("told");
    let held = client.lock("held").options(renewed(secs(3))).acquire().unwrap();
    always(secs(5), "renewed", || held.check().is_ok());
    say("renewed");
    say("cut");
    hear();
    held.check().unwrap();
    eventually("asked on a new connection", || held.verify().is_ok());
    eventually("connected again", || client.lock("other").try_acquire().is_ok_and(|guard| guard.is_some()));
    eventually("all three masters", || client.status("other").unwrap().masters.iter().all(|m| m.failure.is_none()));
    always(secs(4), "renewed on the new connections", || held.check().is_ok());
    drop(held);
    say("connected");
    let start = Instant::now();
    client.close(secs(5));
    assert!(start.elapsed() < secs(5) + SOON);
    say("closed");
}

#[test]
fn what_was_logged_is_there_when_the_client_is_closed() {
    entry(lines_child);
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    Child::start(lines_child, &masters.urls(), "").expect("all there");
}

fn lines_child(task: Task) {
    let logger = Logger::install("");
    let client = builder(task.nodes).build().unwrap();
    let guard = client.lock("x").options(fixed(ms(300))).acquire().unwrap();
    guard.lost().recv_timeout(SOON).unwrap();
    client.close(SOON);
    // By the names of before, which filters go by.
    assert!(logger.has(log::Level::Error, "redleash::engine::lease", "\"x\""), "{:?}", logger.lines);
    assert!(logger.has(log::Level::Debug, "redleash::engine::report", "connected"), "{:?}", logger.lines);
    say("all there");
}
