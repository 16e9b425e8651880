//! The supervisor: a process of its own between redleash and the command. It knows when the lease ends, and ends the command
//! with all that it started before; also if redleash gets SIGKILL, is stopped, or hangs.

use crate::alarm::{self, Alarm};
use crate::args::OnLost;
use crate::child;
use crate::clock::Moment;
use crate::contain;
use crate::ending::{Ending, Step, Times};
use crate::exit::{SYSTEM, USAGE};
use crate::link::{self, Ended, Order, Report};
use crate::say;
use crate::signals;
use crate::supervised;
use crate::tree::{self, Found, Process, Tree};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process_group, test_kill_process_group, wait};
use signal_hook::consts::SIGCHLD;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The word that starts this stage: `redleash supervise NAME ON_LOST KILL_AFTER_NS MARGIN_NS FOREGROUND CONTAINED CMD ARGS...`.
pub(crate) const STAGE: &str = "supervise";

/// Whether it is the first process of a pid namespace.
pub(crate) const CONTAINED: &str = "contained";
pub(crate) const FREE: &str = "free";

/// How often the processes that are left are looked at: nobody tells when the last of them ends.
const LOOK: Duration = Duration::from_millis(20);
/// A look may take a tenth of the time, where there are thousands of processes.
const LOOK_SHARE: u32 = 10;
/// How many looks in a row may find somebody to kill before orders are read again.
const SWEEP: usize = 5;
/// How long SIGKILL may take; only a process that waits for a dead disk or network mount needs longer.
const KILL_LIMIT: Duration = Duration::from_secs(2);

/// What it was started with.
struct Task<'a> {
    name: &'a str,
    on_lost: OnLost,
    times: Times,
    foreground: &'a str,
    contained: bool,
    command: &'a [OsString],
}

impl Task<'_> {
    fn parse(args: &[OsString]) -> Option<Task<'_>> {
        let word = |i: usize| args.get(i)?.to_str();
        let span = |i: usize| Some(Duration::from_nanos(word(i)?.parse().ok()?));
        Some(Task {
            name: word(0)?,
            on_lost: <OnLost as clap::ValueEnum>::from_str(word(1)?, false).ok()?,
            times: Times { kill_after: span(2)?, margin: span(3)? },
            foreground: word(4)?,
            contained: match word(5)? {
                CONTAINED => true,
                FREE => false,
                _ => return None,
            },
            command: args.get(6..).filter(|command| !command.is_empty())?,
        })
    }
}

pub(crate) fn main(args: &[OsString]) -> u8 {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(c"redleash");
    let stdin_is_a_socket = rustix::net::sockopt::socket_type(io::stdin()).is_ok();
    let Some(task) = Task::parse(args).filter(|_| stdin_is_a_socket) else {
        say::sentence("this stage is started by `redleash run` only");
        return USAGE;
    };
    // If this fails the command goes with this process: see `child::die_with_the_supervisor`.
    let worked = begin(&task).and_then(|supervisor| supervisor.map_or(Ok(()), |mut supervisor| supervisor.work()));
    worked.map_or(SYSTEM, |()| 0)
}

/// Starts the command; `None` if that failed, or if nobody is there any more to start it for.
fn begin(task: &Task<'_>) -> io::Result<Option<Supervisor>> {
    signals::swallow()?;
    let (children, waker) = UnixStream::pair()?;
    children.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(SIGCHLD, waker)?;
    let adopts = supervised::adopt_orphans();
    let link = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let Some((stdin, mut bytes)) = link::receive_first(&link)? else { return Ok(None) };
    let first = String::from_utf8_lossy(&bytes).into_owned();
    let Some((line, _)) = first.split_once('\n') else { return Ok(None) };
    let Some(Order::Until(until)) = Order::parse(line) else { return Ok(None) };
    bytes.drain(..=line.len());
    link.set_nonblocking(true)?;
    let alarm = Alarm::new()?;
    let ready = if task.contained { contain::settle() } else { Ok(()) };
    let over = Moment::now() >= until;
    let spawned = match ready {
        Err(e) => Err(e),
        Ok(()) if over => Err(io::Error::other("the lease was over before")),
        Ok(()) => spawn(task, stdin),
    };
    let mut told = &link;
    let pid = match spawned {
        Ok(pid) => pid,
        Err(e) => {
            told.write_all(Report::Failed(e.to_string()).line().as_bytes())?;
            return Ok(None);
        }
    };
    let _ = told.write_all(Report::Started(pid.as_raw_nonzero().get()).line().as_bytes());
    supervised::let_go_of_output();
    Ok(Some(Supervisor {
        name: task.name.to_string(),
        on_lost: task.on_lost,
        link,
        unread: bytes,
        children,
        alarm,
        group: pid,
        tree: if task.contained { Tree::contained(&[getpid()]) } else { Tree::below(&[getpid()]) },
        adopts,
        childless: false,
        daemons: Vec::new(),
        look: LOOK,
        ending: Ending::new(task.times, task.on_lost, until),
        ended: None,
        stopped: false,
        orphaned: false,
    }))
}

fn spawn(task: &Task<'_>, stdin: OwnedFd) -> io::Result<Pid> {
    let child = Command::new(supervised::myself()?)
        .arg0("redleash")
        .args([child::STAGE, task.name, &std::process::id().to_string(), task.foreground])
        .args(task.command)
        .stdin(Stdio::from(stdin))
        .process_group(0)
        .spawn()?;
    Ok(Pid::from_child(&child))
}

struct Supervisor {
    name: String,
    on_lost: OnLost,
    link: UnixStream,
    unread: Vec<u8>,
    children: UnixStream,
    alarm: Alarm,
    group: Pid,
    tree: Tree,
    /// Orphans of the command are children of this process.
    adopts: bool,
    /// This process has no child, as it saw last.
    childless: bool,
    /// Processes that had left when they were looked at last.
    daemons: Vec<Process>,
    /// How often to look at the processes that are left.
    look: Duration,
    ending: Ending,
    ended: Option<Ended>,
    stopped: bool,
    /// `run` is gone.
    orphaned: bool,
}

impl Supervisor {
    fn work(&mut self) -> io::Result<()> {
        // Orders may have come together with the first one.
        self.listen();
        loop {
            self.collect();
            if let Some(ended) = self.ended {
                if self.is_empty() {
                    return self.finish(ended);
                }
                self.ending.left(Moment::now());
                if self.ending.killed().is_some_and(|at| Moment::now().since(at) > KILL_LIMIT) {
                    self.report(&Report::Remains);
                    return self.finish(ended);
                }
            }
            let due = self.act();
            if self.ending.killed().is_some() {
                self.kill_all();
            }
            self.sleep(due)?;
        }
    }

    /// Does what is due; when to look again.
    fn act(&mut self) -> Moment {
        loop {
            match self.ending.step(Moment::now()) {
                Step::Wait(due) => return due,
                Step::Term => self.ask_to_end(),
                // The others follow at once: see `work`.
                Step::Kill => self.signal(Signal::KILL),
            }
        }
    }

    /// SIGTERM to the command and all that it started. They are looked for before, because a parent that ends makes orphans, and
    /// an orphan in a session of its own has left.
    fn ask_to_end(&mut self) {
        let found = self.look();
        let names = found.as_ref().map_or_else(|_| "processes of its group".into(), |found| tree::names(&found.bound));
        self.report(&if self.ended.is_some() { Report::Left(names) } else { Report::Ending });
        // Whom --on-lost term spares may start a daemon later.
        if let Some(found) = found.as_ref().ok().filter(|_| self.ended.is_some() || self.on_lost == OnLost::Kill) {
            self.tree.close(found);
        }
        // A process that is stopped would not see SIGTERM alone.
        for signal in [Signal::TERM, Signal::CONT] {
            if let Ok(found) = &found {
                found.signal(signal);
            } else {
                self.signal(signal);
            }
        }
    }

    fn kill_all(&mut self) {
        let mut tree = std::mem::take(&mut self.tree);
        let _ = tree.kill(SWEEP, || self.collect());
        self.tree = tree;
    }

    fn look(&mut self) -> io::Result<Found> {
        let start = Moment::now();
        let found = self.tree.look()?;
        self.look = LOOK.max(Moment::now().since(start) * LOOK_SHARE);
        Ok(found)
    }

    fn sleep(&mut self, due: Moment) -> io::Result<()> {
        let look = (self.ended.is_some() || self.ending.killed().is_some()).then_some(self.look);
        let both = [self.children.as_fd(), self.link.as_fd()];
        // The end of file of the link would end every wait at once.
        let readers = if self.orphaned { &both[..1] } else { &both[..] };
        let ready = alarm::wait(&mut self.alarm, readers, due, look)?;
        while matches!(self.children.read(&mut [0; 64]), Ok(n) if n > 0) {}
        if ready.get(1).is_some_and(|ready| *ready) {
            self.listen();
        }
        Ok(())
    }

    /// Reads what `run` has to say.
    fn listen(&mut self) {
        let mut bytes = [0; 1024];
        loop {
            match self.link.read(&mut bytes) {
                Ok(0) => return self.abandoned(),
                Ok(n) => self.unread.extend_from_slice(&bytes[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return self.abandoned(),
            }
        }
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            match Order::parse(String::from_utf8_lossy(&line).trim_end()) {
                Some(Order::Until(until)) => self.ending.renewed(until),
                Some(Order::Lost) => self.ending.over(),
                Some(Order::Signal(signal)) => self.forward(signal),
                None => {}
            }
        }
    }

    fn forward(&mut self, number: i32) {
        let Some(signal) = signals::named(number) else { return };
        self.signal(signal);
        if signal == Signal::CONT {
            self.stopped = false;
        } else if self.stopped && signals::ends(number) {
            self.signal(Signal::CONT);
        }
    }

    /// `run` is gone: nobody renews the lock any more.
    fn abandoned(&mut self) {
        self.orphaned = true;
        self.ending.over();
        if self.on_lost == OnLost::Warn {
            let name = &self.name;
            say::sentence(&format!(
                "lock {name:?}: the process that holds it is gone; the command goes on without the lock"
            ));
        }
    }

    /// To the command's group; to all that it left behind when it has ended, since another group may have the number then.
    fn signal(&mut self, signal: Signal) {
        match self.ended.map(|_| self.look()) {
            Some(Ok(found)) => found.signal(signal),
            None | Some(Err(_)) => {
                let _ = kill_process_group(self.group, signal);
            }
        }
    }

    /// Not asked while the command itself lives, whose number is the group's.
    fn is_group_empty(&self) -> bool {
        test_kill_process_group(self.group) == Err(Errno::SRCH)
    }

    /// Whether all have ended, but for those that have left.
    fn is_empty(&mut self) -> bool {
        self.daemons.clear();
        if self.adopts && self.childless {
            return true;
        }
        match self.look() {
            Ok(found) => {
                // There is a child. If nothing at all is found, it is one that cannot be seen, or that has just ended.
                let unseen = self.adopts && found.left.is_empty();
                let empty = found.is_empty() && !unseen;
                self.daemons = found.left;
                empty
            }
            Err(_) => self.is_group_empty(),
        }
    }

    /// Takes notice of children that ended or were stopped; orphans of the command are among them.
    fn collect(&mut self) {
        loop {
            let (pid, status) = match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some(child)) => child,
                Err(Errno::INTR) => continue,
                other => {
                    self.childless = matches!(other, Err(Errno::CHILD));
                    return;
                }
            };
            if pid != self.group {
                continue;
            }
            if let Some(signal) = status.stopping_signal() {
                self.stopped = true;
                self.report(&Report::Stopped(signal));
            } else if let Some(code) = status.exit_status() {
                self.ended = Some(Ended::Code(code));
            } else if let Some(signal) = status.terminating_signal() {
                self.ended = Some(Ended::Signal(signal));
            }
        }
    }

    fn report(&self, report: &Report) {
        // Not blocking: a socket takes some hundred lines that nobody reads, and there are not that many.
        let _ = (&self.link).write_all(report.line().as_bytes());
    }

    fn finish(&self, ended: Ended) -> io::Result<()> {
        if !self.daemons.is_empty() {
            let names = tree::names(&self.daemons);
            if self.orphaned {
                say::sentence(&daemons_sentence(&self.name, &names));
            }
            self.report(&Report::Daemons(names));
        }
        self.report(&Report::Ended(ended));
        if self.orphaned && self.on_lost != OnLost::Warn {
            let name = &self.name;
            say::sentence(&format!(
                "lock {name:?}: the process that holds it was killed, so the command was ended; \
                 the lock is free when its lease and the lock-delay are over"
            ));
        }
        Ok(())
    }
}

/// What the user should know of processes that run on.
pub(crate) fn daemons_sentence(name: &str, names: &str) -> String {
    format!("lock {name:?}: {names} has left the command (setsid, and its parent ended) and runs on without the lock")
}
