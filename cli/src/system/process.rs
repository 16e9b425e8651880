//! One process, as /proc shows it.

use nix::unistd::{getpgid, getsid};
use rustix::process::{Pid, Signal, getpid, kill_process};
use std::{fs, io};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    /// When it was started, in ticks of the kernel since boot. It distinguishes this process from a later one with the
    /// same pid.
    pub(super) started: u64,
    /// Whether it runs; false for one that has ended and was not collected yet.
    pub(super) alive: bool,
    pub(crate) name: String,
}

impl Process {
    pub(super) fn read(pid: &str) -> io::Result<Process> {
        let stat = fs::read(format!("/proc/{pid}/stat"))?;
        Process::parse(&String::from_utf8_lossy(&stat)).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// From /proc/PID/stat. The name can hold anything, parentheses too.
    fn parse(stat: &str) -> Option<Process> {
        let (pid, rest) = stat.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |i: usize| fields.get(i)?.parse::<i32>().ok();
        // If the first thread has ended before the others, the state is that of a dead process.
        let threads = number(17)?;
        let dead = matches!(*fields.first()?, "Z" | "X");
        Some(Process {
            pid: pid.parse().ok()?,
            parent: number(1)?,
            group: number(2)?,
            session: number(3)?,
            started: fields.get(19)?.parse().ok()?,
            alive: !dead || threads > 1,
            name: name.into(),
        })
    }

    /// A child that /proc does not show. It counts as alive: one that has ended is collected before the next look.
    fn hidden(pid: i32) -> Option<Process> {
        // Not by rustix: its types have no zero, which stands for a group or a session of an outer pid namespace.
        let number = Some(nix::unistd::Pid::from_raw(pid));
        let group = getpgid(number).ok()?.as_raw();
        let session = getsid(number).ok()?.as_raw();
        let parent = getpid().as_raw_nonzero().get();
        Some(Process { pid, parent, group, session, started: 0, alive: true, name: "hidden".into() })
    }

    pub(super) fn identity(&self) -> (i32, u64) {
        (self.pid, self.started)
    }

    pub(super) fn signal(&self, signal: Signal) {
        let _ = Pid::from_raw(self.pid).map(|pid| kill_process(pid, signal));
    }
}

/// The children of this process, including those that /proc hides (hidepid=, ProtectProc=): programs that run as
/// another user, or that the user must not read. Each process below the command becomes one of them when its parents
/// have ended, at the latest. `None` where the kernel does not list children.
pub(super) fn own_children() -> Option<Vec<Process>> {
    let own = std::process::id();
    let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).ok()?;
    let read = |pid: &str| Process::read(pid).ok().or_else(|| Process::hidden(pid.parse().ok()?));
    Some(children.split_whitespace().filter_map(read).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::Process;

    pub(crate) fn process(pid: i32, parent: i32, group: i32, session: i32) -> Process {
        Process { pid, parent, group, session, started: 1175, alive: true, name: format!("p{pid}") }
    }

    #[test]
    fn what_the_kernel_prints_is_read() {
        let stat = |name: &str, state: &str, threads: &str| {
            format!("17 ({name}) {state} 4 17 3 0 -1 4194560 89 0 0 0 0 0 0 0 20 0 {threads} 0 1175 2605056 432")
        };
        let parsed = Process::parse(&stat("a) S 1 (b", "S", "1")).unwrap();
        assert_eq!(parsed, Process { name: "a) S 1 (b".into(), ..process(17, 4, 17, 3) });
        assert!(!Process::parse(&stat("sh", "Z", "1")).unwrap().alive);
        assert!(Process::parse(&stat("sh", "Z", "2")).unwrap().alive, "its first thread has ended, another runs");
        assert!(Process::parse("17 (sh").is_none() && Process::parse("17 (sh) S 4").is_none());
    }
}
