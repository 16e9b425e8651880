//! The supervisor: a process of its own between redleash and the command. It knows when the lease ends, and ends the
//! command and all that it started before that. It does so even if redleash gets SIGKILL, is stopped, or hangs.

use super::stage::{self, Stage};
use super::task::{Task, foreground_word};
use crate::args::OnLost;
use crate::ending::{Ending, Step};
use crate::exit::SYSTEM;
use crate::link::{Ended, Link, Order, Report};
use crate::system::alarm::{self, Alarm};
use crate::system::children::{self, Children};
use crate::system::clock::Moment;
use crate::system::process::Process;
use crate::system::tree::{Found, Tree};
use crate::system::{namespace, signals, stdio};
use crate::text::{messages, say};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process_group, test_kill_process_group, wait};
use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

/// How often to look at the processes that are left: there is no signal when the last of them ends.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Looking takes at most one part in so many of the time, also where there are thousands of processes.
const LOOK_SHARE: u32 = 10;
/// How many looks in a row may find something to kill before orders are read again.
const SWEEP: usize = 5;
/// How long SIGKILL may take to end a process. Only one that waits for a dead disk or network mount needs longer.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs this stage; the exit code.
pub(super) fn main(args: &[OsString]) -> u8 {
    let (Some(task), Some(link)) = (Task::parse(args), stage::link()) else { return stage::refuse() };
    // If this fails, the command ends with this process: see `exec::die_with_the_supervisor`.
    let worked = begin(&task, link).and_then(|begun| begun.map_or(Ok(()), |mut supervisor| supervisor.work()));
    worked.map_or(SYSTEM, |()| 0)
}

/// Starts the command; `None` if that failed, or if redleash has ended already.
fn begin(task: &Task<'_>, link: UnixStream) -> io::Result<Option<Supervisor>> {
    signals::swallow()?;
    let children = Children::new()?;
    let adopts = children::adopt_orphans();
    let Some((stdin, mut link)) = Link::receive(link)? else { return Ok(None) };
    let mut orders = link.received().into_iter();
    let Some(Order::Until(until)) = orders.next() else { return Ok(None) };
    let alarm = Alarm::new()?;
    let ready = if task.contained { namespace::settle() } else { Ok(()) };
    let over = Moment::now() >= until;
    let spawned = match ready {
        Err(e) => Err(e),
        Ok(()) if over => Err(io::Error::other("the lease was over before")),
        Ok(()) => spawn(task, stdin),
    };
    let pid = match spawned {
        Ok(pid) => pid,
        Err(e) => {
            link.report(&Report::Failed(e.to_string()));
            return Ok(None);
        }
    };
    link.report(&Report::Started(pid.as_raw_nonzero().get()));
    stdio::let_go_of_output();
    let mut supervisor = Supervisor {
        name: task.name.to_string(),
        on_lost: task.on_lost,
        link,
        children,
        alarm,
        group: pid,
        tree: if task.contained { Tree::contained(&[getpid()]) } else { Tree::below(&[getpid()]) },
        adopts,
        childless: false,
        daemons: Vec::new(),
        look: LOOK_INTERVAL,
        ending: Ending::new(task.times, task.on_lost, until),
        ended: None,
        stopped: false,
        orphaned: false,
    };
    // They came together with the first one.
    supervisor.obey(orders);
    Ok(Some(supervisor))
}

fn spawn(task: &Task<'_>, stdin: OwnedFd) -> io::Result<Pid> {
    let child = Stage::Exec
        .command()?
        .args([task.name, &std::process::id().to_string(), foreground_word(task.foreground)])
        .args(task.command)
        .stdin(Stdio::from(stdin))
        .process_group(0)
        .spawn()?;
    Ok(Pid::from_child(&child))
}

struct Supervisor {
    name: String,
    on_lost: OnLost,
    link: Link,
    children: Children,
    alarm: Alarm,
    group: Pid,
    tree: Tree,
    /// Whether orphans of the command become children of this process.
    adopts: bool,
    /// Whether this process had no child when it looked last.
    childless: bool,
    /// The daemons that the last look found.
    daemons: Vec<Process>,
    /// How often to look at the processes that are left, now.
    look: Duration,
    ending: Ending,
    ended: Option<Ended>,
    stopped: bool,
    /// `run` has ended.
    orphaned: bool,
}

impl Supervisor {
    fn work(&mut self) -> io::Result<()> {
        loop {
            self.collect();
            if let Some(ended) = self.ended {
                if self.is_empty() {
                    return self.finish(ended);
                }
                self.ending.left_others(Moment::now());
                if self.ending.killed().is_some_and(|at| Moment::now().since(at) > KILL_TIMEOUT) {
                    self.link.report(&Report::Remains);
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

    /// Sends SIGTERM to the command and all that it started. They are looked for first, because a parent that ends
    /// leaves orphans, and an orphan in a session of its own would pass for a daemon.
    fn ask_to_end(&mut self) {
        let found = self.look();
        let names = found.as_ref().map(|found| messages::names(&found.bound));
        let names = names.unwrap_or_else(|_| "processes of its group".into());
        self.link.report(&if self.ended.is_some() { Report::Left(names) } else { Report::Ending });
        // A command that --on-lost term spares may still start a daemon later.
        if let Some(found) = found.as_ref().ok().filter(|_| self.ended.is_some() || self.on_lost == OnLost::Kill) {
            self.tree.close(found);
        }
        // A process that is stopped sees SIGTERM only when it is continued.
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
        self.look = LOOK_INTERVAL.max(Moment::now().since(start) * LOOK_SHARE);
        Ok(found)
    }

    fn sleep(&mut self, due: Moment) -> io::Result<()> {
        let look = (self.ended.is_some() || self.ending.killed().is_some()).then_some(self.look);
        let both = [self.children.as_fd(), self.link.as_fd()];
        let readers = if self.orphaned { &both[..1] } else { &both[..] };
        let ready = alarm::wait(&mut self.alarm, readers, due, look)?;
        self.children.drain();
        if ready.get(1).is_some_and(|ready| *ready) {
            let orders = self.link.read();
            self.obey(orders);
            if !self.link.is_open() {
                self.abandoned();
            }
        }
        Ok(())
    }

    fn obey(&mut self, orders: impl IntoIterator<Item = Order>) {
        for order in orders {
            match order {
                Order::Until(until) => self.ending.renewed(until),
                Order::Lost => self.ending.over(),
                Order::Signal(signal) => self.forward(signal),
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

    /// `run` has ended: nobody renews the lock any more.
    fn abandoned(&mut self) {
        self.orphaned = true;
        self.ending.over();
        if self.on_lost == OnLost::Warn {
            let name = &self.name;
            say::sentence(&format!(
                "lock {name:?}: redleash has ended; the command goes on without the lock (--on-lost warn)"
            ));
        }
    }

    /// Signals the command's group. When the command has ended, another group may have the number: then all that it
    /// left behind is signalled.
    fn signal(&mut self, signal: Signal) {
        match self.ended.map(|_| self.look()) {
            Some(Ok(found)) => found.signal(signal),
            None | Some(Err(_)) => {
                let _ = kill_process_group(self.group, signal);
            }
        }
    }

    /// Asked only when the command has ended: while it lives, its own pid is the group's number.
    fn is_group_empty(&self) -> bool {
        test_kill_process_group(self.group) == Err(Errno::SRCH)
    }

    /// Whether all but the daemons have ended.
    fn is_empty(&mut self) -> bool {
        self.daemons.clear();
        if self.adopts && self.childless {
            return true;
        }
        match self.look() {
            Ok(found) => {
                // There is a child. If the look finds none, the child is hidden or has just ended.
                let unseen = self.adopts && found.daemons.is_empty();
                let empty = found.is_empty() && !unseen;
                self.daemons = found.daemons;
                empty
            }
            Err(_) => self.is_group_empty(),
        }
    }

    /// Collects children that have ended, and notes what became of the command. Orphans of the command are among them.
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
                self.link.report(&Report::Stopped(signal));
            } else if let Some(code) = status.exit_status() {
                self.ended = Some(Ended::Code(code));
            } else if let Some(signal) = status.terminating_signal() {
                self.ended = Some(Ended::Signal(signal));
            }
        }
    }

    fn finish(&self, ended: Ended) -> io::Result<()> {
        if !self.daemons.is_empty() {
            let names = messages::names(&self.daemons);
            if self.orphaned {
                say::sentence(&messages::daemons(&self.name, &names));
            }
            self.link.report(&Report::Daemons(names));
        }
        self.link.report(&Report::Ended(ended));
        if self.orphaned && self.on_lost != OnLost::Warn {
            let name = &self.name;
            say::sentence(&format!(
                "lock {name:?}: redleash was killed, so the command was ended; the lock becomes free when its \
                 lease and the lock-delay have ended"
            ));
        }
        Ok(())
    }
}
