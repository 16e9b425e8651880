//! What is asked on a new connection before it is used: who the server is, and whether it can serve this client.
//!
//! Everything is sent in one write, and each answer is judged as it comes.

use super::conn::{Identity, Stream};
use super::decode::masked;
use super::master::{ConnectError, Connector, Unfit, describe};
use super::reply::{READ, Replies, Stop};
use crate::protocol::Mono;
use crate::protocol::generation::{Found, Generation, IDENTITY};
use crate::sys::clock;
use redis::{ServerError, Value, cmd};
use std::collections::VecDeque;
use std::io;

/// Which rights the library needs is asked by this script.
const RIGHTS: &str = include_str!("../scripts/rights.lua");

/// A digest that no script has: `EVALSHA` of it shows whether the user may run scripts by their digests.
const NO_SCRIPT: &str = "0000000000000000000000000000000000000000";

/// How many digits of a run id and of a replication id make an identity.
const DIGITS: usize = IDENTITY / 2;

/// One question of the handshake.
#[derive(Clone, Copy)]
enum Ask {
    Auth,
    Select,
    /// A section. The whole of `INFO` may be longer than any reply that is read: it has a line for each error code.
    Info(&'static str),
    Generation,
    Digest,
    Rights,
}

/// Has `connector` know the server behind `stream`, all before `deadline`.
pub(super) fn greet(connector: &Connector, stream: &Stream, deadline: Mono) -> Result<Identity, ConnectError> {
    let settings = connector.address.info.redis_settings();
    let (mut asked, mut bytes) = (Vec::new(), Vec::new());
    let mut ask = |what, command: &mut redis::Cmd| {
        asked.push(what);
        command.write_packed_command(&mut bytes);
    };
    if let Some(password) = settings.password() {
        let mut auth = cmd("AUTH");
        if let Some(user) = settings.username() {
            auth.arg(user);
        }
        ask(Ask::Auth, auth.arg(password));
    }
    if settings.db() != 0 {
        ask(Ask::Select, cmd("SELECT").arg(settings.db()));
    }
    // One command each: only Redis 7 takes several sections in one.
    for section in ["server", "replication", "cluster", "memory"] {
        ask(Ask::Info(section), cmd("INFO").arg(section));
    }
    ask(Ask::Generation, cmd("GET").arg(&connector.generation));
    ask(Ask::Digest, cmd("EVALSHA").arg(NO_SCRIPT).arg(0));
    ask(Ask::Rights, cmd("EVAL").arg(RIGHTS).arg(1).arg(&connector.unused));

    let mut talk = Talk { stream, deadline, replies: Replies::new(), read: VecDeque::new(), silent: true };
    talk.send(&bytes)?;
    let (mut info, mut identity) = (String::new(), None::<Identity>);
    for what in asked {
        let value = talk.next()?;
        match (what, &value) {
            (Ask::Auth | Ask::Select, Value::Okay) => {}
            (Ask::Info(_), Value::BulkString(text)) => info.push_str(&String::from_utf8_lossy(text)),
            (Ask::Generation, Value::Nil) => {}
            (Ask::Generation, Value::BulkString(text)) => {
                let found = compare(text, &connector.block)?;
                identity = identity.map(|identity| Identity { found, ..identity });
            }
            (Ask::Digest, Value::ServerError(e)) if e.code() == "NOSCRIPT" => {}
            (Ask::Rights, Value::Array(missing)) => rights(missing)?,
            (_, Value::ServerError(e)) => return Err(refusal(connector, what, e)),
            _ => return Err(ConnectError::Io(format!("{}: an answer that makes no sense", name(what)))),
        }
        if matches!(what, Ask::Info("memory")) {
            identity = Some(connector.examine(&info)?);
        }
    }
    identity.ok_or_else(|| ConnectError::Io("the handshake has no end".into()))
}

fn name(what: Ask) -> &'static str {
    match what {
        Ask::Auth => "AUTH",
        Ask::Select => "SELECT",
        Ask::Info(_) => "INFO",
        Ask::Generation => "GET",
        Ask::Digest => "EVALSHA",
        Ask::Rights => "EVAL",
    }
}

/// Refuses a master that has the generation of another deployment than `ours`, or one of an older version.
fn compare(text: &[u8], ours: &str) -> Result<Found, ConnectError> {
    match Generation::parse(&String::from_utf8_lossy(text)) {
        None => Ok(Found::Blank),
        Some(Generation { place: Some(place), block, .. }) if block == ours => Ok(Found::Place(place)),
        Some(theirs) => Err(ConnectError::Unfit(Unfit::Deployment(theirs.block, ours.to_string()))),
    }
}

/// Refuses a user who may not run what the scripts run.
fn rights(missing: &[Value]) -> Result<(), ConnectError> {
    let text = |value: &Value| match value {
        Value::BulkString(text) => String::from_utf8_lossy(text).into_owned(),
        _ => String::new(),
    };
    let mut needed: Vec<String> = Vec::new();
    for pair in missing.chunks(2) {
        let [command, why] = pair else { continue };
        // The server says "keys" or "a key" where it is not the command that is forbidden.
        let right = if text(why).contains("key") { "~NAMESPACE:*".to_string() } else { format!("+{}", text(command)) };
        if !needed.contains(&right) {
            needed.push(right);
        }
    }
    match missing.get(1) {
        Some(why) => Err(forbidden(&needed.join(" "), &masked(&text(why)))),
        None => Ok(()),
    }
}

fn forbidden(rights: &str, why: &str) -> ConnectError {
    ConnectError::Unfit(Unfit::Access(format!("the user lacks the right {rights} ({why}): grant it with ACL SETUSER")))
}

/// What it means that the server answers this question with an error.
fn refusal(connector: &Connector, what: Ask, e: &ServerError) -> ConnectError {
    let words = format!("{} {}", e.code(), masked(e.details().unwrap_or_default())).trim_end().to_string();
    let access = |text: String| ConnectError::Unfit(Unfit::Access(text));
    let settings = connector.address.info.redis_settings();
    match (what, e.code()) {
        (_, "NOAUTH") => access(format!(
            "it asks for a password ({words}): give redis://:PASSWORD@host, or redis://USER:PASSWORD@host for a user"
        )),
        (_, "DENIED") => access(format!("it takes no connections from other hosts: {words}")),
        (Ask::Auth, "WRONGPASS") => access(format!("the user or the password in its URL is wrong: {words}")),
        (Ask::Auth, _) if words.contains("without any password") => access(format!(
            "its URL has a password, and the server asks for none: remove it from the URL, or set one there ({words})"
        )),
        (Ask::Select, "NOPERM") => forbidden("+select", &words),
        (Ask::Select, _) if words.contains("out of range") || words.contains("cluster mode") => {
            access(format!("it has no database {}, which its URL names: {words}", settings.db()))
        }
        (Ask::Info(_), "NOPERM") => {
            ConnectError::Unfit(Unfit::Nameless(format!("the user lacks the right +info ({words})")))
        }
        (Ask::Info(_), _) if words.contains("unknown command") => {
            ConnectError::Unfit(Unfit::Nameless(format!("it refuses INFO ({words})")))
        }
        (Ask::Generation, "NOPERM") if words.contains("key") => forbidden(&connector.pattern, &words),
        (Ask::Generation, "NOPERM") => forbidden("+get", &words),
        (Ask::Digest, "NOPERM") => forbidden("+evalsha", &words),
        (Ask::Rights, "NOPERM") if words.contains("key") => forbidden(&connector.pattern, &words),
        (Ask::Rights, "NOPERM") => forbidden("+eval", &words),
        _ => ConnectError::Refused(format!("{}: {words}", name(what))),
    }
}

impl Connector {
    /// Judges the server by its `INFO`; who it is.
    fn examine(&self, info: &str) -> Result<Identity, ConnectError> {
        let field = |name: &str| info.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
        if field("cluster_enabled") == Some("1") {
            return Err(ConnectError::Unfit(Unfit::ClusterNode));
        }
        if field("role").is_some_and(|role| role != "master") {
            return Err(ConnectError::Unfit(Unfit::Replica));
        }
        let id = |name: &str| {
            let text = field(name).filter(|text| text.len() >= DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit()));
            text.ok_or_else(|| ConnectError::Unfit(Unfit::Nameless(format!("its INFO has no {name}"))))
        };
        let (run_id, replid) = (id("run_id")?, id("master_replid")?);
        if field("role").is_none() {
            return Err(ConnectError::Unfit(Unfit::Nameless("its INFO has no role".into())));
        }
        if let Some(policy) = field("maxmemory_policy").filter(|p| *p != "noeviction")
            && field("maxmemory").is_some_and(|m| m != "0")
        {
            self.warn_once(&format!("maxmemory-policy {policy} may evict locks; set noeviction"));
        }
        self.registry
            .claim(self.index, run_id)
            .map_err(|other| ConnectError::Unfit(Unfit::Duplicate(other, self.labels[other].clone())))?;
        let none = |name: &str| field(name).is_none_or(|text| text.bytes().all(|b| b == b'0'));
        Ok(Identity {
            text: format!("{}{}", &run_id[..DIGITS], &replid[..DIGITS]),
            watched: !(none("connected_slaves") && none("repl_backlog_active") && none("master_replid2")),
            found: Found::Blank,
        })
    }
}

/// Answers cut out of what a blocking stream brings.
struct Talk<'a> {
    stream: &'a Stream,
    deadline: Mono,
    replies: Replies,
    read: VecDeque<Value>,
    /// Nothing has been answered yet.
    silent: bool,
}

impl Talk<'_> {
    /// Sends all of `bytes`.
    fn send(&self, bytes: &[u8]) -> Result<(), ConnectError> {
        let mut at = 0;
        while at < bytes.len() {
            self.arm()?;
            match self.stream.send(&bytes[at..]) {
                Ok(n) => at += n,
                // A call with a time limit is not taken up again by the system, whatever the handlers say.
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // It may have said why before it closed.
                Err(e) if ends(&e) => return Ok(()),
                Err(e) => return Err(ConnectError::Io(describe(&e))),
            }
        }
        Ok(())
    }

    /// The next answer.
    fn next(&mut self) -> Result<Value, ConnectError> {
        let mut buffer = Vec::new();
        loop {
            if let Some(value) = self.read.pop_front() {
                self.silent = false;
                return Ok(value);
            }
            buffer.resize(READ, 0);
            self.arm()?;
            let n = match self.stream.receive(&mut buffer) {
                Ok(0) => return Err(self.broken("the server closed the connection")),
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if ends(&e) => return Err(self.broken(&describe(&e))),
                Err(e) => return Err(ConnectError::Io(describe(&e))),
            };
            let read = &mut self.read;
            let stop = self.replies.feed(&buffer[..n], |value| {
                read.push_back(value);
                true
            });
            if matches!(stop, Stop::Nonsense) && self.read.is_empty() {
                return Err(self.broken("an answer that makes no sense"));
            }
        }
    }

    /// The connection has ended; before the first answer this is what a port for TLS does.
    fn broken(&self, why: &str) -> ConnectError {
        let hint = match self.stream {
            Stream::Tcp(_) if self.silent => {
                ", before it said anything. A port for TLS does so: it needs rediss://, and TLS is not built in yet"
            }
            _ => "",
        };
        ConnectError::Io(format!("{why}{hint}"))
    }

    /// Sets the socket's time limit to what is left.
    fn arm(&self) -> Result<(), ConnectError> {
        let left = self.deadline.since(clock::now());
        if left.is_zero() {
            return Err(ConnectError::Io("no answer in time".into()));
        }
        self.stream.set_timeout(left).map_err(|e| ConnectError::Io(describe(&e)))
    }
}

/// Whether the other end has closed.
fn ends(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted)
}
