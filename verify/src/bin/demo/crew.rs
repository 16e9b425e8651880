//! The worker processes as the conductor sees them.

use crate::ledger::Ledger;
use crate::{BATCHES, Failure, LIMIT, WORKERS};
use redleash_testkit::Scratch;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

/// What the workers report.
pub(crate) enum Event {
    Holds { who: String, token: u64, lease: Duration },
    Wrote { added: u64, sum: u64 },
    Stale(String),
    Trouble { who: String, why: String },
}

/// The worker processes of one run. They share one pipe, so that their lines come in the order of the events.
pub(crate) struct Crew {
    children: Vec<Child>,
    lines: Receiver<String>,
    ledger: PathBuf,
    done: usize,
}

impl Crew {
    pub(crate) fn start(scratch: &Scratch, name: &str, input: &Path, urls: &str) -> Result<Crew, Failure> {
        let ledger = scratch.path().join(name);
        fs::write(&ledger, "")?;
        let (read, write) = io::pipe()?;
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(read).lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        let mut crew = Crew { children: Vec::new(), lines, ledger, done: 0 };
        for number in 1..=WORKERS {
            let child = Command::new(std::env::current_exe()?)
                .arg("worker")
                .arg(number.to_string())
                .args([&crew.ledger, input])
                .args([&BATCHES.to_string(), urls])
                .stdin(Stdio::piped())
                .stdout(write.try_clone()?)
                .spawn()?;
            crew.children.push(child);
        }
        drop(write);
        for _ in 0..WORKERS {
            crew.lines.recv_timeout(LIMIT)?;
        }
        for child in &mut crew.children {
            if let Some(input) = &mut child.stdin {
                input.write_all(b"go\n")?;
            }
        }
        Ok(crew)
    }

    /// The next event; `None` when all are done.
    pub(crate) fn next(&mut self, limit: Duration) -> Result<Option<Event>, Failure> {
        while self.done < self.children.len() {
            let line = self.lines.recv_timeout(limit).map_err(|_| "the workers did not finish in time")?;
            let mut words = line.splitn(4, '\t');
            let mut word = || words.next().unwrap_or_default().to_string();
            let (kind, who) = (word(), word());
            return Ok(Some(match kind.as_str() {
                "holds" => Event::Holds { who, token: word().parse()?, lease: Duration::from_millis(word().parse()?) },
                "wrote" => Event::Wrote { added: word().parse()?, sum: word().parse()? },
                "stale" => Event::Stale(who),
                "trouble" => Event::Trouble { who, why: word() },
                _ => {
                    self.done += usize::from(kind == "done");
                    continue;
                }
            }));
        }
        Ok(None)
    }

    pub(crate) fn finish(mut self) -> Result<Ledger, Failure> {
        for child in &mut self.children {
            child.wait()?;
        }
        Ledger::read(&self.ledger)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
