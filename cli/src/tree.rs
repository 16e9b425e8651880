//! The processes below the command, found in /proc. A process group is not enough: `timeout` makes one of its own.
//!
//! The supervisor is a subreaper, so each process that the command started, directly or not, is below the supervisor for as
//! long as it lives. One kind of them has **left**: it is in a session of its own, and its parent has ended, so that it is a
//! child of the subreaper. That is what a double fork with setsid(2) comes to, and nothing else does it by accident. It and
//! what is below it are not ended. Whoever has not left when the end begins does not leave any more.

use nix::unistd::{getpgid, getsid};
use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;

/// Messages name so many processes, and count the others.
const NAMED: usize = 5;
/// How often the children of this process are struck between two looks at all processes.
const STRIKES: usize = 1000;

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    /// When it was started, in ticks of the kernel since boot: tells it from a later process with the same pid.
    started: u64,
    /// Runs, and is not merely uncollected.
    alive: bool,
    name: String,
}

/// Those below the command at one moment.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// They end with the lock.
    pub(crate) bound: Vec<Process>,
    /// They have left: those among them that are children of the subreaper.
    pub(crate) left: Vec<Process>,
    /// The groups in which nobody else is.
    groups: HashSet<i32>,
    /// A child of the subreaper has ended and is not collected; what it started meanwhile may have been missed.
    uncollected: bool,
}

/// Where to look.
#[derive(Default)]
pub(crate) struct Tree {
    /// The processes whose descendants these are; none of them is found itself.
    roots: Vec<i32>,
    /// The sessions of those that had left when the end began.
    spared: Option<HashSet<i32>>,
    /// Processes that are not the command's, by pid and start.
    strangers: HashSet<(i32, u64)>,
}

impl Tree {
    pub(crate) fn below(roots: &[Pid]) -> Tree {
        Tree { roots: roots.iter().map(|pid| pid.as_raw_nonzero().get()).collect(), ..Tree::default() }
    }

    /// The same, without these processes and those below them.
    pub(crate) fn without(self, strangers: &[Process]) -> Tree {
        Tree { strangers: strangers.iter().map(Process::identity).collect(), ..self }
    }

    /// The same, and nobody leaves.
    pub(crate) fn contained(roots: &[Pid]) -> Tree {
        Tree { spared: Some(HashSet::new()), ..Tree::below(roots) }
    }

    /// Looks at all processes. An error where there is no /proc, as on other systems than Linux.
    pub(crate) fn look(&self) -> io::Result<Found> {
        let own = Process::read("self")?;
        let mut all = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            // One that has ended meanwhile is not there any more.
            all.extend(name.to_str().filter(|name| is_number(name)).and_then(|pid| Process::read(pid).ok()));
        }
        if self.roots.contains(&own.pid) {
            let seen: HashSet<i32> = all.iter().map(|process| process.pid).collect();
            all.extend(own_children().into_iter().flatten().filter(|child| !seen.contains(&child.pid)));
        }
        Ok(self.sort(own.session, all))
    }

    fn sort(&self, session: i32, all: Vec<Process>) -> Found {
        let mut children: HashMap<i32, Vec<usize>> = HashMap::new();
        for (i, process) in all.iter().enumerate() {
            children.entry(process.parent).or_default().push(i);
        }
        let mut found = Found::default();
        let mut parents = self.roots.clone();
        let mut bound = HashSet::new();
        while let Some(parent) = parents.pop() {
            for process in children.get(&parent).into_iter().flatten().map(|i| &all[*i]) {
                if self.roots.contains(&process.pid) || self.strangers.contains(&process.identity()) {
                    continue;
                }
                if self.roots.contains(&parent) && self.has_left(process, session) {
                    found.left.extend(process.alive.then(|| process.clone()));
                    continue;
                }
                parents.push(process.pid);
                found.uncollected |= !process.alive && self.roots.contains(&parent);
                if process.alive && bound.insert(process.pid) {
                    found.groups.insert(process.group);
                    found.bound.push(process.clone());
                }
            }
        }
        for process in all.iter().filter(|process| process.alive && !bound.contains(&process.pid)) {
            found.groups.remove(&process.group);
        }
        found
    }

    /// Of a child of a root.
    fn has_left(&self, process: &Process, session: i32) -> bool {
        match &self.spared {
            Some(spared) => spared.contains(&process.session),
            None => process.session != session,
        }
    }

    /// The end begins: from now on nobody leaves any more.
    pub(crate) fn close(&mut self, found: &Found) {
        self.spared.get_or_insert_with(|| found.left.iter().map(|process| process.session).collect());
    }

    /// Sends SIGKILL to all that have not left, and looks again until there is nobody more to kill, at most `limit` times. True
    /// if all of them are dead and collected, which `collect` does.
    pub(crate) fn kill(&mut self, limit: usize, mut collect: impl FnMut()) -> io::Result<bool> {
        for _ in 0..limit {
            collect();
            let found = self.look()?;
            self.close(&found);
            if found.bound.is_empty() {
                return Ok(found.is_empty());
            }
            found.signal(Signal::KILL);
            self.strike(&mut collect);
        }
        Ok(false)
    }

    /// Kills the children of this process, again and again, for those that fork and end faster than all processes can be
    /// looked at: whenever one has ended, its child is ours. Does nothing where the kernel does not list children.
    fn strike(&self, collect: &mut impl FnMut()) {
        for _ in 0..STRIKES {
            // The dead would make the list long.
            collect();
            let Some(children) = own_children() else { return };
            let mut nobody = true;
            for child in children {
                let spared = self.spared.as_ref().is_some_and(|spared| spared.contains(&child.session));
                let stranger = self.strangers.contains(&child.identity());
                if child.alive && !spared && !stranger && !self.roots.contains(&child.pid) {
                    nobody = false;
                    // With what it has just forked, if the group is its own.
                    match Pid::from_raw(child.group).filter(|_| child.group == child.pid) {
                        Some(group) => drop(kill_process_group(group, Signal::KILL)),
                        None => child.signal(Signal::KILL),
                    }
                }
            }
            if nobody {
                return;
            }
        }
    }
}

impl Found {
    /// Whether all have ended, but for those that have left. Sure, though processes come and go during a look: the topmost of
    /// those that go on is a child of the subreaper, which alone collects it, so it was there during the whole look.
    pub(crate) fn is_empty(&self) -> bool {
        self.bound.is_empty() && !self.uncollected
    }

    /// Signals those that have not left. A group gets it as one, because no fork escapes then. Numbers of processes are not
    /// used again as fast as this.
    pub(crate) fn signal(&self, signal: Signal) {
        for group in self.groups.iter().filter_map(|group| Pid::from_raw(*group)) {
            let _ = kill_process_group(group, signal);
        }
        for process in self.bound.iter().filter(|process| !self.groups.contains(&process.group)) {
            process.signal(signal);
        }
    }
}

/// `pid 17 (sleep), pid 18 (sh)`.
pub(crate) fn names(processes: &[Process]) -> String {
    let named = processes.iter().take(NAMED).map(|p| format!("pid {} ({})", p.pid, crate::say::shown(&p.name)));
    let more = processes.len().saturating_sub(NAMED);
    let more = (more > 0).then(|| format!("{more} more"));
    named.chain(more).collect::<Vec<_>>().join(", ")
}

impl Process {
    fn read(pid: &str) -> io::Result<Process> {
        let stat = fs::read(format!("/proc/{pid}/stat"))?;
        Process::parse(&String::from_utf8_lossy(&stat)).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// From /proc/PID/stat. The name can hold anything, parentheses too.
    fn parse(stat: &str) -> Option<Process> {
        let (pid, rest) = stat.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |i: usize| fields.get(i)?.parse::<i32>().ok();
        // The first thread may have ended before the others: then the state is that of a dead process.
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

    /// A child that /proc does not show. Whether it runs is not known: one that has ended is collected before the next look.
    fn hidden(pid: i32) -> Option<Process> {
        // Not those of rustix, which must not see the zero that stands for a group or session of an outer pid namespace.
        let number = Some(nix::unistd::Pid::from_raw(pid));
        let group = getpgid(number).ok()?.as_raw();
        let session = getsid(number).ok()?.as_raw();
        let parent = getpid().as_raw_nonzero().get();
        Some(Process { pid, parent, group, session, started: 0, alive: true, name: "hidden".into() })
    }

    fn identity(&self) -> (i32, u64) {
        (self.pid, self.started)
    }

    fn signal(&self, signal: Signal) {
        let _ = Pid::from_raw(self.pid).map(|pid| kill_process(pid, signal));
    }
}

/// The children of this process, also those that /proc hides (hidepid=, ProtectProc=): programs that run as another user, or
/// that the user must not read. Each process below the command becomes one of them at the latest when its parents have ended.
/// `None` where the kernel does not list children.
fn own_children() -> Option<Vec<Process>> {
    let own = std::process::id();
    let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).ok()?;
    let read = |pid: &str| Process::read(pid).ok().or_else(|| Process::hidden(pid.parse().ok()?));
    Some(children.split_whitespace().filter_map(read).collect())
}

fn is_number(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUPERVISOR: i32 = 10;

    fn process(pid: i32, parent: i32, group: i32, session: i32) -> Process {
        Process { pid, parent, group, session, started: 1175, alive: true, name: format!("p{pid}") }
    }

    fn pids(processes: &[Process]) -> Vec<i32> {
        let mut pids: Vec<i32> = processes.iter().map(|process| process.pid).collect();
        pids.sort_unstable();
        pids
    }

    fn tree() -> Tree {
        Tree::below(&[Pid::from_raw(SUPERVISOR).unwrap()])
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

    #[test]
    fn a_session_of_its_own_and_no_parent_is_what_leaves() {
        let all = vec![
            process(SUPERVISOR, 9, 10, 3),
            process(20, SUPERVISOR, 20, 3), // the command
            process(21, 20, 21, 3),         // a group of its own: timeout
            process(22, 21, 21, 3),
            process(23, 20, 23, 23),         // a session of its own, and a parent: setsid
            process(24, SUPERVISOR, 20, 3),  // an orphan in the session
            process(30, SUPERVISOR, 29, 29), // a daemon and its child
            process(31, 30, 31, 31),
            process(99, 1, 99, 99),
        ];
        let mut tree = tree();
        let found = tree.sort(3, all.clone());
        assert_eq!((pids(&found.bound), pids(&found.left)), (vec![20, 21, 22, 23, 24], vec![30]));
        tree.close(&found);
        // The end has begun: whose parent ends now has not left; the daemon's child has.
        let mut later = all;
        later.retain(|process| process.pid != 20);
        later.push(process(32, SUPERVISOR, 29, 29));
        for process in later.iter_mut().filter(|process| process.parent == 20) {
            process.parent = SUPERVISOR;
        }
        let found = tree.sort(3, later);
        assert_eq!((pids(&found.bound), pids(&found.left)), (vec![21, 22, 23, 24], vec![30, 32]));
    }

    #[test]
    fn strangers_and_what_is_below_them_are_not_found() {
        let (stranger, late) =
            (process(20, SUPERVISOR, 20, 3), Process { started: 9, ..process(20, SUPERVISOR, 20, 3) });
        let tree = tree().without(std::slice::from_ref(&stranger));
        let others = [process(21, 20, 20, 3), process(22, SUPERVISOR, 20, 3)];
        let found = tree.sort(3, [&[stranger], &others[..]].concat());
        assert_eq!((pids(&found.bound), found.groups), (vec![22], HashSet::new()), "the group is not signalled as one");
        let found = tree.sort(3, [&[late], &others[..]].concat());
        assert_eq!(pids(&found.bound), [20, 21, 22], "another process with a stranger's number");
    }

    #[test]
    fn a_group_with_a_stranger_in_it_is_not_signalled_as_one() {
        let all = vec![process(20, SUPERVISOR, 20, 3), process(21, 20, 7, 3), process(7, 1, 7, 3)];
        let found = tree().sort(3, all);
        assert_eq!((pids(&found.bound), found.groups), (vec![20, 21], HashSet::from([20])));
    }

    #[test]
    fn the_dead_are_passed_through_and_not_counted() {
        let dead = Process { alive: false, ..process(20, SUPERVISOR, 20, 3) };
        let found = tree().sort(3, vec![dead, process(21, 20, 20, 3)]);
        assert_eq!(pids(&found.bound), [21]);
        let dead = Process { alive: false, ..process(20, SUPERVISOR, 20, 3) };
        assert!(!tree().sort(3, vec![dead]).is_empty(), "what it started may have been missed");
        assert!(tree().sort(3, vec![process(30, SUPERVISOR, 29, 29)]).is_empty());
    }

    #[test]
    fn names_are_few() {
        let many: Vec<Process> = (1..=7).map(|pid| process(pid, 1, 1, 1)).collect();
        assert_eq!(names(&many[..1]), "pid 1 (p1)");
        assert_eq!(names(&many), "pid 1 (p1), pid 2 (p2), pid 3 (p3), pid 4 (p4), pid 5 (p5), 2 more");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_found_below_its_parent() {
        let tree = Tree::below(&[rustix::process::getppid().unwrap()]);
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(tree.look().unwrap().bound.iter().any(|process| process.pid == own));
    }
}
