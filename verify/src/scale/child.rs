//! A process that holds locks, as its parent sees it. It goes on to its next step whenever the parent writes a line.

use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// See the module. Dropping it kills the process.
pub(crate) struct Holder {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    /// Starts `here scale ARGS`, and waits until it holds its locks.
    pub(crate) fn start(here: &Path, args: &[&str]) -> io::Result<Holder> {
        let mut process =
            Command::new(here).arg("scale").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let Some(stdout) = process.stdout.take() else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let mut holder = Holder { process, lines: BufReader::new(stdout).lines() };
        holder.expect("holding")?;
        Ok(holder)
    }

    /// Lets it go on to its next step.
    pub(crate) fn go_on(&mut self) -> io::Result<()> {
        let Some(stdin) = &mut self.process.stdin else { return Err(io::ErrorKind::BrokenPipe.into()) };
        writeln!(stdin, "go on")
    }

    /// Waits for what it has seen.
    pub(crate) fn seen<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        Ok(serde_json::from_str(&self.line()?)?)
    }

    /// Lets it release its locks and end.
    pub(crate) fn release(mut self) -> io::Result<()> {
        self.go_on()?;
        self.expect("released")
    }

    fn expect(&mut self, line: &str) -> io::Result<()> {
        match self.line()? {
            expected if expected == line => Ok(()),
            other => Err(io::Error::other(format!("the holder printed {other:?} and not {line:?}"))),
        }
    }

    fn line(&mut self) -> io::Result<String> {
        self.lines.next().unwrap_or_else(|| Err(io::Error::other("the holder has ended")))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
