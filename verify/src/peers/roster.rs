//! The lock clients that take part, and how each is started.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

/// How a library writes the vote of a lock. A client that dies leaves it like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    /// A string at the lock's name.
    Text,
    /// A hash at the lock's name, one field per owner.
    Hash,
    /// A string at redleash's key.
    Redleash,
}

/// One lock client.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its name on the command line and in the table.
    pub name: &'static str,
    /// The exact library.
    pub library: &'static str,
    program: Program,
    /// Further arguments.
    arguments: &'static [&'static str],
    /// How it writes a vote.
    pub vote: Vote,
    /// Bytes that every release on the wire contains and no acquisition does.
    pub release: Cow<'static, str>,
    /// Why it cannot be asked to extend a lock.
    pub no_extension: Option<&'static str>,
    /// How many masters above a majority it wants.
    pub fault_margin: usize,
}

#[derive(Clone, Debug)]
enum Program {
    /// This program itself.
    Here,
    /// A folder of `bench/peers` and a command in it.
    There { folder: &'static str, command: &'static [&'static str] },
}

const REDSYNC: Peer = Peer {
    name: "redsync",
    library: "redsync v4.18.1, go-redis v9.23.0 (Go)",
    program: Program::There { folder: "go-redsync", command: &["bin/go-redsync", "duel"] },
    arguments: &[],
    vote: Vote::Text,
    release: Cow::Borrowed("e950836ed1e694540c503ef9972b8de518044d3b"),
    no_extension: None,
    fault_margin: 0,
};

/// Its release is the hash of its script.
fn redleash() -> Peer {
    let script = redleash::unversioned::scripts().into_iter().find(|s| s.name == "release");
    Peer {
        name: "redleash",
        library: concat!("redleash ", env!("CARGO_PKG_VERSION"), " (Rust)"),
        program: Program::Here,
        vote: Vote::Redleash,
        release: Cow::Owned(script.map(|s| s.sha).unwrap_or_default()),
        ..REDSYNC
    }
}

/// All of them, in the order of the table.
pub fn all() -> Vec<Peer> {
    vec![
        REDSYNC,
        Peer { name: "redsync-setnx", arguments: &["--setnx"], ..REDSYNC },
        Peer {
            name: "rslock",
            library: "rslock 0.10.0, redis 1.8.1 (Rust)",
            program: Program::There { folder: "rust-rslock", command: &["target/release/rust-rslock", "duel"] },
            release: Cow::Borrowed("daf86bbf8740dd3ca86733367a016364b2110627"),
            ..REDSYNC
        },
        Peer {
            name: "redisson",
            library: "Redisson 3.52.0, RedissonRedLock (Java)",
            program: Program::There {
                folder: "java-redisson",
                command: &["java", "-cp", "target/classes:target/lib/*", "Duel"],
            },
            vote: Vote::Hash,
            release: Cow::Borrowed("redisson_unlock_latch"),
            no_extension: Some("no call extends a lock; the watchdog does"),
            ..REDSYNC
        },
        Peer {
            name: "node-redlock",
            library: "redlock 5.0.0-beta.2, ioredis 6.0.0 (Node)",
            program: Program::There { folder: "node-redlock", command: &["node", "duel.js"] },
            release: Cow::Borrowed("e4612211c9f8f51c257e26e056b0a654b3187242"),
            ..REDSYNC
        },
        Peer {
            name: "redlock-py",
            library: "redlock-py 1.0.8, redis 8.1.0 (Python)",
            program: Program::There { folder: "py-redlock", command: &[".venv/bin/python", "duel.py"] },
            release: Cow::Borrowed("redis.call(\"del\",KEYS[1])"),
            no_extension: Some("it has no extension"),
            ..REDSYNC
        },
        redleash(),
        Peer { name: "redleash-f1", arguments: &["--fault-margin", "1"], fault_margin: 1, ..redleash() },
    ]
}

impl Peer {
    /// The key of the lock `name`.
    pub fn key(&self, name: &str) -> String {
        match self.vote {
            Vote::Text | Vote::Hash => name.into(),
            Vote::Redleash => format!("rl:L:{{{name}}}"),
        }
    }

    /// How many of `n` masters it needs.
    pub fn quorum(&self, n: usize) -> usize {
        (n + self.fault_margin) / 2 + 1
    }

    /// The program, its arguments, and the folder to run it in. `here` is the program that drives redleash.
    ///
    /// # Errors
    ///
    /// If the peer has not been built.
    pub fn command(&self, here: &Path) -> io::Result<(PathBuf, Vec<String>, PathBuf)> {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/peers");
        let (program, mut arguments, folder) = match &self.program {
            Program::Here => (here.to_path_buf(), vec!["peers".to_string(), "--duel".into()], std::env::current_dir()?),
            Program::There { folder, command } => {
                let folder = peers.join(folder);
                let (program, rest) = command.split_first().unwrap_or((&"", &[]));
                // A bare name is looked up in PATH.
                let program = if program.contains('/') { folder.join(program) } else { PathBuf::from(program) };
                (program, rest.iter().map(|a| a.to_string()).collect(), folder)
            }
        };
        if program.components().count() > 1 && !program.exists() {
            let problem = format!("{} is absent; bench/peers/bench build makes it", program.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, problem));
        }
        arguments.extend(self.arguments.iter().map(|a| a.to_string()));
        Ok((program, arguments, folder))
    }
}
