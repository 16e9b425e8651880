//! Builds the copy with its fault, and runs what must find it.

use super::faults::Finder;
use rustix::process::{Pid, Signal, kill_process};
use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A test that takes longer than this hangs, which is no find.
const TEST_LIMIT: Duration = Duration::from_secs(180);

/// Builds and runs in one directory of sources.
#[derive(Debug)]
pub(super) struct Workshop {
    /// The sources.
    pub(super) sources: PathBuf,
    /// Where it builds.
    pub(super) target: PathBuf,
    /// The most histories of the simulation.
    pub(super) seeds: u64,
}

impl Workshop {
    /// The path of what was built for `finder`, or what the compiler said.
    fn build(&self, finder: Finder) -> io::Result<Result<PathBuf, String>> {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.sources).env("CARGO_TARGET_DIR", &self.target).env_remove("CARGO_INCREMENTAL");
        let name = match finder {
            Finder::Simulation => {
                cargo.args(["build", "-p", "redleash-verify", "--bin", "verify"]);
                "verify"
            }
            Finder::Test(file, _) => {
                cargo.args(["test", "-p", "redleash", "--no-run", "--test", file]);
                file
            }
        };
        let output =
            cargo.args(["--profile", "planted", "--quiet", "--message-format=json-render-diagnostics"]).output()?;
        if !output.status.success() {
            return Ok(Err(first_error(&String::from_utf8_lossy(&output.stderr))));
        }
        let built = String::from_utf8_lossy(&output.stdout).lines().find_map(|line| executable(line, name));
        built.map(Ok).ok_or_else(|| io::Error::other(format!("cargo names no program {name}")))
    }

    /// Runs `finder` on the sources as they are: `Some` with what it found, `None` if it found nothing; or why it
    /// cannot be built or does not end.
    pub(super) fn look(&self, finder: Finder) -> io::Result<Result<Option<String>, String>> {
        let program = match self.build(finder)? {
            Ok(program) => program,
            Err(why) => return Ok(Err(format!("it does not compile: {why}"))),
        };
        match finder {
            Finder::Simulation => self.simulate(&program),
            Finder::Test(file, test) => self.test(&program, file, test),
        }
    }

    fn simulate(&self, program: &Path) -> io::Result<Result<Option<String>, String>> {
        let output = Command::new(program).args(["sim", "--quiet", "--seeds", &self.seeds.to_string()]).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let last = text.lines().last().unwrap_or_default();
        // Not every failure is a find: a program that cannot start fails too.
        Ok(match last.strip_prefix("FAILED: ") {
            Some(what) if what.starts_with("seed ") => Ok(what.split("; see").next().map(String::from)),
            _ if output.status.success() => Ok(None),
            _ => Err(format!("the simulation could not tell: {last}")),
        })
    }

    fn test(&self, program: &Path, file: &str, test: &str) -> io::Result<Result<Option<String>, String>> {
        let mut command = Command::new(program);
        command.current_dir(&self.sources).args(["--exact", test]);
        let place = format!("tests/{file}, {test}");
        let Some((passed, printed)) = within(&mut command, TEST_LIMIT, &self.target.join("printed"))? else {
            return Ok(Err(format!("{place} does not end within {TEST_LIMIT:?}")));
        };
        Ok(if passed && printed.contains("1 passed") {
            Ok(None)
        } else if printed.contains("1 failed") {
            Ok(Some(place))
        } else {
            Err(format!("{place} did not run"))
        })
    }
}

/// The program of this name, if cargo says in this line that it was built.
fn executable(line: &str, name: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let is_it = message["reason"] == "compiler-artifact" && message["target"]["name"] == name;
    is_it.then(|| message["executable"].as_str().map(PathBuf::from))?
}

fn first_error(text: &str) -> String {
    text.lines().find(|line| line.starts_with("error")).unwrap_or("cargo failed without an error").to_string()
}

/// Whether a program succeeded, and what it printed, which goes through the file `printed`; `None` if it had to be
/// ended because it took longer than `limit`.
fn within(command: &mut Command, limit: Duration, printed: &Path) -> io::Result<Option<(bool, String)>> {
    // A file, because the end of a pipe comes only when everything that the program has started has ended too.
    command.stdin(Stdio::null()).stdout(File::create(printed)?).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let pid = Pid::from_child(&child);
    let (ended, end) = crossbeam_channel::bounded(1);
    let status = std::thread::scope(|scope| {
        scope.spawn(move || ended.send(child.wait()));
        end.recv_timeout(limit).ok().or_else(|| {
            let _ = kill_process(pid, Signal::KILL);
            None
        })
    });
    let Some(status) = status else { return Ok(None) };
    Ok(Some((status?.success(), fs::read_to_string(printed)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let printed = env::temp_dir().join(format!("redleash-printed-{}", std::process::id()));
        let run = |program: &str, limit| within(Command::new("sh").args(["-c", program]), limit, &printed).unwrap();
        assert_eq!(run("echo done", Duration::from_secs(60)), Some((true, "done\n".into())));
        assert_eq!(run("exec sleep 600", Duration::from_millis(10)), None);
        fs::remove_file(printed).unwrap();
    }

    #[test]
    fn cargo_says_what_it_has_built() {
        let line = r#"{"reason":"compiler-artifact","target":{"name":"verify"},"executable":"/x/verify"}"#;
        assert_eq!(executable(line, "verify"), Some("/x/verify".into()));
        assert_eq!(executable(line, "other"), None);
        assert_eq!(executable(r#"{"reason":"build-finished"}"#, "verify"), None);
    }
}
