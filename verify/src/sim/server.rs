//! A simulated Redis: bytes in, bytes out, on a clock of its own.

use super::clock::{Clock, Time};
use super::keyspace::{Change, Keyspace};
use super::lua::Interpreter;
use super::resp::{self, Reply};

/// One server.
#[derive(Debug)]
pub struct Server {
    /// Its data.
    pub keys: Keyspace,
    /// Its wall clock.
    pub clock: Clock,
    /// The name of the process.
    pub run_id: String,
    /// The name of its history: another one after it was a replica.
    pub replid: String,
    /// It has a replica, which may take its place.
    pub replicated: bool,
    /// The scripts that it knows, as bits.
    scripts: u64,
    /// How many processes there have been: connections end with theirs.
    pub process: u64,
    /// Whether it runs.
    pub up: bool,
    /// It stands still until then.
    pub stopped_until: Time,
    /// What has come while it stood still: connections and bytes.
    pub stash: Vec<(usize, Vec<u8>)>,
    /// A copy of its data that somebody made.
    pub copy: Option<Keyspace>,
}

impl Server {
    /// An empty server.
    pub fn new(clock: Clock, run_id: String) -> Server {
        Server {
            keys: Keyspace::default(),
            clock,
            replid: format!("{run_id:0<40}"),
            run_id,
            replicated: false,
            scripts: 0,
            process: 0,
            up: true,
            stopped_until: 0,
            stash: Vec::new(),
            copy: None,
        }
    }

    /// Runs all whole requests in `bytes`, which it takes out; the replies, and the changes with the request's name.
    pub fn serve(&mut self, bytes: &mut Vec<u8>, lua: &Interpreter, now: Time) -> (Vec<u8>, Vec<Change>) {
        let (mut out, mut at) = (Vec::new(), 0);
        while let Some((words, length)) = resp::request(&bytes[at..]) {
            self.run(&words, lua, now).write(&mut out);
            at += length;
        }
        bytes.drain(..at);
        (out, std::mem::take(&mut self.keys.changes))
    }

    /// Runs one command.
    pub fn run(&mut self, words: &[&[u8]], lua: &Interpreter, now: Time) -> Reply {
        self.run_at(words, lua, self.clock.micros(now))
    }

    /// Runs one command at this time of its own clock.
    pub fn run_at(&mut self, words: &[&[u8]], lua: &Interpreter, now_us: i64) -> Reply {
        let script = match words {
            [b"EVAL", text, rest @ ..] => lua.by_text(text).map(|number| {
                self.scripts |= 1 << number;
                (number, rest)
            }),
            [b"EVALSHA", sha, rest @ ..] => match lua.by_sha(sha).filter(|n| self.scripts >> n & 1 == 1) {
                Some(number) => Some((number, rest)),
                None => return Reply::error("NOSCRIPT No matching script. Please use EVAL."),
            },
            [b"SCRIPT", b"FLUSH"] => {
                self.scripts = 0;
                return Reply::ok();
            }
            _ => return self.keys.run(words, now_us),
        };
        let Some((number, [count, rest @ ..])) = script else { return Reply::error("ERR not one of our scripts") };
        let count = std::str::from_utf8(count).ok().and_then(|n| n.parse::<usize>().ok());
        match count.and_then(|count| rest.split_at_checked(count)) {
            Some((names, args)) => lua.run(number, names, args, &mut self.keys, (now_us, &self.replid)),
            None => Reply::error("ERR Number of keys can't be greater than number of args"),
        }
    }

    /// Who it is, as a handshake sees it.
    pub fn identity(&self) -> String {
        format!("{:0<24.24}{:0<24.24}", self.run_id, self.replid)
    }

    /// It was a replica with these data, and is a master again: the same process, and connections to it live on.
    pub fn fail_back(&mut self, data: Keyspace, replid: String) {
        self.keys = data;
        self.replid = replid;
    }

    /// Ends the process and begins another one with these data.
    pub fn restart(&mut self, data: Keyspace, run_id: String) {
        self.keys = data;
        self.replid = format!("{run_id:0<40}");
        self.run_id = run_id;
        self.scripts = 0;
        self.process += 1;
        self.up = true;
    }
}
