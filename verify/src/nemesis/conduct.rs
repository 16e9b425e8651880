//! Carries out a schedule on an arena and its crew, and writes down what was done.

use super::arena::Arena;
use super::crew::{Crew, Cue};
use super::faults::{Fault, Planned};
use super::history::{Kind, now};
use super::proxy::{Link, Way};
use rustix::process::Signal;
use std::io;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

/// A fault that took place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injected {
    /// What.
    pub fault: Fault,
    /// Which masters.
    pub masters: Vec<usize>,
    /// Which worker.
    pub row: Option<usize>,
    /// When, on the clock of the history.
    pub from: u64,
    /// When it was over.
    pub to: u64,
    /// Details: what became of the bytes, or how far the clock stepped.
    pub detail: String,
}

/// An older cue does not count, because the worker has continued since.
const FRESH_NS: u64 = 20_000_000;

/// See the module.
pub struct Conductor<'a> {
    arena: &'a Arena,
    crew: &'a Crew,
    /// Faults that took place.
    pub done: Vec<Injected>,
    /// What could not be done: failures of the harness.
    pub failures: Vec<String>,
    /// The farthest ahead that the stepped clock was.
    pub ahead_us: i64,
    links: Vec<Vec<(usize, Link)>>,
    ends: Vec<(Instant, usize)>,
    waiting: Vec<Planned>,
}

impl<'a> Conductor<'a> {
    /// A conductor that has done nothing yet.
    pub fn new(arena: &'a Arena, crew: &'a Crew) -> Conductor<'a> {
        let links = vec![Vec::new(); arena.proxies.len()];
        let (done, failures, ends, waiting) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Conductor { arena, crew, done, failures, ahead_us: 0, links, ends, waiting }
    }

    /// Carries out all of it and ends every fault. A fault that still waits for its cue after `limit` is given up.
    pub fn play(&mut self, schedule: &[Planned], limit: Duration) {
        let start = Instant::now();
        let mut next = schedule.iter().peekable();
        loop {
            let at = Instant::now();
            while let Some(planned) = next.next_if(|planned| start + planned.at <= at) {
                if waits(planned.fault) {
                    self.waiting.push(planned.clone());
                } else {
                    self.begin(planned, None);
                }
            }
            while let Some(i) = self.ends.iter().position(|(end, _)| *end <= at) {
                let (_, fault) = self.ends.swap_remove(i);
                self.end(fault);
            }
            let begins = next.peek().map(|planned| start + planned.at);
            let gives_up = (!self.waiting.is_empty()).then_some(start + limit);
            let Some(until) = self.ends.iter().map(|(end, _)| *end).chain(begins).chain(gives_up).min() else { return };
            if begins.is_none() && at >= start + limit {
                self.waiting.clear();
            }
            self.listen(until);
        }
    }

    /// Waits for a cue until there is something else to do.
    fn listen(&mut self, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        match self.crew.cues().recv_timeout(left) {
            Ok(cue) => self.take(cue),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => thread::sleep(left),
        }
    }

    fn take(&mut self, cue: Cue) {
        if now().saturating_sub(cue.at) > FRESH_NS {
            return;
        }
        let kind =
            |fault| if matches!(fault, Fault::RunStopped | Fault::RunKilled) { Kind::Command } else { Kind::Library };
        if let Some(i) = self.waiting.iter().position(|planned| kind(planned.fault) == cue.kind) {
            let planned = self.waiting.remove(i);
            self.begin(&planned, Some(cue.row));
        }
    }

    fn begin(&mut self, planned: &Planned, row: Option<usize>) {
        let from = now();
        match self.inject(planned, row) {
            Ok((row, detail)) => {
                let (fault, masters) = (planned.fault, planned.masters.clone());
                self.done.push(Injected { fault, masters, row, from, to: now(), detail });
                if !planned.lasts.is_zero() {
                    self.ends.push((Instant::now() + planned.lasts, self.done.len() - 1));
                }
            }
            // Its process has just ended: the fault waits for the next cue.
            Err(error) if error.kind() == io::ErrorKind::NotFound && row.is_some() => {
                self.waiting.push(planned.clone())
            }
            // A master that another fault has just killed executes no command.
            Err(error) if on_command(planned.fault) && self.down(&planned.masters) => drop(error),
            Err(error) => self.failures.push(format!("{}: {error}", planned.fault.name())),
        }
    }

    fn down(&self, masters: &[usize]) -> bool {
        masters.iter().any(|i| !self.arena.servers[*i].is_alive())
            || self.ends.iter().any(|(_, i)| {
                let done = &self.done[*i];
                done.fault == Fault::Stopped && done.masters.iter().any(|i| masters.contains(i))
            })
    }

    fn inject(&mut self, planned: &Planned, row: Option<usize>) -> io::Result<(Option<usize>, String)> {
        let (arena, id) = (self.arena, self.done.len());
        let masters = || planned.masters.iter().map(|i| &arena.servers[*i]);
        let mut detail = String::new();
        let how = if planned.way == Way::Hold { "held back" } else { "lost" };
        let parted = |requests, replies| (Link::parted(requests, replies, planned.way), how.to_string());
        match planned.fault {
            Fault::RequestsParted | Fault::RepliesParted | Fault::Parted | Fault::Refused | Fault::Slow => {
                let late = Duration::from_millis(5 + planned.draw % 70);
                let (link, words) = match planned.fault {
                    Fault::RequestsParted => parted(true, false),
                    Fault::RepliesParted => parted(false, true),
                    Fault::Parted => parted(true, true),
                    Fault::Refused => (Link::REFUSED, String::new()),
                    _ => (Link::slow(late), format!("by {} ms each way", late.as_millis())),
                };
                detail = words;
                for i in &planned.masters {
                    self.links[*i].push((id, link));
                    self.arena.proxies[*i].set(link);
                }
            }
            Fault::Cut => planned.masters.iter().for_each(|i| arena.proxies[*i].cut()),
            Fault::KilledEmpty | Fault::KilledAof => masters().for_each(|server| server.kill()),
            Fault::Stopped => {
                for server in masters().filter(|server| server.is_alive()) {
                    server.pause()?;
                }
            }
            Fault::Flushed => self.order(planned, &["FLUSHALL"])?,
            Fault::ScriptsFlushed => self.order(planned, &["SCRIPT", "FLUSH"])?,
            Fault::Full => self.order(planned, &["CONFIG", "SET", "maxmemory", "1"])?,
            Fault::Evicted => {
                let script = "for _, k in ipairs(redis.call('KEYS', 'rl:L:*')) do redis.call('DEL', k) end return 'OK'";
                self.order(planned, &["EVAL", script, "0"])?;
            }
            Fault::ClockForward | Fault::ClockBack => {
                let clock = arena.clock.as_ref().ok_or_else(|| io::Error::other("no clock to step"))?;
                clock.step(planned.step, planned.fault == Fault::ClockForward)?;
                self.ahead_us = self.ahead_us.max(clock.offset_us());
                detail = format!("by {} ms", planned.step.as_millis());
            }
            Fault::WorkerStopped | Fault::WorkerPaused | Fault::WorkerKilled | Fault::RunStopped | Fault::RunKilled => {
                let kill = matches!(planned.fault, Fault::WorkerKilled | Fault::RunKilled);
                let signal = if kill { Signal::KILL } else { Signal::STOP };
                let rows = row.map_or_else(|| self.any(planned.draw), |row| vec![row]);
                let hit = rows.into_iter().find(|row| self.crew.signal(*row, signal).is_some());
                return hit.map(|row| (Some(row), detail)).ok_or_else(|| io::ErrorKind::NotFound.into());
            }
        }
        Ok((None, detail))
    }

    /// The rows that use the library and that no fault has stopped, starting from a random one.
    fn any(&self, draw: u64) -> Vec<usize> {
        let kinds = self.crew.kinds();
        let stopped = |row| self.ends.iter().any(|(_, id)| self.done[*id].row == Some(row));
        let mut rows: Vec<usize> = (0..kinds.len()).filter(|i| kinds[*i] == Kind::Library && !stopped(*i)).collect();
        let first = (draw % rows.len().max(1) as u64) as usize;
        rows.rotate_left(first);
        rows
    }

    fn order(&self, planned: &Planned, words: &[&str]) -> io::Result<()> {
        for i in &planned.masters {
            let reply = self.arena.servers[*i].command(words)?;
            if !reply.is_ok() && reply.text().as_deref() != Some("OK") {
                return Err(io::Error::other(format!("{words:?}: {reply:?}")));
            }
        }
        Ok(())
    }

    fn end(&mut self, id: usize) {
        let injected = self.done[id].clone();
        let each = |act: &dyn Fn(&redleash_testkit::Server) -> io::Result<()>| {
            injected.masters.iter().try_for_each(|i| act(&self.arena.servers[*i]))
        };
        let result = match injected.fault {
            Fault::KilledEmpty => each(&|server| server.restart_empty()),
            Fault::KilledAof => each(&|server| server.restart()),
            Fault::Stopped => each(&|server| server.resume()),
            Fault::Full => each(&|server| match server.command(&["CONFIG", "SET", "maxmemory", "0"]) {
                Err(error) if server.is_alive() => Err(error),
                _ => Ok(()), // a master that is down forgets the setting
            }),
            Fault::WorkerStopped | Fault::WorkerPaused | Fault::RunStopped => {
                // It may have been killed, or be the next process of the row: to wake that one does no harm.
                let _ = injected.row.and_then(|row| self.crew.signal(row, Signal::CONT));
                Ok(())
            }
            _ => {
                for i in &injected.masters {
                    self.links[*i].retain(|(other, _)| *other != id);
                    let link = self.links[*i].last().map_or(Link::CLEAR, |(_, link)| *link);
                    self.arena.proxies[*i].set(link);
                }
                Ok(())
            }
        };
        self.done[id].to = now();
        if let Err(error) = result {
            self.failures.push(format!("ending {}: {error}", injected.fault.name()));
        }
    }
}

/// Whether the fault waits for the worst moment of a worker.
fn waits(fault: Fault) -> bool {
    matches!(fault, Fault::WorkerStopped | Fault::WorkerKilled | Fault::RunStopped | Fault::RunKilled)
}

/// Whether the fault is a command to a master.
fn on_command(fault: Fault) -> bool {
    matches!(fault, Fault::Flushed | Fault::ScriptsFlushed | Fault::Full | Fault::Evicted)
}
