//! What the workers report, and the holds that follow from it.
//!
//! A worker writes one line per event to its standard output, each with the time of the one clock that all processes of
//! this machine share (CLOCK_BOOTTIME, as the library uses). Times are nanoseconds.

use rustix::time::{ClockId, clock_gettime};
use std::fmt;

/// Now, on the clock of the history.
pub fn now() -> u64 {
    let t = clock_gettime(ClockId::Boottime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// One line of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The lock `name` was granted: noticed at `at`, valid until `until` by the guard's own deadline (0: there is
    /// none).
    Granted { name: usize, at: u64, until: u64 },
    /// The fencing token of the hold.
    Token(u64),
    /// The deadline is later than before.
    Until(u64),
    /// Still at work; from a command under `redleash run`, which has no guard to ask.
    Alive(u64),
    /// Has read and is about to write: the worst moment to be stopped.
    Thinking,
    /// The hold is given up now, or was lost and is given up.
    Left { at: u64 },
    /// What became of the release.
    Released(String),
    /// The guard announced its loss.
    Lost { at: u64, reason: String },
    /// The process was awake for so many ticks of its metronome after the deadline before the loss was announced.
    Late(u64),
    /// Other clients held the lock for as long as the worker waited.
    Busy,
    /// An error of the library.
    Error(String),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Granted { name, at, until } => write!(f, "G {name} {at} {until}"),
            Event::Token(token) => write!(f, "F {token}"),
            Event::Until(until) => write!(f, "U {until}"),
            Event::Alive(at) => write!(f, "A {at}"),
            Event::Thinking => write!(f, "K"),
            Event::Left { at } => write!(f, "R {at}"),
            Event::Released(how) => write!(f, "D {how}"),
            Event::Lost { at, reason } => write!(f, "L {at} {reason}"),
            Event::Late(ticks) => write!(f, "X {ticks}"),
            Event::Busy => write!(f, "B"),
            Event::Error(what) => write!(f, "E {what}"),
        }
    }
}

impl Event {
    /// The event of a line; `None` if it is none.
    pub fn parse(line: &str) -> Option<Event> {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut words = rest.split(' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        Some(match kind {
            "G" => Event::Granted { name: number()? as usize, at: number()?, until: number()? },
            "F" => Event::Token(number()?),
            "U" => Event::Until(number()?),
            "A" => Event::Alive(number()?),
            "K" => Event::Thinking,
            "R" => Event::Left { at: number()? },
            "D" => Event::Released(rest.into()),
            "L" => Event::Lost { at: number()?, reason: rest.split_once(' ')?.1.into() },
            "X" => Event::Late(number()?),
            "B" => Event::Busy,
            "E" => Event::Error(rest.into()),
            _ => return None,
        })
    }

    /// Prints it in one write. A worker whose reader has ended has nothing left to do, and ends.
    pub fn print(&self) {
        use std::io::Write;
        if std::io::stdout().write_all(format!("{self}\n").as_bytes()).is_err() {
            std::process::exit(0);
        }
    }
}

/// Who worked under a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A process that uses the library.
    Library,
    /// A command under `redleash run`.
    Command,
}

/// One hold as its owner saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The row of the worker.
    pub worker: usize,
    /// What it is.
    pub kind: Kind,
    /// Which lock.
    pub name: usize,
    /// When the owner noticed that it holds the lock.
    pub from: u64,
    /// Until when the owner could rely on it: its last known deadline, or the last sign of life of a command.
    pub until: u64,
    /// Its fencing token, if it asked.
    pub token: Option<u64>,
    /// When the owner gave it up.
    pub left: Option<u64>,
    /// When a loss was announced, and why.
    pub lost: Option<(u64, String)>,
    /// How many ticks it was awake after the deadline before the loss was announced.
    pub late: u64,
}

impl Hold {
    /// The end of the time in which the owner relied on the lock.
    pub fn end(&self) -> u64 {
        // A loss by the deadline is announced a little early. Any other loss ends the hold when it is announced.
        let taken = self.lost.as_ref().filter(|(_, reason)| reason != "Expired").map(|(at, _)| *at);
        [self.left, taken].into_iter().flatten().fold(self.until, u64::min)
    }
}

/// What one process reported: its holds in their order, and the rest.
#[derive(Clone, Debug)]
pub struct Life {
    worker: usize,
    kind: Kind,
    /// Its holds.
    pub holds: Vec<Hold>,
    /// How often other clients held the lock for as long as it waited.
    pub busy: u64,
    /// The library's errors.
    pub errors: Vec<String>,
    /// The results of its releases.
    pub releases: Vec<String>,
    /// Lines that make no sense: a failure of the harness.
    pub nonsense: Vec<String>,
}

impl Life {
    /// A life without events.
    pub fn new(worker: usize, kind: Kind) -> Life {
        Life {
            worker,
            kind,
            holds: Vec::new(),
            busy: 0,
            errors: Vec::new(),
            releases: Vec::new(),
            nonsense: Vec::new(),
        }
    }

    /// Adds the next event.
    pub fn add(&mut self, event: Event) {
        if let Event::Granted { name, at, until } = event {
            let until = if until == 0 { at } else { until };
            let (worker, kind) = (self.worker, self.kind);
            self.holds.push(Hold { worker, kind, name, from: at, until, token: None, left: None, lost: None, late: 0 });
            return;
        }
        match event {
            Event::Busy => return self.busy += 1,
            Event::Error(what) => return self.errors.push(what),
            Event::Released(how) => return self.releases.push(how),
            Event::Thinking => return,
            _ => {}
        }
        let Some(hold) = self.holds.last_mut() else {
            return self.nonsense.push(event.to_string());
        };
        match event {
            Event::Token(token) => hold.token = Some(token),
            Event::Until(until) => hold.until = hold.until.max(until),
            Event::Alive(at) => hold.until = hold.until.max(at),
            Event::Left { at } => {
                hold.left = Some(at);
                if hold.kind == Kind::Command {
                    hold.until = at;
                }
            }
            Event::Lost { at, reason } => hold.lost = Some((at, reason)),
            Event::Late(ticks) => hold.late = hold.late.max(ticks),
            other => self.nonsense.push(other.to_string()),
        }
    }
}
