//! The user's logger cannot stop the client: not by a panic, not by blocking; and what was logged is there when it is
//! closed.

use crate::support::child::{Child, Task, entry, hear, say};
use crate::support::{DEADLINE, always, builder, eventually, masters, ms, secs, settled};
use redleash::{Lease, LossReason, Options};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

fn fixed(ttl: Duration) -> Options {
    Options::new().lease(Lease::Fixed { ttl })
}

fn renewed(ttl: Duration) -> Options {
    Options::new().lease(Lease::Watchdog { ttl })
}

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
    assert!(child.end(DEADLINE).success());
}

fn logger_child(task: Task) {
    let panics = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.to_string().contains("on purpose") {
            panics(info);
        }
    }));
    Logger::install(&task.arg);
    let client = builder(task.urls).build().unwrap();
    say("built");
    let short = client.lock("short").options(fixed(ms(300))).acquire().unwrap();
    let (tell, told) = mpsc::channel();
    short.on_lost(move |lost| tell.send(lost.reason).unwrap());
    assert_eq!(short.lost().recv_timeout(DEADLINE).unwrap().reason, LossReason::Expired);
    assert_eq!(told.recv_timeout(DEADLINE).unwrap(), LossReason::Expired);
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
    assert!(start.elapsed() < secs(5) + DEADLINE);
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
    let client = builder(task.urls).build().unwrap();
    let guard = client.lock("x").options(fixed(ms(300))).acquire().unwrap();
    guard.lost().recv_timeout(DEADLINE).unwrap();
    client.close(DEADLINE);
    // By the names of before, which filters go by.
    assert!(logger.has(log::Level::Error, "redleash::engine::lease", "\"x\""), "{:?}", logger.lines);
    assert!(logger.has(log::Level::Debug, "redleash::engine::report", "connected"), "{:?}", logger.lines);
    say("all there");
}
