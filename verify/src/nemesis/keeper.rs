//! Ends the worker processes if the nemesis itself is killed.

use parking_lot::Mutex;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

/// A shell that outlives an owner who was killed: when its input ends, it kills every process that is still named
/// there.
const KEEPER: &str = r#"pids=" "
while read -r op pid; do
    case $op in
    +) pids="$pids$pid " ;;
    -) pids="${pids%% "$pid" *} ${pids#* "$pid" }" ;;
    esac
done
for pid in $pids; do kill -9 "$pid"; done"#;

/// See the module.
pub struct Keeper {
    process: Child,
    pipe: Mutex<Option<ChildStdin>>,
}

impl Keeper {
    /// A keeper that watches over no process yet.
    ///
    /// # Errors
    ///
    /// If there is no shell.
    pub fn start() -> io::Result<Keeper> {
        let mut process = Command::new("sh")
            .args(["-c", KEEPER])
            .process_group(0) // Ctrl-C is not for the keeper
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pipe = Mutex::new(process.stdin.take());
        Ok(Keeper { process, pipe })
    }

    /// Adds a process (`+`) or removes it (`-`).
    pub(super) fn send(&self, op: char, pid: u32) -> io::Result<()> {
        match &mut *self.pipe.lock() {
            Some(pipe) => pipe.write_all(format!("{op} {pid}\n").as_bytes()),
            None => Ok(()),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        *self.pipe.lock() = None;
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redleash_testkit::wait_until;
    use std::time::Duration;

    const END_TIMEOUT: Duration = Duration::from_secs(20);

    #[test]
    fn a_keeper_ends_the_processes_that_it_was_given_and_no_others() {
        let keeper = Keeper::start().expect("a shell");
        let sleep = || Command::new("sleep").arg("60").spawn().expect("sleep");
        let mut sleepers = [sleep(), sleep(), sleep()];
        sleepers.iter().for_each(|sleeper| keeper.send('+', sleeper.id()).expect("a pipe"));
        keeper.send('-', sleepers[1].id()).expect("a pipe");
        drop(keeper);
        let [first, second, third] = &mut sleepers;
        let gone = |sleeper: &mut Child| wait_until(END_TIMEOUT, || sleeper.try_wait().is_ok_and(|end| end.is_some()));
        let ended = gone(first) && gone(third);
        let alive = second.try_wait().expect("our child").is_none();
        for sleeper in &mut sleepers {
            let _ = sleeper.kill();
            let _ = sleeper.wait();
        }
        assert!(ended, "it let one live");
        assert!(alive, "it killed one that was removed");
    }
}
