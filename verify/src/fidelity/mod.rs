//! The simulated Redis against a real one: the same commands and scripts, the same replies.
//!
//! Both run on the wall clock of this machine. Keys live for a millisecond, followed by a pause, or for minutes. What
//! depends on the microsecond may differ by two seconds.

#![allow(clippy::disallowed_methods, reason = "both sides go by this machine's wall clock, and wait for it")]

mod replies;
mod script;

use crate::Verdict;
use crate::sim::clock::{Clock, EPOCH_US};
use crate::sim::lua::Interpreter;
use crate::sim::resp::{self, Reply};
use crate::sim::rng::Rng;
use crate::sim::server::Server;
use redleash_testkit::Server as Real;
use replies::{normal, same};
use script::Script;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The options of `verify fidelity`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// How many operations to compare
    #[arg(long, default_value_t = 100_000)]
    pub operations: u64,
    /// The seed of the operations
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// A word of a command.
#[derive(Clone, Debug)]
enum Word {
    Text(Vec<u8>),
    /// The generation that the server has now, on each side its own.
    Generation,
    /// An identity that begins with this; the history is that of the real server, on both sides.
    Identity(&'static str),
}

impl From<&str> for Word {
    fn from(text: &str) -> Word {
        Word::Text(text.into())
    }
}

impl From<String> for Word {
    fn from(text: String) -> Word {
        Word::Text(text.into())
    }
}

/// One operation on both sides.
#[derive(Clone, Debug)]
enum Operation {
    Command(Vec<Word>),
    /// A key expires in a millisecond, and no command is sent before that.
    Brief(&'static str),
    /// Both lose everything with their process.
    Restart,
}

const KEYS: [&str; 7] = ["rl:L:{a}", "rl:L:{b}", "rl:F:{a}", "rl:R:{a}", "rl:W:{a}", "rl:N", "other"];

/// Runs it.
pub fn run(options: &Options) -> Verdict {
    if !redleash_testkit::available() {
        return Verdict::failed("redis-server is not installed (scripts/install-redis does it)");
    }
    match compare(options) {
        Ok(None) => Verdict::held(format!("{} operations, every reply the same as redis-server's", options.operations)),
        Ok(Some(difference)) => Verdict::failed(format!("seed {}: {difference}", options.seed)),
        Err(e) => Verdict::failed(format!("the comparison broke off: {e}")),
    }
}

/// Runs all operations on both; the first difference, after printing what led to it.
fn compare(options: &Options) -> io::Result<Option<String>> {
    let lua = Interpreter::new().map_err(|e| io::Error::other(e.to_string()))?;
    let mut both = Both {
        real: Real::start()?,
        connection: None,
        simulated: Server::new(Clock::new(0, 0), "0".into()),
        lua,
        history: Vec::new(),
    };
    both.simulated.replid = history(&both.real)?;
    let scripts = script::all();
    let mut rng = Rng::new(options.seed);
    let mut done = 0;
    while done < options.operations {
        let mut batch = Vec::new();
        while batch.len() < 100 {
            batch.push(draw(&mut rng, &scripts));
        }
        done += batch.len() as u64;
        if let Some(difference) = both.run(&batch)? {
            return Ok(Some(difference));
        }
    }
    Ok(None)
}

/// The replication id of a server.
fn history(real: &Real) -> io::Result<String> {
    let text = real.command(&["INFO", "replication"])?.text().unwrap_or_default();
    let id = text.lines().find_map(|line| line.strip_prefix("master_replid:"));
    id.map(|id| id.trim().to_string()).ok_or_else(|| io::Error::other("INFO shows no replication id"))
}

struct Both {
    real: Real,
    connection: Option<TcpStream>,
    simulated: Server,
    lua: Interpreter,
    history: Vec<String>,
}

fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(EPOCH_US)
}

impl Both {
    /// Runs a batch on both sides; the first difference.
    fn run(&mut self, batch: &[Operation]) -> io::Result<Option<String>> {
        for operation in batch {
            match operation {
                Operation::Brief(key) => {
                    let words = ["PEXPIRE", key, "1"].map(|w| w.as_bytes().to_vec());
                    let (real, simulated) = (self.ask_real(&words)?, self.ask_simulated(&words));
                    std::thread::sleep(Duration::from_millis(4));
                    // Redis counts an expired key until a command asks for it.
                    let words = ["EXISTS", key].map(|w| w.as_bytes().to_vec());
                    let absent = (self.ask_real(&words)?, self.ask_simulated(&words));
                    if real != simulated || absent.0 != absent.1 {
                        return Ok(Some(format!("PEXPIRE {key} 1: {real:?} {simulated:?}, then {absent:?}")));
                    }
                }
                Operation::Restart => {
                    self.connection = None;
                    self.real.restart_empty()?;
                    self.simulated.restart(Default::default(), "0".into());
                    self.simulated.replid = history(&self.real)?;
                }
                Operation::Command(words) => {
                    let theirs = self.resolve(words, true)?;
                    let ours = self.resolve(words, false)?;
                    let real = self.ask_real(&theirs)?;
                    let simulated = self.ask_simulated(&ours);
                    self.history.push(format!("{} -> {}", show(&theirs), shown(&real)));
                    if !same(&normal(&real), &normal(&simulated)) {
                        let from = self.history.len().saturating_sub(30);
                        for line in &self.history[from..] {
                            println!("{line}");
                        }
                        return Ok(Some(format!(
                            "redis-server says {}, the simulation {}",
                            shown(&real),
                            shown(&simulated)
                        )));
                    }
                }
            }
        }
        Ok(None)
    }

    fn resolve(&mut self, words: &[Word], real: bool) -> io::Result<Vec<Vec<u8>>> {
        let mut out = Vec::with_capacity(words.len());
        for word in words {
            out.push(match word {
                Word::Text(text) => text.clone(),
                Word::Identity(run) => format!("{run:0<24}{:.24}", self.simulated.replid).into_bytes(),
                Word::Generation => {
                    let get = vec![b"GET".to_vec(), b"rl:N".to_vec()];
                    let reply = if real { self.ask_real(&get)? } else { self.ask_simulated(&get) };
                    if let Reply::Bulk(text) = reply { text } else { Vec::new() }
                }
            });
        }
        Ok(out)
    }

    fn ask_simulated(&mut self, words: &[Vec<u8>]) -> Reply {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        self.simulated.run_at(&words, &self.lua, now_us())
    }

    fn ask_real(&mut self, words: &[Vec<u8>]) -> io::Result<Reply> {
        if self.connection.is_none() {
            let stream = TcpStream::connect(("127.0.0.1", self.real.port()))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            self.connection = Some(stream);
        }
        let Some(stream) = &mut self.connection else { return Err(io::ErrorKind::NotConnected.into()) };
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        stream.write_all(&resp::encode(&words))?;
        let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            let n = stream.read(&mut buffer)?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes.extend_from_slice(&buffer[..n]);
            if let Some((reply, length)) = resp::reply(&bytes) {
                debug_assert_eq!(length, bytes.len());
                return Ok(reply);
            }
        }
    }
}

fn show(words: &[Vec<u8>]) -> String {
    let short = |w: &Vec<u8>| {
        let text = String::from_utf8_lossy(w);
        if text.len() > 80 { format!("{:?}..", text.chars().take(50).collect::<String>()) } else { format!("{text:?}") }
    };
    words.iter().map(short).collect::<Vec<_>>().join(" ")
}

fn shown(reply: &Reply) -> String {
    let mut bytes = Vec::new();
    reply.write(&mut bytes);
    format!("{:?}", String::from_utf8_lossy(&bytes))
}

fn draw(rng: &mut Rng, scripts: &[Script]) -> Operation {
    let command = |words: &[&str]| Operation::Command(words.iter().map(|w| Word::from(*w)).collect());
    let key = rng.pick(&KEYS);
    let life = rng.pick(&["200000", "90000", "0", "-5", "x", "1"]);
    let value = rng.pick(&["v1", "v2", "", "17", "9007199254740900"]);
    match rng.below(34) {
        0 => command(&["GET", key]),
        1 => command(&["MGET", "rl:N", key]),
        2 => command(&["SET", key, value]),
        3 if life != "1" => command(&["SET", key, value, "NX", "PX", life]),
        4 if life != "1" => command(&["SET", key, value, "PX", life]),
        5 => command(&["SET", key, value, "KEEPTTL"]),
        6 => command(&["SET", key, value, "XX", "EX", "500"]),
        7 => command(&["DEL", key]),
        8 => command(&["DEL", key, "other"]),
        9 => command(&["PTTL", key]),
        10 if life != "1" => command(&["PEXPIRE", key, life]),
        11 => command(&["PEXPIREAT", key, "1000"]),
        12 => command(&["TYPE", key]),
        13 if rng.chance(30) => command(&["RPUSH", key, "item"]),
        14 => command(&["EXISTS", key, "other"]),
        15 if rng.chance(10) => command(&["FLUSHALL"]),
        16 if rng.chance(20) => command(&["SCRIPT", "FLUSH"]),
        17 => command(&["SET", key, value, rng.pick(&["PX", "BAD", "NX", "XX"])]),
        18 => command(&["GET"]),
        19 => command(&["PERSIST", key]),
        20 => command(&["DBSIZE"]),
        21 => command(&["SET", "rl:F:{a}", rng.pick(&["9007199254740900", "9007199254740991", "1", "x"])]),
        22 if rng.chance(8) => Operation::Brief(key),
        23 if rng.chance(1) && rng.chance(5) => Operation::Restart,
        _ => {
            let which = rng.below(scripts.len() as u64) as usize;
            Operation::Command(scripts[which].draw(rng, now_us()))
        }
    }
}
