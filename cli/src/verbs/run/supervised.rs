//! The supervisor, as `run` sees it: prepared, started, given orders, and waited for.

use crate::args::NODES_VARIABLE;
use crate::link::{self, Order, Report};
use crate::masters::NAME_VARIABLE;
use crate::stages::stage::Stage;
use crate::stages::task::{Task, on_lost_word};
use crate::system::clock::Moment;
use crate::system::process::Process;
use crate::system::tree::Tree;
use crate::system::{children, namespace, stdio};
use parking_lot::Mutex;
use redleash::crossbeam_channel::{Receiver, never, unbounded};
use rustix::io::Errno;
use rustix::process::{Pid, getpid};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// The end of the link at which orders are given. Several threads give them.
pub(crate) struct Orders {
    link: Mutex<UnixStream>,
    /// The warden of `--contain`, which needs to know the end of the lease as well.
    warden: Option<UnixStream>,
}

impl Orders {
    /// Sends an order. If the supervisor has ended, the end of its reports says so.
    pub(crate) fn send(&self, order: &Order) {
        let mut link = self.link.lock();
        let _ = link.write_all(order.line().as_bytes());
        if let (Some(mut warden), Order::Until(_)) = (self.warden.as_ref(), order) {
            // Not blocking. A warden that does not read for hundreds of renewals is stopped, and its timer ends it.
            let _ = warden.write_all(order.line().as_bytes());
        }
    }
}

/// What is started: the task of the supervisor, and what the command's environment holds.
pub(crate) struct Job<'a> {
    pub(crate) task: Task<'a>,
    /// The fencing token.
    pub(crate) fence: u64,
    /// The masters, if the command is to know them.
    pub(crate) urls: Option<String>,
}

/// See the module.
pub(crate) struct Supervised {
    process: Child,
    pub(crate) orders: Arc<Orders>,
    /// Disconnected when the supervisor has ended.
    pub(crate) reports: Receiver<Report>,
    /// Processes below this one that are not the command's: a shell started them before it became redleash with `exec`.
    /// What such a process starts later, and leaves as an orphan, cannot be distinguished from an orphan of the
    /// command.
    pub(crate) strangers: Vec<Process>,
}

/// A supervisor that only has to be started.
///
/// All that can fail comes before that. Once the supervisor has been started, the command may run, and the lock must
/// not be released beside it.
pub(crate) struct Prepared {
    command: Command,
    pub(crate) orders: Arc<Orders>,
    reports: Receiver<Report>,
    strangers: Vec<Process>,
}

impl Prepared {
    /// `until` is the end of the lease.
    pub(crate) fn new(job: &Job<'_>, until: Moment) -> io::Result<Prepared> {
        // In case the supervisor is killed.
        children::adopt_orphans();
        // Nothing is started yet, so no process below this one belongs to the command.
        let strangers = Tree::contained(&[getpid()]).look().map_or_else(|_| Vec::new(), |found| found.bound);
        let (ours, theirs) = UnixStream::pair()?;
        let theirs = OwnedFd::from(theirs);
        let (mut command, stdin, warden) = if job.task.contained {
            // One more stage, which starts the supervisor with its end of the link.
            let mut command = Stage::Warden.command()?;
            command.args([on_lost_word(job.task.on_lost), &job.task.times.margin.as_nanos().to_string()]);
            let (orders, stdin) = UnixStream::pair()?;
            link::send_first(&orders, &Order::Until(until), theirs.as_fd())?;
            orders.set_nonblocking(true)?;
            drop(theirs);
            (command, OwnedFd::from(stdin), Some(orders))
        } else {
            (Stage::Supervisor.command()?, theirs, None)
        };
        command
            .args(job.task.to_args())
            .env(NAME_VARIABLE, job.task.name)
            .env("REDLEASH_FENCE", job.fence.to_string())
            .env_remove(NODES_VARIABLE)
            .stdin(Stdio::from(stdin))
            // Signals of the terminal and of `kill -- -GROUP` are for redleash, which forwards them.
            .process_group(0);
        if let Some(urls) = &job.urls {
            command.env(NODES_VARIABLE, urls);
        }
        link::send_first(&ours, &Order::Until(until), io::stdin().as_fd())?;
        let reports = read_reports(ours.try_clone()?)?;
        let orders = Arc::new(Orders { link: Mutex::new(ours), warden });
        Ok(Prepared { command, orders, reports, strangers })
    }

    /// Starts the supervisor, which starts the command. After an error nothing was started.
    pub(crate) fn start(mut self) -> io::Result<Supervised> {
        let process = self.command.spawn()?;
        // It holds the other end of the link.
        drop(self.command);
        stdio::let_go_of_output();
        stdio::let_go_of_input();
        Ok(Supervised { process, orders: self.orders, reports: self.reports, strangers: self.strangers })
    }
}

/// Starts the thread that reads the supervisor's reports.
fn read_reports(link: UnixStream) -> io::Result<Receiver<Report>> {
    let (sender, reports) = unbounded();
    let read = move || {
        for line in BufReader::new(link).lines().map_while(Result::ok) {
            if let Some(report) = Report::parse(&line)
                && sender.send(report).is_err()
            {
                return;
            }
        }
    };
    std::thread::Builder::new().name("redleash-reports".into()).spawn(read)?;
    Ok(reports)
}

impl Supervised {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Ends a supervisor that does not do its work, because it is stopped, for example.
    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
    }

    /// Whether the command is in a pid namespace of its own.
    pub(crate) fn contains(&self) -> bool {
        self.orders.warden.is_some()
    }

    /// The pid of the command here; `pid` is the one that the supervisor reported.
    pub(crate) fn command(&self, pid: i32) -> Option<Pid> {
        if self.contains() { namespace::pid_outside(self.pid(), pid) } else { Pid::from_raw(pid) }
    }

    /// Waits until the supervisor's process has ended; false if that takes longer than `timeout`. With `--contain` it
    /// ends when all processes of the namespace have, and one that hangs in the kernel would be waited for in vain.
    pub(crate) fn wait(&mut self, timeout: Duration) -> bool {
        if !self.contains() {
            // It may be collected already, by a wait for any child.
            let is_gone = |e: &io::Error| e.raw_os_error() == Some(Errno::CHILD.raw_os_error());
            return self.process.wait().map_or_else(|e| is_gone(&e), |_| true);
        }
        let end = Moment::now().plus(timeout);
        while matches!(self.process.try_wait(), Ok(None)) {
            if Moment::now() >= end {
                return false;
            }
            let _ = never::<()>().recv_timeout(Duration::from_millis(1));
        }
        true
    }
}
