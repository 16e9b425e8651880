//! The supervisor, as `run` sees it.

use crate::args::OnLost;
use crate::clock::Moment;
use crate::ending::Times;
use crate::link::{self, Order, Report};
use crate::supervisor;
use redleash::crossbeam_channel::{Receiver, unbounded};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::Pid;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// This program, also after an upgrade has replaced its file.
pub(crate) fn myself() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// The orders' end of the link; several threads give orders.
pub(crate) struct Orders(Mutex<UnixStream>);

impl Orders {
    /// A supervisor that is gone shows in its reports.
    pub(crate) fn send(&self, order: &Order) {
        let mut link = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = link.write_all(order.line().as_bytes());
    }
}

/// What the supervisor is to do.
pub(crate) struct Job<'a> {
    pub(crate) name: &'a str,
    pub(crate) fence: u64,
    pub(crate) on_lost: OnLost,
    pub(crate) times: Times,
    pub(crate) foreground: bool,
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
}

impl Supervised {
    /// Starts the supervisor, which starts the command.
    pub(crate) fn start(job: &Job<'_>, until: Moment) -> io::Result<Supervised> {
        // In case that the supervisor is killed.
        adopt_orphans();
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(myself()?);
        command
            .arg0("redleash")
            .args([supervisor::STAGE, job.name, on_lost(job.on_lost)])
            .args([job.times.kill_after.as_nanos().to_string(), job.times.margin.as_nanos().to_string()])
            .arg(if job.foreground { "foreground" } else { "background" })
            .args(job.command)
            .env("REDLEASH_NAME", job.name)
            .env("REDLEASH_FENCE", job.fence.to_string())
            .env_remove("REDLEASH_NODES")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            // Signals of the terminal and of `kill -- -GROUP` are for redleash, which hands them on.
            .process_group(0);
        if let Some(nodes) = &job.nodes {
            command.env("REDLEASH_NODES", nodes);
        }
        let process = command.spawn()?;
        link::send_first(&ours, &Order::Until(until), io::stdin().as_fd())?;
        let_go_of_output();
        let_go_of_input();
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
        Ok(Supervised { process, orders: Arc::new(Orders(Mutex::new(ours))), reports })
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Ends a supervisor that does not do its work: stopped, for example.
    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
    }

    /// Waits until its process is gone.
    pub(crate) fn wait(&mut self) {
        let _ = self.process.wait();
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
