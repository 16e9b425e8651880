//! One master: its address, and how a connection to it is made.

use super::conn::{Conn, Stream};
use super::decode::masked;
use super::reply::{READ, Replies, Stop};
use crate::protocol::Mono;
use crate::protocol::generation::Generation;
use crate::sys::sync::Mutex;
use crate::sys::{clock, journal};
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, Value, cmd};
use std::fmt;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// Why a server is refused for good: no retry will mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// Another of our nodes is the same server; its label.
    Duplicate(String),
    /// It is a replica.
    Replica,
    /// It is a node of a Redis Cluster.
    ClusterNode,
    /// It has the generation of another deployment (`max_lease_ms:cluster:N:q`); theirs and ours.
    Deployment(String, String),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Duplicate(other) => {
                write!(f, "it is the same server as {other}; every node must be a server of its own")
            }
            Unfit::Replica => write!(f, "it is a replica; a lock needs independent masters"),
            Unfit::Deployment(theirs, ours) => write!(
                f,
                "it belongs to a deployment with other settings (max_lease_ms:deployment:nodes:quorum is {theirs} there, {ours} \
                 here), and a client without quarantine would not be kept apart from it"
            ),
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
    info: ConnectionInfo,
    /// Host and port or the path of a socket, without credentials.
    pub(crate) label: String,
}

/// What a node's URL looks like.
const SHAPE: &str = "give redis://[[user]:password@]host[:port][/db] or unix:///path";

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

/// The run ids that our nodes have shown, to notice two names of one server.
pub(crate) struct Registry(Mutex<Vec<Option<String>>>);

impl Registry {
    pub(crate) fn new(n: usize) -> Arc<Registry> {
        Arc::new(Registry(Mutex::new(vec![None; n])))
    }

    /// Notes the run id of node `i`; the other node that has shown the same one.
    fn claim(&self, i: usize, run_id: &str) -> Result<(), usize> {
        let mut seen = self.0.lock();
        if let Some(other) = seen.iter().enumerate().position(|(j, s)| j != i && s.as_deref() == Some(run_id)) {
            return Err(other);
        }
        seen[i] = Some(run_id.to_string());
        Ok(())
    }
}

/// Makes connections to one master.
pub(crate) struct Connector {
    pub(crate) index: usize,
    pub(crate) address: Address,
    pub(crate) labels: Arc<Vec<String>>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) connect_limit: Duration,
    /// The key of the generation, and the deployment that a client without quarantine must find there, if any: its plain
    /// votes do not ask for it.
    pub(crate) must_match: Option<(String, String)>,
}

impl Connector {
    /// A connection to a server that is fit for locks, within the connect limit; looking up the host's name can take longer.
    pub(crate) fn connect(&self) -> Result<Conn, ConnectError> {
        let deadline = clock::now().plus(self.connect_limit);
        let io = |e: io::Error| ConnectError::Io(describe(&e));
        let stream = self.dial(deadline).map_err(io)?;
        let handshake = Handshake { stream: &stream, deadline };
        let run_id = handshake.run(self)?;
        if let Some((key, ours)) = &self.must_match {
            handshake.compare(key, ours)?;
        }
        stream.set_nonblocking().map_err(io)?;
        Ok(Conn::new(stream, run_id))
    }

    fn dial(&self, deadline: Mono) -> io::Result<Stream> {
        match self.address.info.addr() {
            ConnectionAddr::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
            ConnectionAddr::Tcp(host, port) => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    let left = deadline.since(clock::now()).max(Duration::from_millis(1));
                    match TcpStream::connect_timeout(&address, left) {
                        Ok(s) => return s.set_nodelay(true).map(|()| Stream::Tcp(s)),
                        Err(e) => last = e,
                    }
                }
                Err(last)
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Judges the server by its `INFO`; its run id, empty if it does not tell.
    fn examine(&self, info: &str) -> Result<String, ConnectError> {
        let field = |name: &str| info.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
        if field("cluster_enabled") == Some("1") {
            return Err(ConnectError::Unfit(Unfit::ClusterNode));
        }
        if field("role").is_some_and(|role| role != "master") {
            return Err(ConnectError::Unfit(Unfit::Replica));
        }
        if let Some(policy) = field("maxmemory_policy").filter(|p| *p != "noeviction")
            && field("maxmemory").is_some_and(|m| m != "0")
        {
            journal::warn!("{}: maxmemory-policy {policy} may evict locks; set noeviction", self.address.label);
        }
        let run_id = field("run_id").unwrap_or_default();
        if !run_id.is_empty() {
            self.registry
                .claim(self.index, run_id)
                .map_err(|other| ConnectError::Unfit(Unfit::Duplicate(self.labels[other].clone())))?;
        }
        Ok(run_id.to_string())
    }
}

/// The words of an I/O error without the operating system's number, which says nothing to most.
fn describe(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer in time".into(),
        io::ErrorKind::ConnectionRefused => "connection refused".into(),
        _ => e.to_string(),
    }
}

struct Handshake<'a> {
    stream: &'a Stream,
    deadline: Mono,
}

impl Handshake<'_> {
    /// AUTH, SELECT, INFO: what it takes to use the connection and to know the server.
    fn run(&self, connector: &Connector) -> Result<String, ConnectError> {
        let settings = connector.address.info.redis_settings();
        if let Some(password) = settings.password() {
            let mut auth = cmd("AUTH");
            if let Some(user) = settings.username() {
                auth.arg(user);
            }
            self.expect_ok(auth.arg(password), "AUTH")?;
        }
        if settings.db() != 0 {
            self.expect_ok(cmd("SELECT").arg(settings.db()), "SELECT")?;
        }
        match self.ask(&cmd("INFO").get_packed_command())? {
            Value::BulkString(text) => connector.examine(&String::from_utf8_lossy(&text)),
            Value::ServerError(e) if e.code() == "NOPERM" => {
                journal::debug!(
                    "{}: INFO is not permitted; a restart is recognised by its empty memory only",
                    connector.address.label
                );
                Ok(String::new())
            }
            Value::ServerError(e) => Err(ConnectError::Refused(format!("INFO: {}", e.code()))),
            _ => Err(ConnectError::Refused("INFO: an answer that makes no sense".into())),
        }
    }

    /// Refuses a master that has the generation of another deployment than `ours`.
    fn compare(&self, key: &str, ours: &str) -> Result<(), ConnectError> {
        let Value::BulkString(text) = self.ask(&cmd("GET").arg(key).get_packed_command())? else { return Ok(()) };
        match Generation::parse(&String::from_utf8_lossy(&text)) {
            Some(theirs) if theirs.block != ours => {
                Err(ConnectError::Unfit(Unfit::Deployment(theirs.block, ours.to_string())))
            }
            _ => Ok(()),
        }
    }

    fn expect_ok(&self, command: &redis::Cmd, name: &str) -> Result<(), ConnectError> {
        match self.ask(&command.get_packed_command())? {
            Value::Okay => Ok(()),
            Value::ServerError(e) => {
                let why = masked(e.details().unwrap_or_default());
                Err(ConnectError::Refused(format!("{name}: {} {why}", e.code()).trim_end().to_string()))
            }
            _ => Err(ConnectError::Refused(format!("{name}: an answer that makes no sense"))),
        }
    }

    /// Sends a command and reads its reply, all before the deadline.
    fn ask(&self, bytes: &[u8]) -> Result<Value, ConnectError> {
        let io = |e: io::Error| ConnectError::Io(describe(&e));
        let timed_out = || ConnectError::Io("no answer in time".into());
        let mut at = 0;
        while at < bytes.len() {
            self.arm().ok_or_else(timed_out)?.map_err(io)?;
            at += self.stream.send(&bytes[at..]).map_err(io)?;
        }
        let (mut replies, mut buffer) = (Replies::new(), vec![0; READ]);
        loop {
            self.arm().ok_or_else(timed_out)?.map_err(io)?;
            let n = self.stream.receive(&mut buffer).map_err(io)?;
            if n == 0 {
                return Err(ConnectError::Io("the server closed the connection".into()));
            }
            let mut value = None;
            let stop = replies.feed(&buffer[..n], |v| value.replace(v).is_none());
            match (value, stop) {
                (Some(value), Stop::Hungry) => return Ok(value),
                (_, Stop::Nonsense) => return Err(ConnectError::Io("an answer that makes no sense".into())),
                (None, Stop::Hungry) => {}
            }
        }
    }

    /// Sets the socket's time limit to what is left; `None` if nothing is.
    fn arm(&self) -> Option<io::Result<()>> {
        let left = self.deadline.since(clock::now());
        (!left.is_zero()).then(|| self.stream.set_timeout(left))
    }
}
