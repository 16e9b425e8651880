//! While the command runs: signals go to it, losses end it, the terminal goes around.

use crate::args::OnLost;
use crate::clock::Moment;
use crate::ending::Times;
use crate::feeder;
use crate::holder;
use crate::link::{Ended, Order, Report};
use crate::run::how;
use crate::say;
use crate::supervised::Supervised;
use crate::supervisor::daemons_sentence;
use crate::terminal::Terminal;
use crate::tree::Tree;
use redleash::crossbeam_channel::{Receiver, RecvTimeoutError, never, select, tick};
use redleash::{Client, LeaseState, LockGuard};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_current_process_group, kill_process_group, test_kill_process_group, wait,
};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGKILL, SIGTTIN, SIGTTOU};
use std::time::Duration;

/// How long a signal that continues us may take to be heard of.
const CONTINUED: Duration = Duration::from_millis(200);
/// How long killed processes may take to be gone.
const GONE: Duration = Duration::from_secs(2);
/// How many looks in a row may find somebody to kill.
const SWEEP: usize = 5;

/// What became of the command.
pub(crate) enum Outcome {
    Ended(Ended),
    /// The lock was lost; one sentence.
    Lost(String),
    NotStarted(String),
}

/// See the module.
pub(crate) struct Watch<'a> {
    pub(crate) client: &'a Client,
    pub(crate) guard: &'a LockGuard,
    pub(crate) signals: &'a Receiver<i32>,
    pub(crate) terminal: Option<&'a Terminal>,
    pub(crate) on_lost: OnLost,
    pub(crate) times: Times,
    pub(crate) max_hold: bool,
    pub(crate) verbose: bool,
}

/// The one sentence about a lost lock.
pub(crate) fn lost_sentence(name: &str, why: &str, ended: Ended) -> String {
    let how = how(ended);
    format!("lock {name:?} is lost: {why}; the command ended {how}: look at what it left half done, then run it again")
}

fn remains(name: &str) {
    say::sentence(&format!(
        "lock {name:?}: not even SIGKILL ended all processes of the command; look for one that hangs in the kernel \
         or runs as another user"
    ));
}

/// What is known of the command so far.
struct Seen {
    /// The command and all that it started, below the supervisor, or below us when that has ended.
    tree: Tree,
    /// The end of the lease, also after the lock was lost: nobody else is granted before if it was taken by force.
    until: Moment,
    /// The command was started.
    started: bool,
    /// Its group, by the number that it has here.
    group: Option<Pid>,
    ended: Option<Ended>,
    not_started: Option<String>,
    /// Why the lock is lost or about to be.
    lost: Option<String>,
    /// We had to do the supervisor's work.
    helped: bool,
}

impl Seen {
    fn new(until: Moment, supervised: &Supervised) -> Seen {
        let tree = Tree::below(&[getpid(), supervised.pid()]).without(&supervised.strangers);
        Seen { tree, until, started: false, group: None, ended: None, not_started: None, lost: None, helped: false }
    }
}

impl Watch<'_> {
    /// `until` is the end of the lease when the command was started.
    pub(crate) fn run(&self, supervised: &mut Supervised, until: Moment) -> Outcome {
        let mut seen = Seen::new(until, supervised);
        let name = self.guard.name();
        let mut lost = self.guard.lost().clone();
        let look = tick(self.times.margin / 4);
        loop {
            select! {
                recv(supervised.reports) -> report => match report {
                    Ok(report) => self.hear(supervised, report, &mut seen),
                    Err(_) => break,
                },
                recv(self.signals) -> signal => {
                    if let Ok(signal) = signal {
                        supervised.orders.send(&Order::Signal(signal));
                    }
                }
                recv(lost) -> news => {
                    if let Ok(news) = news {
                        supervised.orders.send(&Order::Lost);
                        self.lose(&news.reason.to_string(), &mut seen);
                    }
                    lost = never();
                }
                recv(look) -> _ => self.look_after(supervised, &mut seen),
            }
        }
        if seen.ended.is_none() && seen.not_started.is_none() {
            self.without_supervisor(&mut seen);
        }
        if !supervised.wait(GONE) {
            remains(name);
        }
        if let (Some(terminal), Some(group)) = (self.terminal, seen.group) {
            terminal.take_back(group);
            if matches!(seen.ended, Some(Ended::Signal(_))) {
                terminal.restore_modes();
            }
        }
        match (seen.not_started, seen.lost, seen.ended) {
            (Some(why), _, _) => Outcome::NotStarted(why),
            (None, Some(why), ended) => {
                Outcome::Lost(lost_sentence(name, &why, ended.unwrap_or(Ended::Signal(SIGKILL))))
            }
            (None, None, Some(ended)) => Outcome::Ended(ended),
            (None, None, None) => Outcome::NotStarted(format!("the supervisor of {name:?} ended")),
        }
    }

    fn hear(&self, supervised: &Supervised, report: Report, seen: &mut Seen) {
        let name = self.guard.name();
        match report {
            Report::Started(pid) => (seen.started, seen.group) = (true, supervised.command(pid)),
            Report::Failed(why) => seen.not_started = Some(why),
            Report::Stopped(signal) => self.stopped(supervised, signal, seen),
            Report::Ending => self.end_is_near(seen),
            Report::Left(names) => {
                let daemons = if supervised.contains() {
                    "--contain lets no daemon run on"
                } else {
                    "a daemon leaves with a double fork and setsid"
                };
                say::sentence(&format!(
                    "lock {name:?}: the command ended and left processes behind: {names}; they are ended before the lock \
                     is released ({daemons})"
                ));
            }
            Report::Daemons(names) => say::sentence(&daemons_sentence(name, &names)),
            Report::Remains => remains(name),
            Report::Ended(ended) => seen.ended = Some(ended),
        }
    }

    /// The supervisor ends the command, because the lease was not renewed.
    fn end_is_near(&self, seen: &mut Seen) {
        let why = match self.guard.state() {
            LeaseState::Held if self.max_hold => "the longest permitted hold (--max-hold) is over".to_string(),
            LeaseState::Lost(reason) => reason.to_string(),
            _ => "the lease ends soon, and no renewal reached a quorum".to_string(),
        };
        self.lose(&why, seen);
    }

    /// Keeps the first reason, with what the masters say at that moment.
    fn lose(&self, why: &str, seen: &mut Seen) {
        if seen.lost.is_some() {
            return;
        }
        let masters = match self.client.status(self.guard.name()) {
            Ok(status) => holder::all_masters(&status),
            Err(error) => error.to_string(),
        };
        let (name, why) = (self.guard.name(), format!("{why} ({masters})"));
        if self.on_lost == OnLost::Warn {
            say::sentence(&format!("lock {name:?} is lost: {why}; the command goes on without it (--on-lost warn)"));
        } else if self.verbose {
            say::sentence(&format!("lock {name:?} is lost: {why}; the command is being ended"));
        }
        seen.lost = Some(why);
    }

    /// A supervisor that is stopped does not end the command: then we do, later than it would and before the lease ends.
    fn look_after(&self, supervised: &mut Supervised, seen: &mut Seen) {
        seen.until = feeder::until(self.guard).unwrap_or(seen.until);
        let late = Moment::now() >= seen.until.minus(self.times.margin / 2);
        if !late || self.on_lost != OnLost::Kill || !seen.started || seen.ended.is_some() || seen.helped {
            return;
        }
        seen.helped = true;
        if !supervised.contains() {
            // The supervisor is stopped, so the command is not collected, and the group's number is its own.
            seen.group.map(|group| kill_process_group(group, Signal::KILL));
            let _ = seen.tree.kill(SWEEP, || ());
        }
        // The command is dead, or dies with this.
        supervised.kill();
    }

    /// The supervisor was killed: the command with it, the others by us.
    fn without_supervisor(&self, seen: &mut Seen) {
        if !seen.started {
            return;
        }
        seen.group.map(|group| kill_process_group(group, Signal::KILL));
        let is_group_gone = |group: Pid| test_kill_process_group(group) == Err(Errno::SRCH);
        let start = Moment::now();
        loop {
            // They are our children now, or somebody else's who collects them.
            let collect = || while matches!(wait(WaitOptions::NOHANG), Ok(Some(_)) | Err(Errno::INTR)) {};
            let gone = seen.tree.kill(SWEEP, collect);
            let gone = gone.unwrap_or_else(|_| seen.group.is_none_or(is_group_gone));
            if gone {
                break;
            }
            if Moment::now().since(start) >= GONE {
                remains(self.guard.name());
                break;
            }
            let _ = never::<()>().recv_timeout(Duration::from_millis(5));
        }
        seen.ended = Some(Ended::Signal(SIGKILL));
        if !seen.helped {
            let name = self.guard.name();
            say::sentence(&format!("lock {name:?}: the supervisor was killed, so the command was ended"));
        }
    }

    /// The command was stopped. By the terminal: then we are stopped too, as one job, and the shell has its prompt; nobody
    /// renews the lock meanwhile, so the supervisor ends the command if it is not continued in time. By somebody else: it
    /// stands still and keeps the lock.
    fn stopped(&self, supervised: &Supervised, signal: i32, seen: &Seen) {
        let (Some(terminal), Some(group)) = (self.terminal, seen.group) else { return };
        let wants = signal == SIGTTIN || signal == SIGTTOU;
        if wants && terminal.is_ours() {
            terminal.give(group);
            return supervised.orders.send(&Order::Signal(SIGCONT));
        }
        if !wants && !terminal.has(group) {
            return;
        }
        terminal.take_back(group);
        if terminal.is_ours() {
            let (name, left) = (self.guard.name(), self.guard.remaining().as_secs());
            say::sentence(&format!(
                "lock {name:?} is not renewed while suspended: it ends in {left} s, and the command before"
            ));
        }
        // SIGTTOU is blocked here, and stops nobody.
        let _ = kill_current_process_group(if signal == SIGTTIN { Signal::TTIN } else { Signal::TSTP });
        // Stopped and continued; or never stopped, because nobody is there to continue us.
        let continued = self.is_continued(supervised);
        if terminal.is_ours() {
            terminal.give(group);
        } else if wants && !continued {
            // As the kernel does with a group that nobody can continue.
            supervised.orders.send(&Order::Signal(SIGHUP));
        }
        supervised.orders.send(&Order::Signal(SIGCONT));
    }

    /// Whether we were just continued; hands on what else comes.
    fn is_continued(&self, supervised: &Supervised) -> bool {
        let end = Moment::now().plus(CONTINUED);
        loop {
            match self.signals.recv_timeout(end.since(Moment::now())) {
                Ok(SIGCONT) => return true,
                Ok(signal) => supervised.orders.send(&Order::Signal(signal)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return false,
            }
        }
    }
}
