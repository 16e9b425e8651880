//! Several servers that know nothing of each other.

use crate::Server;
use std::io;
use std::ops::Deref;

/// Independent redis-servers, one master each: `masters[0]` is a [`Server`]. Dropping them ends them.
pub struct Masters {
    servers: Vec<Server>,
}

impl Masters {
    /// Starts `n` of them, empty; returns when each answers.
    ///
    /// # Errors
    ///
    /// If redis-server cannot be started, finds no free port, or does not answer within ten seconds.
    pub fn start(n: usize) -> io::Result<Masters> {
        Masters::start_with(n, &[])
    }

    /// The same with further arguments of redis-server, such as `["--requirepass", "secret"]`, or
    /// `["--appendonly", "yes"]` for masters that [`restart`](Server::restart) with their data.
    ///
    /// # Errors
    ///
    /// As [`start`](Masters::start).
    pub fn start_with(n: usize, args: &[&str]) -> io::Result<Masters> {
        let servers = (0..n).map(|_| Server::start_with(args)).collect::<io::Result<_>>()?;
        Ok(Masters { servers })
    }

    /// Their addresses, as a client names them.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(Server::url).collect()
    }
}

impl Deref for Masters {
    type Target = [Server];

    fn deref(&self) -> &[Server] {
        &self.servers
    }
}
