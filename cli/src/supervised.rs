//! The supervisor, as `run` sees it.

use crate::args::OnLost;
use crate::clock::Moment;
use crate::contain;
use crate::ending::Times;
use crate::link::{self, Order, Report};
use crate::nodes::NAME_VARIABLE;
use crate::supervisor;
use crate::tree::{Process, Tree};
use redleash::crossbeam_channel::{Receiver, never, unbounded};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{Pid, getpid};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// This program, also after an upgrade has replaced its file.
pub(crate) fn myself() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// The orders' end of the link; several threads give orders.
pub(crate) struct Orders {
    link: Mutex<UnixStream>,
    /// Knows the end of the lease as well.
    warden: Option<UnixStream>,
}

impl Orders {
    /// A supervisor that is gone shows in its reports.
    pub(crate) fn send(&self, order: &Order) {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = link.write_all(order.line().as_bytes());
        if let (Some(mut warden), Order::Until(_)) = (self.warden.as_ref(), order) {
            // Not blocking. One that does not read for hundreds of renewals is stopped, and its timer ends it.
            let _ = warden.write_all(order.line().as_bytes());
        }
    }
}

/// What the supervisor is to do.
pub(crate) struct Job<'a> {
    pub(crate) name: &'a str,
    pub(crate) fence: u64,
    pub(crate) on_lost: OnLost,
    pub(crate) times: Times,
    pub(crate) foreground: bool,
    /// In a pid namespace of its own.
    pub(crate) contain: bool,
    /// The masters for the command's environment.
    pub(crate) nodes: Option<String>,
    pub(crate) command: &'a [OsString],
}

/// See the module.
pub(crate) struct Supervised {
    process: Child,
    pub(crate) orders: Arc<Orders>,
    /// Disconnected when the supervisor is gone.
    pub(crate) reports: Receiver<Report>,
    /// Processes below this one that are not the command's: those that a shell started before it became redleash with `exec`.
    /// What such a process starts later, and leaves as an orphan, cannot be told from an orphan of the command.
    pub(crate) strangers: Vec<Process>,
}

/// A supervisor that only has to be started.
///
/// All that can fail comes before: when the supervisor has been started, the command may run, and the lock must not be released
/// beside it.
pub(crate) struct Prepared {
    command: Command,
    pub(crate) orders: Arc<Orders>,
    reports: Receiver<Report>,
    strangers: Vec<Process>,
}

impl Prepared {
    pub(crate) fn new(job: &Job<'_>, until: Moment) -> io::Result<Prepared> {
        // In case that the supervisor is killed.
        adopt_orphans();
        // Nothing is started yet, so all that is below this process is somebody else's.
        let strangers = Tree::contained(&[getpid()]).look().map_or_else(|_| Vec::new(), |found| found.bound);
        let (ours, theirs) = UnixStream::pair()?;
        let theirs = OwnedFd::from(theirs);
        let mut command = Command::new(myself()?);
        command.arg0("redleash");
        // One more stage, which starts the supervisor with its end of the link.
        let (stdin, warden) = if job.contain {
            let margin = job.times.margin.as_nanos().to_string();
            command.args([contain::STAGE, on_lost(job.on_lost), &margin]);
            let (orders, stdin) = UnixStream::pair()?;
            link::send_first(&orders, &Order::Until(until), theirs.as_fd())?;
            orders.set_nonblocking(true)?;
            drop(theirs);
            (OwnedFd::from(stdin), Some(orders))
        } else {
            command.arg(supervisor::STAGE);
            (theirs, None)
        };
        command
            .args([job.name, on_lost(job.on_lost)])
            .args([job.times.kill_after.as_nanos().to_string(), job.times.margin.as_nanos().to_string()])
            .arg(if job.foreground { "foreground" } else { "background" })
            .arg(if job.contain { supervisor::CONTAINED } else { supervisor::FREE })
            .args(job.command)
            .env(NAME_VARIABLE, job.name)
            .env("REDLEASH_FENCE", job.fence.to_string())
            .env_remove("REDLEASH_NODES")
            .stdin(Stdio::from(stdin))
            // Signals of the terminal and of `kill -- -GROUP` are for redleash, which hands them on.
            .process_group(0);
        if let Some(nodes) = &job.nodes {
            command.env("REDLEASH_NODES", nodes);
        }
        link::send_first(&ours, &Order::Until(until), io::stdin().as_fd())?;
        let (sender, reports) = unbounded();
        let lines = BufReader::new(ours.try_clone()?);
        let read = move || {
            for line in lines.lines().map_while(Result::ok) {
                if let Some(report) = Report::parse(&line)
                    && sender.send(report).is_err()
                {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("redleash-reports".into()).spawn(read)?;
        let orders = Arc::new(Orders { link: Mutex::new(ours), warden });
        Ok(Prepared { command, orders, reports, strangers })
    }

    /// Starts the supervisor, which starts the command. After an error nothing was started.
    pub(crate) fn start(mut self) -> io::Result<Supervised> {
        let process = self.command.spawn()?;
        // It holds the other end of the link.
        drop(self.command);
        let_go_of_output();
        let_go_of_input();
        Ok(Supervised { process, orders: self.orders, reports: self.reports, strangers: self.strangers })
    }
}

impl Supervised {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Ends a supervisor that does not do its work: stopped, for example.
    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
    }

    /// Whether the command is in a pid namespace of its own.
    pub(crate) fn contains(&self) -> bool {
        self.orders.warden.is_some()
    }

    /// The number, outside, of the command that has this one where the supervisor is.
    pub(crate) fn command(&self, pid: i32) -> Option<Pid> {
        if self.contains() { contain::pid_outside(self.pid(), pid) } else { Pid::from_raw(pid) }
    }

    /// Waits until its process is gone; false if that takes longer than `limit`. A namespace is gone when all its processes
    /// are, and one that hangs in the kernel would be waited for in vain.
    pub(crate) fn wait(&mut self, limit: Duration) -> bool {
        if !self.contains() {
            // Already collected by a wait for any child, or by the kernel where SIGCHLD is ignored.
            let is_gone = |e: &io::Error| e.raw_os_error() == Some(Errno::CHILD.raw_os_error());
            return self.process.wait().map_or_else(|e| is_gone(&e), |_| true);
        }
        let end = Moment::now().plus(limit);
        while matches!(self.process.try_wait(), Ok(None)) {
            if Moment::now() >= end {
                return false;
            }
            let _ = never::<()>().recv_timeout(Duration::from_millis(1));
        }
        true
    }
}

fn on_lost(on_lost: OnLost) -> &'static str {
    match on_lost {
        OnLost::Kill => "kill",
        OnLost::Term => "term",
        OnLost::Warn => "warn",
    }
}

/// Processes whose parent ended become the calling process's: so they stay below it, and are collected where nobody else
/// does, in a container without an init.
///
/// False if the system has no such thing.
pub(crate) fn adopt_orphans() -> bool {
    #[cfg(target_os = "linux")]
    let adopted = rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_ok();
    #[cfg(not(target_os = "linux"))]
    let adopted = false;
    adopted
}

/// From here on the standard output is the command's alone: a reader sees its end when the command closes it.
pub(crate) fn let_go_of_output() {
    if let Ok(null) = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}

/// The same for the standard input: a writer sees that the command has closed it.
fn let_go_of_input() {
    if let Ok(null) = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        let _ = rustix::stdio::dup2_stdin(&null);
    }
}
