//! One client of one library, in a process of its own that answers one line per question.

use super::roster::Peer;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How long a client may take to start, and to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// What a client answers.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
pub struct Answer {
    /// Yes or no.
    pub ok: bool,
    /// The library has no such call.
    #[serde(default)]
    pub none: bool,
    /// Why not, as the library says it.
    pub why: Option<String>,
}

/// A client that was started.
pub struct Duel {
    child: Child,
    questions: ChildStdin,
    answers: Receiver<String>,
}

impl Duel {
    /// Starts a client of the masters at `addresses`, each `host:port`. The answer says whether it accepted them.
    ///
    /// # Errors
    ///
    /// If the program cannot be started or says nothing.
    pub fn start(peer: &Peer, here: &Path, addresses: &[String], ttl: Duration) -> io::Result<(Duel, Answer)> {
        let (program, arguments, folder) = peer.command(here)?;
        let mut child = Command::new(program)
            .args(arguments)
            .args(["--nodes", &addresses.join(","), "--ttl", &ttl.as_millis().to_string()])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (Some(questions), Some(out)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("a child without pipes"));
        };
        let (sender, answers) = channel();
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut duel = Duel { child, questions, answers };
        let first = duel.answer()?;
        Ok((duel, first))
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    ///
    /// If the client has ended or does not answer.
    pub fn ask(&mut self, question: &str, name: &str) -> io::Result<Answer> {
        self.begin(question, name)?;
        self.answer()
    }

    /// Asks without waiting.
    ///
    /// # Errors
    ///
    /// If the client has ended.
    pub fn begin(&mut self, question: &str, name: &str) -> io::Result<()> {
        writeln!(self.questions, "{question} {name}")?;
        self.questions.flush()
    }

    /// The answer to what was begun.
    ///
    /// # Errors
    ///
    /// If the client has ended or does not answer.
    pub fn answer(&mut self) -> io::Result<Answer> {
        match self.answer_within(ANSWER_TIMEOUT)? {
            Some(answer) => Ok(answer),
            None => Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not answer")),
        }
    }

    /// The answer to what was begun, if it comes in time.
    ///
    /// # Errors
    ///
    /// If the client has ended.
    pub fn answer_within(&mut self, limit: Duration) -> io::Result<Option<Answer>> {
        match self.answers.recv_timeout(limit) {
            Ok(line) => serde_json::from_str(&line).map(Some).map_err(io::Error::other),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("the client has ended")),
        }
    }

    /// SIGSTOP: a pause of the whole process.
    ///
    /// # Errors
    ///
    /// If it has ended.
    pub fn pause(&self) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::STOP)?)
    }

    /// SIGCONT.
    ///
    /// # Errors
    ///
    /// If it has ended.
    pub fn resume(&self) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::CONT)?)
    }
}

impl Drop for Duel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
