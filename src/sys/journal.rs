//! The log of the library: messages are queued here, and one thread that does nothing else gives them to the user's
//! logger.
//!
//! A logger is the user's code: it may block, panic, or use the client. So it is not called by a thread that renews
//! leases or announces losses, nor with a mutex locked. Messages that it does not take in time are counted and left
//! out.

use super::clock;
use super::panics::survives;
use super::sync::{Condvar, Mutex, Rank, none_held};
use log::{Level, Record};
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How many messages wait for the logger at most. Half of that is kept for warnings and errors.
const CAPACITY: usize = 2_048;
/// After this time without a message the thread ends.
const IDLE_DELAY: Duration = Duration::from_millis(500);
/// How long the end of a client waits for the logger.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(250);
/// How many generations of forked processes may log, each with a journal of its own.
const FORKS: usize = 8;

struct Line {
    level: Level,
    target: &'static str,
    text: String,
}

struct State {
    lines: VecDeque<Line>,
    left_out: u64,
    /// Messages ever queued, and messages that the logger is done with.
    entered: u64,
    done: u64,
    /// There is a thread, or one is being started.
    running: bool,
}

struct Journal {
    /// The process that it belongs to; zero if none. A forked child finds its parent's mutex locked, maybe for ever, so
    /// it looks here first and takes the next journal.
    pid: AtomicU32,
    state: Mutex<State>,
    changed: Condvar,
}

static JOURNALS: [Journal; FORKS] = [const { Journal::new() }; FORKS];

thread_local! {
    /// This is the thread that calls the logger.
    static LOGS: Cell<bool> = const { Cell::new(false) };
}

/// Whether a message of this level is wanted. Compares with two constants: `enabled` of the logger is the user's code.
#[inline]
pub(crate) fn wants(level: Level) -> bool {
    level <= log::STATIC_MAX_LEVEL && level <= log::max_level()
}

/// Queues a message for the logger. Never blocks on it.
#[cold]
pub(crate) fn write(level: Level, target: &'static str, text: fmt::Arguments<'_>) {
    let line = Line { level, target, text: text.to_string() };
    match own() {
        Some(journal) => journal.write(line),
        // Too many forks: a thread for each message, because the caller may have a mutex locked.
        None => drop(thread().spawn(move || give(&line))),
    }
}

/// Waits for a moment until the logger has taken what was queued before: for the end of a client.
pub(crate) fn flush() {
    if let Some(journal) = own().filter(|_| !LOGS.get()) {
        journal.flush(FLUSH_TIMEOUT);
    }
}

/// The journal of this process.
fn own() -> Option<&'static Journal> {
    let pid = super::pid();
    JOURNALS.iter().find(|journal| match journal.pid.load(Ordering::Acquire) {
        0 => {
            let claimed = journal.pid.compare_exchange(0, pid, Ordering::AcqRel, Ordering::Acquire);
            claimed.is_ok() || claimed == Err(pid)
        }
        owner => owner == pid,
    })
}

/// A thread for the logger, with a stack of the standard size: what a logger needs is not ours to judge.
fn thread() -> std::thread::Builder {
    std::thread::Builder::new().name("redleash-log".into())
}

/// Calls the logger.
fn give(line: &Line) {
    none_held();
    survives(|| {
        let mut record = Record::builder();
        record.level(line.level).target(line.target).module_path_static(Some(line.target));
        log::logger().log(&record.args(format_args!("{}", line.text)).build());
    });
}

impl Journal {
    const fn new() -> Journal {
        let state = State { lines: VecDeque::new(), left_out: 0, entered: 0, done: 0, running: false };
        Journal { pid: AtomicU32::new(0), state: Mutex::new(Rank::Journal, state), changed: Condvar::new() }
    }

    fn write(&'static self, line: Line) {
        let start = {
            let mut state = self.state.lock();
            if !state.take(line) {
                return;
            }
            !std::mem::replace(&mut state.running, true)
        };
        self.changed.notify_all();
        if start {
            self.start();
        }
    }

    /// Starts the thread. If there can be none now, the next message tries again.
    fn start(&'static self) {
        let started = thread().spawn(|| self.run());
        if started.is_err() {
            self.state.lock().running = false;
        }
    }

    fn run(&self) {
        LOGS.set(true);
        while let Some(line) = self.next() {
            give(&line);
            self.state.lock().done += 1;
            self.changed.notify_all();
        }
    }

    /// The next message; `None` after an idle time, and then the thread is not running any more.
    fn next(&self) -> Option<Line> {
        let until = clock::now().plus(IDLE_DELAY);
        let mut state = self.state.lock();
        loop {
            if let Some(line) = state.next() {
                return Some(line);
            }
            let left = until.since(clock::now());
            if left.is_zero() {
                state.running = false;
                return None;
            }
            state = self.changed.wait_for(state, left);
        }
    }

    fn flush(&'static self, limit: Duration) {
        let until = clock::now().plus(limit);
        let mut state = self.state.lock();
        let entered = state.entered;
        if state.done < entered && !std::mem::replace(&mut state.running, true) {
            drop(state);
            self.start();
            state = self.state.lock();
        }
        while state.done < entered {
            let left = until.since(clock::now());
            if left.is_zero() {
                return;
            }
            state = self.changed.wait_for(state, left);
        }
    }
}

impl State {
    /// Takes a message, if there is room for one of its level.
    fn take(&mut self, line: Line) -> bool {
        let room = if line.level <= Level::Warn { CAPACITY } else { CAPACITY / 2 };
        if self.lines.len() >= room {
            self.left_out += 1;
            return false;
        }
        self.lines.push_back(line);
        self.entered += 1;
        true
    }

    fn next(&mut self) -> Option<Line> {
        let line = self.lines.pop_front();
        if line.is_none() && self.left_out > 0 {
            let text = format!("{} lines were left out: the logger did not take them in time", self.left_out);
            self.left_out = 0;
            self.entered += 1;
            return Some(Line { level: Level::Warn, target: module_path!(), text });
        }
        line
    }
}

/// A message at a level; the arguments are looked at only if the level is wanted.
macro_rules! line {
    ($level:ident, $($text:tt)+) => {
        if $crate::sys::journal::wants(log::Level::$level) {
            $crate::sys::journal::write(log::Level::$level, module_path!(), format_args!($($text)+));
        }
    };
}
macro_rules! error_ { ($($text:tt)+) => { $crate::sys::journal::line!(Error, $($text)+) }; }
macro_rules! warn_ { ($($text:tt)+) => { $crate::sys::journal::line!(Warn, $($text)+) }; }
macro_rules! info_ { ($($text:tt)+) => { $crate::sys::journal::line!(Info, $($text)+) }; }
macro_rules! debug_ { ($($text:tt)+) => { $crate::sys::journal::line!(Debug, $($text)+) }; }
macro_rules! trace_ { ($($text:tt)+) => { $crate::sys::journal::line!(Trace, $($text)+) }; }
// `warn` alone would be the attribute.
pub(crate) use {debug_ as debug, error_ as error, info_ as info, line, trace_ as trace, warn_ as warn};

#[cfg(test)]
mod tests {
    use super::{CAPACITY, Journal, Level, Line};

    fn line(level: Level) -> Line {
        Line { level, target: "", text: String::new() }
    }

    #[test]
    fn what_finds_no_room_is_counted_and_warnings_have_room_of_their_own() {
        let journal = Journal::new();
        let mut state = journal.state.lock();
        let taken = |state: &mut super::State, level| (0..CAPACITY).filter(|_| state.take(line(level))).count();
        assert_eq!(taken(&mut state, Level::Debug), CAPACITY / 2);
        assert_eq!(taken(&mut state, Level::Error), CAPACITY / 2);
        assert_eq!(state.lines.len(), CAPACITY);
        let lines: Vec<Line> = std::iter::from_fn(|| state.next()).collect();
        assert_eq!(lines.len(), CAPACITY + 1);
        let last = &lines[CAPACITY];
        assert!(last.text.starts_with(&format!("{CAPACITY} lines")), "{}", last.text);
        assert!(state.next().is_none());
        assert_eq!(state.entered, lines.len() as u64);
    }
}
