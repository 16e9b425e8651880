//! Other processes: the test binary itself, run again with one entry.
//!
//! An entry is an ignored test that returns at once unless it was started from here. Parent and child speak in lines:
//! the child's on stderr, marked, because the test harness writes to stdout; the parent's on the child's stdin.

use super::SOON;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

const MARK: &str = "@@";
const ENTRY: &str = "REDLEASH_TEST_ENTRY";
const NODES: &str = "REDLEASH_TEST_NODES";
const ARG: &str = "REDLEASH_TEST_ARG";

/// In the child: what it was started for; `None` if this is not a child.
pub struct Task {
    pub nodes: Vec<String>,
    pub arg: String,
}

pub fn task(entry: &str) -> Option<Task> {
    if std::env::var(ENTRY).ok()? != entry {
        return None;
    }
    let nodes = std::env::var(NODES).unwrap().split_whitespace().map(String::from).collect();
    Some(Task { nodes, arg: std::env::var(ARG).unwrap() })
}

/// In the child: tells the parent.
pub fn say(line: &str) {
    let mut err = std::io::stderr().lock();
    writeln!(err, "{MARK}{line}").unwrap();
}

/// In the child: waits for a line from the parent; empty when the parent is gone.
pub fn hear() -> String {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap();
    line.trim_end().to_string()
}

/// In the parent. Dropping it kills the child.
pub struct Child {
    process: std::process::Child,
    lines: Receiver<String>,
}

impl Child {
    pub fn start(entry: &str, nodes: &[String], arg: &str) -> Child {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", entry, "--ignored", "--nocapture", "--test-threads=1"])
            .env(ENTRY, entry)
            .env(NODES, nodes.join(" "))
            .env(ARG, arg)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (tell, lines) = channel();
        let from = BufReader::new(process.stderr.take().unwrap());
        thread::spawn(move || {
            for line in from.lines().map_while(Result::ok) {
                match line.strip_prefix(MARK) {
                    Some(said) => drop(tell.send(said.to_string())),
                    None => eprintln!("child: {line}"),
                }
            }
        });
        Child { process, lines }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The next line, which must begin with `start`; what follows it.
    #[track_caller]
    pub fn expect(&self, start: &str) -> String {
        let line = self.lines.recv_timeout(SOON).unwrap_or_else(|e| panic!("the child never said {start:?}: {e}"));
        let rest = line.strip_prefix(start).unwrap_or_else(|| panic!("expected {start:?}, the child said {line:?}"));
        rest.trim().to_string()
    }

    pub fn tell(&mut self, line: &str) {
        writeln!(self.process.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// SIGKILL: no destructor runs, nothing is released.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits for its end, which must come within `limit`.
    #[track_caller]
    pub fn end(&mut self, limit: std::time::Duration) -> ExitStatus {
        let mut status = None;
        let ended = super::servers::wait_until(limit, || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        assert!(ended, "the child did not end within {limit:?}");
        status.unwrap()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
