//! The worker processes of an arena: started, listened to, stopped, killed, and gone in the end.

use super::history::{Event, Kind, Story, now};
use crate::servers::wait_until;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Outlives an owner that was killed: the pipe closes, and every process still named on it ends.
const KEEPER: &str = r#"pids=" "
while read -r op pid; do
    case $op in
    +) pids="$pids$pid " ;;
    -) pids="${pids%% "$pid" *} ${pids#* "$pid" }" ;;
    esac
done
for pid in $pids; do kill -9 "$pid"; done"#;

/// A worker that is told to end needs its last hold and a few round trips.
const END_LIMIT: Duration = Duration::from_secs(20);

/// Ends the workers if we cannot.
pub struct Keeper {
    process: Child,
    pipe: Mutex<Option<ChildStdin>>,
}

impl Keeper {
    /// With nobody to watch over yet.
    ///
    /// # Errors
    ///
    /// If there is no shell.
    pub fn start() -> io::Result<Keeper> {
        let mut process = Command::new("sh")
            .args(["-c", KEEPER])
            .process_group(0) // Ctrl-C is not for the keeper
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pipe = Mutex::new(process.stdin.take());
        Ok(Keeper { process, pipe })
    }

    fn tell(&self, op: char, pid: u32) -> io::Result<()> {
        match &mut *self.pipe.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(pipe) => pipe.write_all(format!("{op} {pid}\n").as_bytes()),
            None => Ok(()),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        *self.pipe.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let _ = self.process.wait();
    }
}

/// A moment that a fault waits for: a worker has read and is about to write, or a command has begun its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cue {
    /// Whose.
    pub row: usize,
    /// Of which kind.
    pub kind: Kind,
    /// When it was heard.
    pub at: u64,
}

/// How a row's next process is started.
pub type Launch = Box<dyn Fn(u64) -> Command + Send>;

#[derive(Default)]
struct Seat {
    pid: Option<Pid>,
    stdin: Option<ChildStdin>,
}

struct Row {
    kind: Kind,
    seat: Arc<Mutex<Seat>>,
    runner: Option<JoinHandle<Told>>,
}

/// What one row told in all its lives.
#[derive(Debug, Default)]
pub struct Told {
    /// One story per process.
    pub stories: Vec<Story>,
    /// How the processes ended, where it was not by our hand: exit codes, or 128 and the signal.
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
            let seat = Arc::new(Mutex::new(Seat::default()));
            let post = Post {
                row,
                kind,
                launch,
                seat: seat.clone(),
                keeper: keeper.clone(),
                stop: stop.clone(),
                cues: send.clone(),
            };
            Row { kind, seat, runner: Some(thread::spawn(move || post.serve())) }
        });
        Crew { rows: rows.collect(), stop, cues }
    }

    /// What the row is.
    pub fn kinds(&self) -> Vec<Kind> {
        self.rows.iter().map(|row| row.kind).collect()
    }

    /// Moments as they come.
    pub fn cues(&self) -> &Receiver<Cue> {
        &self.cues
    }

    /// Sends a signal to the process of a row; when, if there was one.
    pub fn signal(&self, row: usize, signal: Signal) -> Option<u64> {
        let seat = lock(&self.rows[row].seat);
        kill_process(seat.pid?, signal).ok()?;
        Some(now())
    }

    /// Has all of them end in their own time, and returns what they told. Who does not end in time is killed, and it shows
    /// in what its row told.
    pub fn finish(mut self) -> Vec<Told> {
        self.stop.store(true, Ordering::SeqCst);
        for row in &self.rows {
            lock(&row.seat).stdin = None;
        }
        let over = |row: &Row| row.runner.as_ref().is_none_or(JoinHandle::is_finished);
        wait_until(END_LIMIT, || self.rows.iter().all(over));
        let hanging: Vec<usize> = (0..self.rows.len()).filter(|row| !over(&self.rows[*row])).collect();
        for row in &hanging {
            let _ = self.signal(*row, Signal::KILL);
        }
        let end = |(row, runner): (usize, JoinHandle<Told>)| {
            let mut told =
                runner.join().unwrap_or_else(|_| Told { failure: Some("a panic".into()), ..Told::default() });
            if hanging.contains(&row) {
                told.failure = Some("did not end when it was told to".into());
            }
            told
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
            if let Some(pid) = lock(&row.seat).pid {
                let _ = kill_process(pid, Signal::KILL);
            }
            let _ = runner.join();
        }
    }
}

fn lock(seat: &Mutex<Seat>) -> MutexGuard<'_, Seat> {
    seat.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a row's thread has.
struct Post {
    row: usize,
    kind: Kind,
    launch: Launch,
    seat: Arc<Mutex<Seat>>,
    keeper: Arc<Keeper>,
    stop: Arc<AtomicBool>,
    cues: Sender<Cue>,
}

impl Post {
    fn serve(self) -> Told {
        let mut told = Told::default();
        let mut life = 0;
        while !self.stop.load(Ordering::SeqCst) {
            match self.live(life) {
                Ok((story, status)) => {
                    told.stories.push(story);
                    told.codes.push(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
                }
                Err(error) => {
                    told.failure = Some(error.to_string());
                    break;
                }
            }
            life += 1;
        }
        told
    }

    fn live(&self, life: u64) -> io::Result<(Story, ExitStatus)> {
        let mut story = Story::new(self.row, self.kind);
        let mut command = (self.launch)(life);
        let mut seat = lock(&self.seat);
        let mut child = command
            .process_group(0) // Ctrl-C ends us, and then the keeper ends it
            .stdin(if self.kind == Kind::Library { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .spawn()?;
        let kept = self.keeper.tell('+', child.id());
        // The command holds the output's other end, which must not outlive it.
        drop(command);
        seat.pid = Some(Pid::from_child(&child));
        if !self.stop.load(Ordering::SeqCst) {
            seat.stdin = child.stdin.take();
        }
        drop(seat);
        drop(child.stdin.take());
        if let Err(error) = kept {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        if let Some(output) = child.stdout.take() {
            self.listen(output, &mut story);
        }
        // Before the wait frees the pid for somebody else.
        let pid = Pid::from_child(&child);
        let ended = || waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        while ended().is_err_and(|error| error == rustix::io::Errno::INTR) {}
        *lock(&self.seat) = Seat::default();
        let _ = self.keeper.tell('-', child.id());
        Ok((story, child.wait()?))
    }

    /// Until nobody is left who could write: for `redleash run`, its command and its supervisor too.
    fn listen(&self, output: impl io::Read, story: &mut Story) {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let Some(event) = Event::parse(&line) else {
                story.nonsense.push(line);
                continue;
            };
            if matches!((&event, self.kind), (Event::Thinking, Kind::Library) | (Event::Token(_), Kind::Command)) {
                let _ = self.cues.send(Cue { row: self.row, kind: self.kind, at: now() });
            }
            story.add(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keeper_ends_whom_it_was_told_of_and_nobody_else() {
        let keeper = Keeper::start().expect("a shell");
        let sleep = || Command::new("sleep").arg("60").spawn().expect("sleep");
        let mut sleepers = [sleep(), sleep(), sleep()];
        sleepers.iter().for_each(|sleeper| keeper.tell('+', sleeper.id()).expect("a pipe"));
        keeper.tell('-', sleepers[1].id()).expect("a pipe");
        drop(keeper);
        let [first, second, third] = &mut sleepers;
        let gone = |sleeper: &mut Child| wait_until(END_LIMIT, || sleeper.try_wait().is_ok_and(|end| end.is_some()));
        let ended = gone(first) && gone(third);
        let alive = second.try_wait().expect("our child").is_none();
        for sleeper in &mut sleepers {
            let _ = sleeper.kill();
            let _ = sleeper.wait();
        }
        assert!(ended, "it let one live");
        assert!(alive, "it killed one that it was told to forget");
    }
}
