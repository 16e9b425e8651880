//! The worker processes of an arena: they are started, read, stopped, killed, and ended.

use super::history::{Event, Kind, Life, now};
use super::keeper::Keeper;
use parking_lot::Mutex;
use redleash_testkit::wait_until;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// To end by itself, a worker needs the time of its last hold and of a few round trips.
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// A moment for which a fault waits: a worker has read and is about to write, or a command has begun its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cue {
    /// Whose.
    pub row: usize,
    /// Of which kind.
    pub kind: Kind,
    /// When it was read.
    pub at: u64,
}

/// How a row's next process is started.
pub type Launch = Box<dyn Fn(u64) -> Command + Send>;

#[derive(Default)]
struct Slot {
    pid: Option<Pid>,
    stdin: Option<ChildStdin>,
}

struct Row {
    kind: Kind,
    slot: Arc<Mutex<Slot>>,
    runner: Option<JoinHandle<Record>>,
}

/// What one row reported in all its lives, each of which is a process.
#[derive(Debug, Default)]
pub struct Record {
    /// The lives in their order.
    pub lives: Vec<Life>,
    /// How each ended: its exit code, or 128 and the signal.
    pub codes: Vec<i32>,
    /// Why the row could not go on.
    pub failure: Option<String>,
}

/// See the module.
pub struct Crew {
    rows: Vec<Row>,
    stop: Arc<AtomicBool>,
    cues: Receiver<Cue>,
}

impl Crew {
    /// Starts one process per row.
    pub fn start(keeper: &Arc<Keeper>, rows: Vec<(Kind, Launch)>) -> Crew {
        let stop = Arc::new(AtomicBool::new(false));
        let (send, cues) = channel();
        let rows = rows.into_iter().enumerate().map(|(row, (kind, launch))| {
            let slot = Arc::new(Mutex::new(Slot::default()));
            let runner = Runner {
                row,
                kind,
                launch,
                slot: slot.clone(),
                keeper: keeper.clone(),
                stop: stop.clone(),
                cues: send.clone(),
            };
            Row { kind, slot, runner: Some(thread::spawn(move || runner.serve())) }
        });
        Crew { rows: rows.collect(), stop, cues }
    }

    /// What the row is.
    pub fn kinds(&self) -> Vec<Kind> {
        self.rows.iter().map(|row| row.kind).collect()
    }

    /// The cues, as they come.
    pub fn cues(&self) -> &Receiver<Cue> {
        &self.cues
    }

    /// Sends a signal to the process of a row. Returns when that was; `None` if there is no process.
    pub fn signal(&self, row: usize, signal: Signal) -> Option<u64> {
        let slot = self.rows[row].slot.lock();
        kill_process(slot.pid?, signal).ok()?;
        Some(now())
    }

    /// Lets all of them end by themselves, and returns what they reported. A process that does not end in time is
    /// killed, and its row has failed.
    pub fn finish(mut self) -> Vec<Record> {
        self.stop.store(true, Ordering::SeqCst);
        for row in &self.rows {
            row.slot.lock().stdin = None;
        }
        let over = |row: &Row| row.runner.as_ref().is_none_or(JoinHandle::is_finished);
        wait_until(END_TIMEOUT, || self.rows.iter().all(over));
        let hanging: Vec<usize> = (0..self.rows.len()).filter(|row| !over(&self.rows[*row])).collect();
        for row in &hanging {
            let _ = self.signal(*row, Signal::KILL);
        }
        let end = |(row, runner): (usize, JoinHandle<Record>)| {
            let panicked = |_| Record { failure: Some("a panic".into()), ..Record::default() };
            let mut record = runner.join().unwrap_or_else(panicked);
            if hanging.contains(&row) {
                record.failure = Some("it did not end when its input ended".into());
            }
            record
        };
        let runners = self.rows.iter_mut().enumerate();
        runners.filter_map(|(i, row)| Some((i, row.runner.take()?))).map(end).collect()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        for row in self.rows.iter_mut() {
            let Some(runner) = row.runner.take() else { continue };
            if let Some(pid) = row.slot.lock().pid {
                let _ = kill_process(pid, Signal::KILL);
            }
            let _ = runner.join();
        }
    }
}

/// The thread of a row: it runs one process after the other.
struct Runner {
    row: usize,
    kind: Kind,
    launch: Launch,
    slot: Arc<Mutex<Slot>>,
    keeper: Arc<Keeper>,
    stop: Arc<AtomicBool>,
    cues: Sender<Cue>,
}

impl Runner {
    fn serve(self) -> Record {
        let mut record = Record::default();
        let mut number = 0;
        while !self.stop.load(Ordering::SeqCst) {
            match self.live(number) {
                Ok((life, status)) => {
                    record.lives.push(life);
                    record.codes.push(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
                }
                Err(error) => {
                    record.failure = Some(error.to_string());
                    break;
                }
            }
            number += 1;
        }
        record
    }

    fn live(&self, number: u64) -> io::Result<(Life, ExitStatus)> {
        let mut life = Life::new(self.row, self.kind);
        let mut command = (self.launch)(number);
        let mut slot = self.slot.lock();
        let mut child = command
            .process_group(0) // Ctrl-C ends this process, and then the keeper ends the worker
            .stdin(if self.kind == Kind::Library { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .spawn()?;
        let kept = self.keeper.send('+', child.id());
        // The command holds the output's other end, which must not outlive it.
        drop(command);
        slot.pid = Some(Pid::from_child(&child));
        if !self.stop.load(Ordering::SeqCst) {
            slot.stdin = child.stdin.take();
        }
        drop(slot);
        drop(child.stdin.take());
        if let Err(error) = kept {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        if let Some(output) = child.stdout.take() {
            self.listen(output, &mut life);
        }
        // Before the wait, which frees the pid for other processes.
        let pid = Pid::from_child(&child);
        let ended = || waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        while ended().is_err_and(|error| error == rustix::io::Errno::INTR) {}
        *self.slot.lock() = Slot::default();
        let _ = self.keeper.send('-', child.id());
        Ok((life, child.wait()?))
    }

    /// Reads until no process is left that could write. For `redleash run` these are its command and its supervisor
    /// too.
    fn listen(&self, output: impl io::Read, life: &mut Life) {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let Some(event) = Event::parse(&line) else {
                life.nonsense.push(line);
                continue;
            };
            if matches!((&event, self.kind), (Event::Thinking, Kind::Library) | (Event::Token(_), Kind::Command)) {
                let _ = self.cues.send(Cue { row: self.row, kind: self.kind, at: now() });
            }
            life.add(event);
        }
    }
}
