//! What a client knows of one master before it is connected: its address, what it must be, and why it may be refused.

use super::address::Address;
use crate::protocol::generation::difference;
use crate::sys::journal;
use crate::sys::sync::{Mutex, Rank};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Why a server is refused for good: no retry will mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// Another of our masters is the same server; its index and label.
    Duplicate(usize, String),
    /// It is a replica.
    Replica,
    /// It is a server of a Redis Cluster.
    ClusterNode,
    /// It has the generation of another deployment (`max_lease_ms:deployment:N:q`), or of an older version; theirs and
    /// ours.
    Deployment(String, String),
    /// It does not give its identity, so that another server in its place would go unnoticed; why.
    Nameless(String),
    /// It does not let this user in, or not do what a lock needs; why, and what to do.
    Access(String),
}

impl Unfit {
    /// Whether the server at the address is another one than a connection that is there leads to, or is no master any
    /// more. Not so where it only refuses newcomers: a password may have been changed.
    pub(crate) fn is_elsewhere(&self) -> bool {
        !matches!(self, Unfit::Nameless(_) | Unfit::Access(_))
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Duplicate(_, other) => {
                write!(f, "it is the same server as {other}; every master must be a server of its own")
            }
            Unfit::Replica => write!(f, "it is a replica; a lock needs independent masters"),
            Unfit::Deployment(theirs, ours) => f.write_str(&difference(theirs, ours)),
            Unfit::Nameless(why) => write!(
                f,
                "nobody can tell who it is, and so whether it has forgotten a lock: {why}; INFO must show run_id, role \
                 and master_replid (ACL right +info)"
            ),
            Unfit::Access(why) => f.write_str(why),
            Unfit::ClusterNode => write!(f, "it is a server of a Redis Cluster; a lock needs independent masters"),
        }
    }
}

/// Why a connection could not be made. Carries no credentials.
#[derive(Clone, Debug)]
pub(crate) enum ConnectError {
    Io(String),
    Refused(String),
    Unfit(Unfit),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Io(e) => write!(f, "{e}"),
            ConnectError::Refused(e) => write!(f, "the server refused: {e}"),
            ConnectError::Unfit(e) => write!(f, "{e}"),
        }
    }
}

/// The run ids of our masters, to notice two addresses of one server.
pub(crate) struct Registry(Mutex<Vec<Option<String>>>);

impl Registry {
    pub(crate) fn new(n: usize) -> Arc<Registry> {
        Arc::new(Registry(Mutex::new(Rank::Registry, vec![None; n])))
    }

    /// Notes the run id of master `i`; `Err` with the other master that is the same server.
    pub(super) fn claim(&self, i: usize, run_id: &str) -> Result<(), usize> {
        let mut seen = self.0.lock();
        if let Some(other) = seen.iter().enumerate().position(|(j, s)| j != i && s.as_deref() == Some(run_id)) {
            return Err(other);
        }
        seen[i] = Some(run_id.to_string());
        Ok(())
    }

    /// Master `i` has no connection: another address may lead to its server now.
    pub(crate) fn release(&self, i: usize) {
        self.0.lock()[i] = None;
    }
}

/// What a connection to one master needs (`dial.rs` makes it, `handshake.rs` judges it).
pub(crate) struct Connector {
    pub(crate) index: usize,
    pub(crate) address: Address,
    pub(crate) labels: Arc<Vec<String>>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) connect_timeout: Duration,
    /// The key of the generation, and the deployment that a generation there must have.
    pub(crate) generation: String,
    pub(crate) block: String,
    /// A key that nothing uses, to try commands on, and the pattern of all keys.
    pub(crate) unused: String,
    pub(crate) pattern: String,
    /// The server's settings were warned of.
    pub(crate) warned: AtomicBool,
}

impl Connector {
    /// Connections are made again and again: what is wrong with the server is said once.
    pub(super) fn warn_once(&self, what: &str) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            journal::warn!("{}: {what}", self.address.label);
        }
    }
}

/// The words of an I/O error without the operating system's number, which says nothing to most.
pub(super) fn describe(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer in time".into(),
        io::ErrorKind::ConnectionRefused => "connection refused".into(),
        io::ErrorKind::ConnectionReset => "connection reset".into(),
        _ => e.to_string(),
    }
}
