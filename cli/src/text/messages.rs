//! Sentences that more than one file says: about the processes of the command, and about the end of its lock.

use super::say::shown;
use crate::link::Ended;
use crate::system::process::Process;

/// So many processes are named; the others are counted.
const NAMED: usize = 5;

/// `pid 17 (sleep), pid 18 (sh)`.
pub(crate) fn names(processes: &[Process]) -> String {
    let named = processes.iter().take(NAMED).map(|p| format!("pid {} ({})", p.pid, shown(&p.name)));
    let more = processes.len().saturating_sub(NAMED);
    let more = (more > 0).then(|| format!("{more} more"));
    named.chain(more).collect::<Vec<_>>().join(", ")
}

/// These processes continue to run although the lock is released.
pub(crate) fn daemons(lock: &str, names: &str) -> String {
    format!("lock {lock:?}: daemons run on without the lock (setsid, and the parent has ended): {names}")
}

/// Some processes could not be ended.
pub(crate) fn unkillable(lock: &str) -> String {
    format!(
        "lock {lock:?}: not even SIGKILL ended all processes of the command; look for one that hangs in the kernel or \
         runs as another user"
    )
}

/// The lock was lost while the command ran.
pub(crate) fn lost(lock: &str, why: &str, ended: Ended) -> String {
    format!(
        "lock {lock:?} is lost: {why}; the command ended {ended}: look at what it left half done, then run it again"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::process::tests::process;

    #[test]
    fn few_processes_are_named() {
        let many: Vec<Process> = (1..=7).map(|pid| process(pid, 1, 1, 1)).collect();
        assert_eq!(names(&many[..1]), "pid 1 (p1)");
        assert_eq!(names(&many), "pid 1 (p1), pid 2 (p2), pid 3 (p3), pid 4 (p4), pid 5 (p5), 2 more");
    }
}
