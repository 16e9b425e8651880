//! Other processes: the test binary itself, run again for one test, and forks.
//!
//! A test that needs another process begins with [`entry`], which runs a function in the child and does nothing in the
//! parent; [`Child::start`] starts the child. A test that must have its process for itself (it sets a logger, forks,
//! counts threads or memory) begins with [`ran_alone`].
//!
//! Parent and child speak in lines: the child's on stderr, marked, because the test harness writes to stdout; the
//! parent's on the child's stdin.

use super::{DEADLINE, eventually, ms, secs};
use fork::{Fork, fork};
use redleash_testkit::wait_until;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, waitid, waitpid};
use std::any::type_name_of_val;
use std::io::{self, BufRead, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const MARK: &str = "@@";
/// What an `entry` is called in which a test has the process for itself.
const ALONE: &str = "alone";
const ENTRY: &str = "REDLEASH_TEST_ENTRY";
const URLS: &str = "REDLEASH_TEST_URLS";
const ARG: &str = "REDLEASH_TEST_ARG";

/// How long a test with a process of its own may take. Its waits have deadlines; this is for hangs that they miss.
const LONGEST_TEST: Duration = secs(300);

/// What a child was started with.
pub struct Task {
    /// The URLs of the masters.
    pub urls: Vec<String>,
    pub arg: String,
}

/// In a child that was started for `body`: runs it, and ends the process. Anywhere else it does nothing. It must be the
/// first line of the test, because the child begins where the test begins.
pub fn entry<F: FnOnce(Task)>(body: F) {
    if std::env::var(ENTRY).is_ok_and(|entry| entry == type_name_of_val(&body)) {
        let urls = std::env::var(URLS).unwrap().split_whitespace().map(String::from).collect();
        body(Task { urls, arg: std::env::var(ARG).unwrap() });
        std::process::exit(0);
    }
}

/// Runs this test again in a process in which nothing else runs. `true` in the parent, when it has passed there: the
/// test returns. `false` in that process. It must be the first line of the test, but for an [`entry`].
#[track_caller]
pub fn ran_alone() -> bool {
    if std::env::var(ENTRY).is_ok_and(|entry| entry == ALONE) {
        return false;
    }
    let ended = Child::spawn(ALONE, &[], "").end(LONGEST_TEST);
    assert!(ended.success(), "in a process of its own: {ended}");
    true
}

/// In the child: a line for the parent.
pub fn say(line: &str) {
    let mut err = io::stderr().lock();
    writeln!(err, "{MARK}{line}").unwrap();
}

/// In the child: waits for a line from the parent; empty when the parent has ended.
pub fn hear() -> String {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).unwrap();
    line.trim_end().to_string()
}

/// A child, seen from its parent. Dropping it kills it.
pub struct Child {
    process: std::process::Child,
    lines: Receiver<String>,
    reader: Option<JoinHandle<()>>,
}

impl Child {
    /// Starts this test again in another process, where its `entry(body)` is taken. To be called on the test's own
    /// thread.
    pub fn start<F: FnOnce(Task)>(body: F, urls: &[String], arg: &str) -> Child {
        Child::spawn(type_name_of_val(&body), urls, arg)
    }

    fn spawn(entry: &str, urls: &[String], arg: &str) -> Child {
        let thread = thread::current();
        let test = thread.name().expect("the test harness names the thread of a test after the test");
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(ENTRY, entry)
            .env(URLS, urls.join(" "))
            .env(ARG, arg)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (tell, lines) = channel();
        let from = BufReader::new(process.stderr.take().unwrap());
        let reader = thread::spawn(move || {
            for line in from.lines().map_while(Result::ok) {
                if let Some(said) = line.strip_prefix(MARK) {
                    drop(tell.send(said.to_string()));
                } else if line.starts_with("SKIPPED") {
                    let _ = writeln!(io::stderr(), "{line}"); // past the capture of the harness
                } else {
                    eprintln!("child: {line}");
                }
            }
        });
        Child { process, lines, reader: Some(reader) }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// The next line, which must begin with `start`; what follows it.
    #[track_caller]
    pub fn expect(&self, start: &str) -> String {
        let line = self.lines.recv_timeout(DEADLINE).unwrap_or_else(|e| panic!("the child never said {start:?}: {e}"));
        let rest = line.strip_prefix(start).unwrap_or_else(|| panic!("expected {start:?}, the child said {line:?}"));
        rest.trim().to_string()
    }

    pub fn tell(&mut self, line: &str) {
        writeln!(self.process.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Stops it, and returns when it stands still: a stop that a busy machine has not carried out yet would be taken
    /// back by what lets it go on.
    #[track_caller]
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        self.stopped();
    }

    /// Waits until it stands still.
    #[track_caller]
    pub fn stopped(&self) {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        eventually("the child stands still", || waitid(WaitId::Pid(self.pid()), options).unwrap().is_some());
    }

    /// SIGKILL: no destructor runs, nothing is released.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits for its end, which must come within `limit`.
    #[track_caller]
    pub fn end(&mut self, limit: Duration) -> ExitStatus {
        let mut status = None;
        let ended = wait_until(limit, || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        assert!(ended, "the child did not end within {limit:?}");
        // What it wrote last is shown before this test fails.
        let reader = self.reader.take();
        wait_until(secs(1), || reader.as_ref().is_none_or(JoinHandle::is_finished));
        status.unwrap()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// After this time a forked child hangs: it does little.
const HUNG: Duration = DEADLINE;

/// Runs `child` in a fork and gives its answer: 0 for what was expected, -2 if it hung. The child must not print nor
/// fail an assertion, because another thread of the parent may have held any mutex at the fork.
pub fn in_fork(child: impl FnOnce() -> u8) -> i32 {
    match fork() {
        Ok(Fork::Child) => {
            let code = catch_unwind(AssertUnwindSafe(child)).unwrap_or(100);
            std::process::exit(i32::from(code));
        }
        Ok(Fork::Parent(pid)) => {
            let pid = Pid::from_raw(pid).unwrap();
            let start = Instant::now();
            loop {
                if let Some((_, status)) = waitpid(Some(pid), WaitOptions::NOHANG).unwrap() {
                    return status.exit_status().unwrap_or(-1);
                }
                if start.elapsed() > HUNG {
                    let _ = kill_process(pid, Signal::KILL);
                    let _ = waitpid(Some(pid), WaitOptions::empty());
                    return -2;
                }
                super::let_pass(ms(2)); // between two looks at whether it has ended
            }
        }
        Err(e) => panic!("fork: {e}"),
    }
}
