//! One master: its address, and how a connection to it is made.

use super::conn::{Conn, Stream};
use super::handshake::greet;
use crate::protocol::Mono;
use crate::protocol::generation::difference;
use crate::sys::sync::Mutex;
use crate::sys::{clock, journal};
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Why a server is refused for good: no retry will mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// Another of our nodes is the same server; its index and label.
    Duplicate(usize, String),
    /// It is a replica.
    Replica,
    /// It is a node of a Redis Cluster.
    ClusterNode,
    /// It has the generation of another deployment (`max_lease_ms:cluster:N:q`), or of an older version; theirs and ours.
    Deployment(String, String),
    /// It does not say who it is, so that nobody would notice if another server took its place; why.
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
                write!(f, "it is the same server as {other}; every node must be a server of its own")
            }
            Unfit::Replica => write!(f, "it is a replica; a lock needs independent masters"),
            Unfit::Deployment(theirs, ours) => f.write_str(&difference(theirs, ours)),
            Unfit::Nameless(why) => write!(
                f,
                "nobody can tell who it is, and so whether it has forgotten a lock: {why}; INFO must show run_id, role and \
                 master_replid (ACL right +info)"
            ),
            Unfit::Access(why) => f.write_str(why),
            Unfit::ClusterNode => write!(f, "it is a node of a Redis Cluster; a lock needs independent masters"),
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

/// A node's URL read and found fit.
pub(crate) struct Address {
    pub(super) info: ConnectionInfo,
    /// Host and port or the path of a socket, without credentials.
    pub(crate) label: String,
}

/// What a node's URL looks like.
const SHAPE: &str = "give redis://[[user]:password@]host[:port][/db] or unix:///path, and percent-encode what is neither \
                     letter nor digit in a user or password";

impl Address {
    /// Reads a URL; the error says what is wrong with it and repeats nothing that could be a password.
    pub(crate) fn parse(url: &str) -> Result<Address, String> {
        let url = url.trim();
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        if scheme.contains("sentinel") {
            return Err("Sentinel is not supported: name the independent masters themselves".into());
        }
        if scheme.contains("cluster") {
            return Err("Redis Cluster is not supported: its nodes are not independent copies".into());
        }
        if matches!(scheme, "rediss" | "valkeys") {
            return Err("TLS is not built in yet: use redis://, over a network that you trust".into());
        }
        if !matches!(scheme, "redis" | "valkey" | "redis+unix" | "valkey+unix" | "unix") {
            return Err(format!("it does not begin with redis:// or unix://; {SHAPE}"));
        }
        if url.split_once("://").is_some_and(|(_, rest)| rest.split(['/', '?']).next().unwrap_or("").contains(',')) {
            return Err("it lists several hosts: give each node a URL of its own".into());
        }
        // Read as it stands, the beginning of such a password would be the port of a host that has the user's name.
        if !scheme.ends_with("unix") && url.rsplit_once('@').is_some_and(|(head, _)| ends_the_host(head)) {
            return Err(
                "an '@' stands behind the host: write '/', '?', '#' and '@' in a password as %2F, %3F, %23 and %40"
                    .into(),
            );
        }
        let user = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')).map_or("", |(user, _)| user);
        if !scheme.ends_with("unix") && !user.is_empty() && !user.contains(':') {
            return Err(
                "what stands before its '@' is a user without a password: a password stands behind a colon, as in \
                 redis://:PASSWORD@host or redis://USER:PASSWORD@host"
                    .into(),
            );
        }
        let info = url
            .into_connection_info()
            .map_err(|e| format!("it is malformed ({}); {SHAPE}", harmless(url, &e.to_string())))?;
        let label = match info.addr() {
            // As it stands in a URL, so that it can be copied into one.
            ConnectionAddr::Tcp(host, port) if host.contains(':') => format!("[{host}]:{port}"),
            ConnectionAddr::Tcp(host, port) => format!("{host}:{port}"),
            ConnectionAddr::Unix(path) => path.display().to_string(),
            ConnectionAddr::TcpTls { .. } => return Err("TLS is not supported yet: use redis://".into()),
            _ => return Err("this kind of address is not supported".into()),
        };
        Ok(Address { info, label })
    }
}

/// Whether the part of a URL with user, password and host ends in `head`.
fn ends_the_host(head: &str) -> bool {
    head.split_once("://").is_some_and(|(_, rest)| rest.contains(['/', '?', '#']))
}

/// The text of an error about `url`, unless it repeats what stands where a password may.
fn harmless(url: &str, text: &str) -> String {
    let secret = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')).map(|(credentials, _)| credentials);
    let leaks = secret.is_some_and(|s| s.split(':').any(|part| !part.is_empty() && text.contains(part)));
    if leaks { "check the user, the password and the host".into() } else { text.to_string() }
}

/// The run ids of the servers that our nodes lead to, to notice two names of one server.
pub(crate) struct Registry(Mutex<Vec<Option<String>>>);

impl Registry {
    pub(crate) fn new(n: usize) -> Arc<Registry> {
        Arc::new(Registry(Mutex::new(vec![None; n])))
    }

    /// Notes the run id of node `i`; the other node that leads to the same server.
    pub(super) fn claim(&self, i: usize, run_id: &str) -> Result<(), usize> {
        let mut seen = self.0.lock();
        if let Some(other) = seen.iter().enumerate().position(|(j, s)| j != i && s.as_deref() == Some(run_id)) {
            return Err(other);
        }
        seen[i] = Some(run_id.to_string());
        Ok(())
    }

    /// Node `i` has no connection: the server that it led to may be another node's now.
    pub(crate) fn release(&self, i: usize) {
        self.0.lock()[i] = None;
    }
}

/// Makes connections to one master.
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
    /// A connection to a server that is fit for locks, within the connect limit; looking up the host's name can take longer.
    pub(crate) fn connect(&self) -> Result<Conn, ConnectError> {
        let deadline = clock::now().plus(self.connect_timeout);
        let io = |e: io::Error| ConnectError::Io(describe(&e));
        let stream = self.dial(deadline).map_err(io)?;
        let server = greet(self, &stream, deadline)?;
        stream.set_nonblocking().map_err(io)?;
        Ok(Conn::new(stream, server))
    }

    fn dial(&self, deadline: Mono) -> io::Result<Stream> {
        match self.address.info.addr() {
            ConnectionAddr::Unix(path) => patiently(deadline, || UnixStream::connect(path)).map(Stream::Unix),
            ConnectionAddr::Tcp(host, port) => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
                let found: Vec<SocketAddr> =
                    patiently(deadline, || (host.as_str(), *port).to_socket_addrs())?.collect();
                for address in &found {
                    let left = || deadline.since(clock::now()).max(Duration::from_millis(1));
                    match patiently(deadline, || TcpStream::connect_timeout(address, left())) {
                        Ok(s) => return s.set_nodelay(true).map(|()| Stream::Tcp(s)),
                        Err(e) => last = e,
                    }
                }
                Err(last)
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Connections are made again and again: what is wrong with the server is said once.
    pub(super) fn warn_once(&self, what: &str) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            journal::warn!("{}: {what}", self.address.label);
        }
    }
}

/// Does it again when a signal came in between, until `deadline`.
fn patiently<T>(deadline: Mono, mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match act() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted && clock::now() < deadline => {}
            done => return done,
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
