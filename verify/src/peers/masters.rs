//! The masters of one round, and what is done to them.

use super::roster::{Peer, Vote};
use crate::nemesis::clock::{Clock, Shim};
use redleash_testkit::{Scratch, Server};
use std::io;
use std::time::Duration;

/// How long a vote stays that was left behind, in ms, unless it is removed.
const LEFT_MS: &str = "120000";

/// Fresh masters, each with a clock of its own.
pub struct Masters {
    servers: Vec<Server>,
    clocks: Vec<Clock>,
    _scratch: Scratch,
}

impl Masters {
    /// `n` of them.
    ///
    /// # Errors
    ///
    /// If redis-server or the clock shim cannot be had.
    pub fn start(n: usize, shim: &Shim) -> io::Result<Masters> {
        let scratch = Scratch::new()?;
        let clocks =
            (0..n).map(|i| shim.clock(scratch.path(), &format!("clock{i}"))).collect::<io::Result<Vec<_>>>()?;
        let servers = clocks.iter().map(|clock| Server::start_under(&[], &clock.env())).collect::<io::Result<_>>()?;
        Ok(Masters { servers, clocks, _scratch: scratch })
    }

    /// Their addresses.
    pub fn addresses(&self) -> Vec<String> {
        self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect()
    }

    /// The port of one.
    pub fn port(&self, master: usize) -> u16 {
        self.servers[master].port()
    }

    /// Writes what a client leaves behind that acquired the lock on this master only and died.
    ///
    /// # Errors
    ///
    /// If the master does not take it.
    pub fn leave_vote(&self, peer: &Peer, master: usize, name: &str) -> io::Result<()> {
        let key = peer.key(name);
        let server = &self.servers[master];
        let reply = match peer.vote {
            Vote::Text | Vote::Redleash => server.command(&["SET", &key, "left", "NX", "PX", LEFT_MS])?,
            Vote::Hash => {
                server.command(&["HSET", &key, "left:1", "1"])?;
                server.command(&["PEXPIRE", &key, LEFT_MS])?
            }
        };
        match reply.is_ok() || reply.int() == Some(1) {
            true => Ok(()),
            false => Err(io::Error::other(format!("a vote could not be left behind: {reply:?}"))),
        }
    }

    /// Ends the vote of the client that died: its time is over, or its release arrives after all.
    ///
    /// # Errors
    ///
    /// If the master does not answer.
    pub fn end_vote(&self, peer: &Peer, master: usize, name: &str) -> io::Result<()> {
        const SCRIPT: &str = "local kind = redis.call('TYPE', KEYS[1]).ok
            if kind == 'string' and redis.call('GET', KEYS[1]) == 'left'
            or kind == 'hash' and redis.call('HEXISTS', KEYS[1], 'left:1') == 1
            then return redis.call('DEL', KEYS[1]) end return 0";
        self.servers[master].command(&["EVAL", SCRIPT, "1", &peer.key(name)]).map(drop)
    }

    /// Whether any master has the key of the lock `name`.
    ///
    /// # Errors
    ///
    /// If a master does not answer.
    pub fn any_key(&self, peer: &Peer, name: &str) -> io::Result<bool> {
        for server in &self.servers {
            if server.command(&["EXISTS", &peer.key(name)])?.int() != Some(0) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A crash of a master without persistence.
    ///
    /// # Errors
    ///
    /// If it does not come back.
    pub fn restart_empty(&self, master: usize) -> io::Result<()> {
        self.servers[master].restart_empty()
    }

    /// A step of a master's clock.
    ///
    /// # Errors
    ///
    /// If the shim's file cannot be written.
    pub fn step(&self, master: usize, by: Duration) -> io::Result<()> {
        self.clocks[master].step(by, true)
    }
}
