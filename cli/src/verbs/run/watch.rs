//! While the command runs: signals are forwarded to it, a loss ends it, and the terminal's foreground goes to it and
//! back.

use super::feeder;
use super::supervised::Supervised;
use crate::args::OnLost;
use crate::ending::Times;
use crate::link::{Ended, Order, Report};
use crate::system::clock::Moment;
use crate::system::terminal::Terminal;
use crate::system::tree::Tree;
use crate::text::duration::rough;
use crate::text::{holder, messages, say};
use redleash::crossbeam_channel::{Receiver, RecvTimeoutError, never, select, tick};
use redleash::{Client, LeaseState, LockGuard};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_current_process_group, kill_process_group, test_kill_process_group, wait,
};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGKILL, SIGTTIN, SIGTTOU};
use std::time::Duration;

/// How long to wait for the signal that continues this process.
const CONTINUE_TIMEOUT: Duration = Duration::from_millis(200);
/// How long killed processes may take to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
/// How many looks in a row may find something to kill.
const SWEEP: usize = 5;

/// What became of the command.
pub(crate) enum Outcome {
    Ended(Ended),
    /// The lock was lost; what to say about it.
    Lost(String),
    /// Why it could not be started.
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

/// What is known of the command so far.
struct Seen {
    /// The command and all that it started: below the supervisor, or below this process when the supervisor has ended.
    tree: Tree,
    /// The end of the lease, also after the lock was taken by force: nobody else is granted the lock before.
    until: Moment,
    /// The command was started.
    started: bool,
    /// Its group, by its number here.
    group: Option<Pid>,
    ended: Option<Ended>,
    not_started: Option<String>,
    /// Why the lock is lost or about to be lost.
    lost: Option<String>,
    /// Whether this process had to do the supervisor's work.
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
                recv(lost) -> loss => {
                    if let Ok(loss) = loss {
                        supervised.orders.send(&Order::Lost);
                        self.lose(&loss.reason.to_string(), &mut seen);
                    }
                    lost = never();
                }
                recv(look) -> _ => self.look_after(supervised, &mut seen),
            }
        }
        if seen.ended.is_none() && seen.not_started.is_none() {
            self.without_supervisor(&mut seen);
        }
        if !supervised.wait(KILL_TIMEOUT) {
            say::sentence(&messages::unkillable(name));
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
                Outcome::Lost(messages::lost(name, &why, ended.unwrap_or(Ended::Signal(SIGKILL))))
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
                    "with --contain daemons too"
                } else {
                    "only a daemon may run on: a process that forked twice and called setsid"
                };
                say::sentence(&format!(
                    "lock {name:?}: the command ended and left processes behind: {names}; they are ended before the \
                     lock is released ({daemons})"
                ));
            }
            Report::Daemons(names) => say::sentence(&messages::daemons(name, &names)),
            Report::Remains => say::sentence(&messages::unkillable(name)),
            Report::Ended(ended) => seen.ended = Some(ended),
        }
    }

    /// The supervisor has begun to end the command, because the lease was not renewed.
    fn end_is_near(&self, seen: &mut Seen) {
        let why = match self.guard.state() {
            LeaseState::Held if self.max_hold => "the longest permitted hold (--max-hold) is over".to_string(),
            LeaseState::Lost(reason) => reason.to_string(),
            _ => "the lease ends soon, and no renewal reached a quorum".to_string(),
        };
        self.lose(&why, seen);
    }

    /// Keeps the first reason, together with what the masters say at that moment.
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

    /// Ends the command in place of a supervisor that does not, because it is stopped: later than the supervisor would,
    /// and before the lease ends.
    fn look_after(&self, supervised: &mut Supervised, seen: &mut Seen) {
        seen.until = feeder::until(self.guard).unwrap_or(seen.until);
        let late = Moment::now() >= seen.until.minus(self.times.margin / 2);
        if !late || self.on_lost != OnLost::Kill || !seen.started || seen.ended.is_some() || seen.helped {
            return;
        }
        seen.helped = true;
        if !supervised.contains() {
            // The supervisor is stopped, so it has not collected the command, and the group's number is still the
            // command's.
            seen.group.map(|group| kill_process_group(group, Signal::KILL));
            let _ = seen.tree.kill(SWEEP, || ());
        }
        // The command is dead by now, or ends with the namespace.
        supervised.kill();
    }

    /// The supervisor was killed, and the command died with it. This process ends the others.
    fn without_supervisor(&self, seen: &mut Seen) {
        if !seen.started {
            return;
        }
        seen.group.map(|group| kill_process_group(group, Signal::KILL));
        let is_group_gone = |group: Pid| test_kill_process_group(group) == Err(Errno::SRCH);
        let start = Moment::now();
        loop {
            // They are children of this process now, or of another one that collects them.
            let collect = || while matches!(wait(WaitOptions::NOHANG), Ok(Some(_)) | Err(Errno::INTR)) {};
            let gone = seen.tree.kill(SWEEP, collect);
            let gone = gone.unwrap_or_else(|_| seen.group.is_none_or(is_group_gone));
            if gone {
                break;
            }
            if Moment::now().since(start) >= KILL_TIMEOUT {
                say::sentence(&messages::unkillable(self.guard.name()));
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

    /// The command was stopped. If the terminal did it, this process stops as well: both are one job, and the shell
    /// shows its prompt. Nobody renews the lock meanwhile, so the supervisor ends the command unless it is continued in
    /// time. If something else did it, the command stands still and keeps the lock.
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
            let (name, left) = (self.guard.name(), rough(self.guard.remaining()));
            say::sentence(&format!(
                "lock {name:?} is not renewed while suspended: it ends in {left}, and the command is ended before that"
            ));
        }
        // SIGTTOU is blocked here, so it would not stop this process.
        let _ = kill_current_process_group(if signal == SIGTTIN { Signal::TTIN } else { Signal::TSTP });
        // Either stopped and continued, or never stopped, because nobody is there who could continue this process.
        let continued = self.is_continued(supervised);
        if terminal.is_ours() {
            terminal.give(group);
        } else if wants && !continued {
            // The kernel does the same with a group that nobody can continue.
            supervised.orders.send(&Order::Signal(SIGHUP));
        }
        supervised.orders.send(&Order::Signal(SIGCONT));
    }

    /// Whether this process was just continued. Other signals are forwarded.
    fn is_continued(&self, supervised: &Supervised) -> bool {
        let end = Moment::now().plus(CONTINUE_TIMEOUT);
        loop {
            match self.signals.recv_timeout(end.since(Moment::now())) {
                Ok(SIGCONT) => return true,
                Ok(signal) => supervised.orders.send(&Order::Signal(signal)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return false,
            }
        }
    }
}
