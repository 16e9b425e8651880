//! What the workers tell, and the holds that it comes to.
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
    /// The lock `name` is ours: seen at `at`, valid until `until` by the guard's own deadline (0: it tells none).
    Granted { name: usize, at: u64, until: u64 },
    /// The fencing token of the hold.
    Token(u64),
    /// The deadline was found prolonged.
    Until(u64),
    /// Still at work: a command under `redleash run`, which has no guard to ask.
    Alive(u64),
    /// Has read and is about to write: the worst moment to be stopped.
    Thinking,
    /// The hold is given up now, or was lost and is given up.
    Left { at: u64 },
    /// What became of the release.
    Released(String),
    /// The guard told of its loss.
    Lost { at: u64, reason: String },
    /// The process was awake for so many ticks of its metronome after the deadline before it was told of the loss.
    Late(u64),
    /// Others held the lock for as long as we waited.
    Busy,
    /// An error of the library.
    Trouble(String),
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
            Event::Trouble(what) => write!(f, "E {what}"),
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
            "E" => Event::Trouble(rest.into()),
            _ => return None,
        })
    }

    /// Writes it in one piece; a worker whose listener is gone has nothing left to do.
    pub fn say(&self) {
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
    /// When the owner first knew.
    pub from: u64,
    /// Until when the owner could rely on it, as last seen: its deadline, or a command's last sign of life.
    pub until: u64,
    /// Its fencing token, if it asked.
    pub token: Option<u64>,
    /// When it gave up.
    pub left: Option<u64>,
    /// When it was told of a loss, and why.
    pub lost: Option<(u64, String)>,
    /// How many ticks it was awake after the deadline without being told.
    pub late: u64,
}

impl Hold {
    /// The end of the time in which the owner relied on the lock.
    pub fn end(&self) -> u64 {
        // A loss by the deadline is told a little before; any other ends the hold when it is told.
        let taken = self.lost.as_ref().filter(|(_, reason)| reason != "Expired").map(|(at, _)| *at);
        [self.left, taken].into_iter().flatten().fold(self.until, u64::min)
    }
}

/// The holds and the rest that one process told, in its order.
#[derive(Clone, Debug)]
pub struct Story {
    worker: usize,
    kind: Kind,
    /// Its holds.
    pub holds: Vec<Hold>,
    /// How often others held the lock for as long as it waited.
    pub busy: u64,
    /// The library's errors.
    pub trouble: Vec<String>,
    /// Releases by what became of them.
    pub released: Vec<String>,
    /// Lines that make no sense: a fault of the harness.
    pub nonsense: Vec<String>,
}

impl Story {
    /// Nothing yet.
    pub fn new(worker: usize, kind: Kind) -> Story {
        Story {
            worker,
            kind,
            holds: Vec::new(),
            busy: 0,
            trouble: Vec::new(),
            released: Vec::new(),
            nonsense: Vec::new(),
        }
    }

    /// Takes the next event.
    pub fn add(&mut self, event: Event) {
        if let Event::Granted { name, at, until } = event {
            let until = if until == 0 { at } else { until };
            let (worker, kind) = (self.worker, self.kind);
            self.holds.push(Hold { worker, kind, name, from: at, until, token: None, left: None, lost: None, late: 0 });
            return;
        }
        match event {
            Event::Busy => return self.busy += 1,
            Event::Trouble(what) => return self.trouble.push(what),
            Event::Released(how) => return self.released.push(how),
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
