//! The processes below the command, found in /proc. Its process group is not enough, because programs such as `timeout`
//! make a group of their own.
//!
//! The supervisor is a subreaper: a process whose parent has ended becomes its child. So each process that the command
//! started, directly or not, is below the supervisor for as long as it lives.
//!
//! One kind of process is not bound to the lock: a **daemon**, which is in a session of its own and whose parent has
//! ended, so that it is a child of the subreaper. Only a double fork with setsid(2) comes to this, and nothing does
//! that by accident. A daemon and what is below it are not ended. A process that is no daemon when the end begins does
//! not become one any more.

use super::process::{Process, own_children};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::{HashMap, HashSet};
use std::{fs, io};

/// How often the children of this process are killed between two looks at all processes.
const STRIKES: usize = 1000;

/// The processes below the command at one moment.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// They end with the lock.
    pub(crate) bound: Vec<Process>,
    /// They do not: the daemons, without what is below them.
    pub(crate) daemons: Vec<Process>,
    /// The groups of which all processes are bound.
    groups: HashSet<i32>,
    /// A child of the subreaper has ended and is not collected. What it started may have been missed.
    uncollected: bool,
}

/// Where to look, and what to leave out.
#[derive(Default)]
pub(crate) struct Tree {
    /// The processes whose descendants are looked for; none of them is found itself.
    roots: Vec<i32>,
    /// The sessions of the daemons when the end began; `None` before.
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

    /// The same, where no process can become a daemon.
    pub(crate) fn contained(roots: &[Pid]) -> Tree {
        Tree { spared: Some(HashSet::new()), ..Tree::below(roots) }
    }

    /// Looks at all processes. Fails where there is no /proc, as on other systems than Linux.
    pub(crate) fn look(&self) -> io::Result<Found> {
        let own = Process::read("self")?;
        let mut all = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            // A process that has ended meanwhile cannot be read any more, and is left out.
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
                if self.roots.contains(&parent) && self.is_daemon(process, session) {
                    found.daemons.extend(process.alive.then(|| process.clone()));
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

    /// Whether this child of a root is a daemon; `session` is the session of the root.
    fn is_daemon(&self, process: &Process, session: i32) -> bool {
        match &self.spared {
            Some(spared) => spared.contains(&process.session),
            None => process.session != session,
        }
    }

    /// The end begins: from now on no process becomes a daemon any more.
    pub(crate) fn close(&mut self, found: &Found) {
        self.spared.get_or_insert_with(|| found.daemons.iter().map(|process| process.session).collect());
    }

    /// Sends SIGKILL to all that are bound, and looks again until there is none left, at most `limit` times. `collect`
    /// collects the children that have ended. True if all are dead and collected.
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

    /// Kills the children of this process, again and again. A process may fork and end faster than all processes can be
    /// looked at, but whenever it has ended, its child is ours. Does nothing where the kernel does not list children.
    fn strike(&self, collect: &mut impl FnMut()) {
        for _ in 0..STRIKES {
            // Children that have ended would make the list long.
            collect();
            let Some(children) = own_children() else { return };
            let mut nobody = true;
            for child in children {
                let spared = self.spared.as_ref().is_some_and(|spared| spared.contains(&child.session));
                let stranger = self.strangers.contains(&child.identity());
                if child.alive && !spared && !stranger && !self.roots.contains(&child.pid) {
                    nobody = false;
                    // If the group is its own, the group: what it has just forked is in it.
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
    /// Whether all but the daemons have ended. This is certain, although processes come and go during a look: the
    /// topmost of those that still run is a child of the subreaper, which alone collects it, so it was there during the
    /// whole look.
    pub(crate) fn is_empty(&self) -> bool {
        self.bound.is_empty() && !self.uncollected
    }

    /// Signals those that are bound. A whole group is signalled at once, so that no fork in it escapes. The kernel does
    /// not use a pid again as fast as this.
    pub(crate) fn signal(&self, signal: Signal) {
        for group in self.groups.iter().filter_map(|group| Pid::from_raw(*group)) {
            let _ = kill_process_group(group, signal);
        }
        for process in self.bound.iter().filter(|process| !self.groups.contains(&process.group)) {
            process.signal(signal);
        }
    }
}

fn is_number(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::super::process::tests::process;
    use super::*;

    const SUPERVISOR: i32 = 10;

    fn pids(processes: &[Process]) -> Vec<i32> {
        let mut pids: Vec<i32> = processes.iter().map(|process| process.pid).collect();
        pids.sort_unstable();
        pids
    }

    fn tree() -> Tree {
        Tree::below(&[Pid::from_raw(SUPERVISOR).unwrap()])
    }

    #[test]
    fn a_daemon_has_a_session_of_its_own_and_no_parent() {
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
        assert_eq!((pids(&found.bound), pids(&found.daemons)), (vec![20, 21, 22, 23, 24], vec![30]));
        tree.close(&found);
        // The end has begun: a process whose parent ends now is no daemon. The daemon's child counts as one.
        let mut later = all;
        later.retain(|process| process.pid != 20);
        later.push(process(32, SUPERVISOR, 29, 29));
        for process in later.iter_mut().filter(|process| process.parent == 20) {
            process.parent = SUPERVISOR;
        }
        let found = tree.sort(3, later);
        assert_eq!((pids(&found.bound), pids(&found.daemons)), (vec![21, 22, 23, 24], vec![30, 32]));
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
    fn dead_processes_are_not_found_but_their_children_are() {
        let dead = Process { alive: false, ..process(20, SUPERVISOR, 20, 3) };
        let found = tree().sort(3, vec![dead, process(21, 20, 20, 3)]);
        assert_eq!(pids(&found.bound), [21]);
        let dead = Process { alive: false, ..process(20, SUPERVISOR, 20, 3) };
        assert!(!tree().sort(3, vec![dead]).is_empty(), "what it started may have been missed");
        assert!(tree().sort(3, vec![process(30, SUPERVISOR, 29, 29)]).is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_found_below_its_parent() {
        let tree = Tree::below(&[rustix::process::getppid().unwrap()]);
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(tree.look().unwrap().bound.iter().any(|process| process.pid == own));
    }
}
