//! Real redis-servers on loopback.
//!
//! Integration tests include this file by `#[path]`, so it needs nothing but std and rustix.
#![allow(dead_code, unreachable_pub, reason = "every test binary includes it and uses a part")]
#![allow(clippy::disallowed_methods, reason = "the harness waits for other processes, not for the library's clock")]

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Deref;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(10);
const REPLY_LIMIT: Duration = Duration::from_secs(5);
const PORTS_TRIED: usize = 50;
/// Below the ports that outgoing connections get, so that nothing takes the port of a server that is down.
const FIRST_PORT: u32 = 20_000;
const PORTS: u32 = 12_000;

/// Can redis-server be started on this machine?
pub fn available() -> bool {
    let version = Command::new("redis-server").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// `true`, and said on stderr past the test harness's capture, when there is no redis-server to test against.
pub fn skipped() -> bool {
    let skip = !available();
    if skip {
        let _ = writeln!(io::stderr(), "SKIPPED: redis-server is not installed");
    }
    skip
}

/// Waits until `state` holds; `false` if it does not within `limit`.
pub fn wait_until(limit: Duration, mut state: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if state() {
            return true;
        }
        if start.elapsed() >= limit {
            return false;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// A private directory that goes with its owner, however the owner ends.
pub struct Scratch {
    path: PathBuf,
    keeper: Child,
}

/// Outlives an owner that was killed: the pipe closes, the last process named on it ends and the directory goes.
const KEEPER: &str = r#"pid=0
while read -r next; do pid=$next; done
[ "$pid" = 0 ] || kill -9 "$pid"
rm -rf "$1""#;

impl Scratch {
    pub fn new() -> io::Result<Scratch> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("redleash-{}-{count}", std::process::id()));
        fs::create_dir(&path)?;
        let keeper = Command::new("sh")
            .args(["-c", KEEPER, "sh"])
            .arg(&path)
            .process_group(0) // Ctrl-C is not for the keeper
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .inspect_err(|_| drop(fs::remove_dir_all(&path)))?;
        Ok(Scratch { path, keeper })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The process that must not outlive us; 0 for none.
    fn keep(&mut self, pid: u32) -> io::Result<()> {
        match &mut self.keeper.stdin {
            Some(pipe) => writeln!(pipe, "{pid}"),
            None => Ok(()),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// One redis-server: loopback only, nothing on disk unless its arguments say so, its own port and directory. Dropping it
/// ends it.
pub struct Server {
    port: u16,
    args: Vec<String>,
    env: Vec<(String, String)>,
    password: Option<String>,
    socket: Option<PathBuf>,
    process: Mutex<Process>,
}

struct Process {
    child: Child,
    running: bool,
    scratch: Scratch,
}

impl Server {
    pub fn start() -> io::Result<Server> {
        Server::start_with(&[])
    }

    /// With further arguments of redis-server, such as `["--requirepass", "x"]`.
    pub fn start_with(args: &[&str]) -> io::Result<Server> {
        Server::open(args, &[], false)
    }

    /// With further arguments, and more in its environment.
    pub fn start_under(args: &[&str], env: &[(String, String)]) -> io::Result<Server> {
        Server::open(args, env, false)
    }

    /// Listens on a unix socket too: [`unix_url`](Server::unix_url).
    pub fn start_with_socket() -> io::Result<Server> {
        Server::open(&[], &[], true)
    }

    fn open(args: &[&str], env: &[(String, String)], socket: bool) -> io::Result<Server> {
        let password = args.iter().position(|a| *a == "--requirepass").and_then(|i| args.get(i + 1));
        let password = password.map(|p| p.to_string());
        let mut args: Vec<String> = args.iter().map(|a| a.to_string()).collect();
        let env = env.to_vec();
        let mut scratch = Scratch::new()?;
        let socket = socket.then(|| scratch.path().join("socket"));
        if let Some(path) = &socket {
            args.extend(["--unixsocket".into(), path.display().to_string()]);
        }
        let mut last = io::Error::other("no free port");
        for _ in 0..PORTS_TRIED {
            let port = free_port()?;
            match launch(port, &args, &env, password.as_deref(), &mut scratch) {
                Ok(child) => {
                    let process = Mutex::new(Process { child, running: true, scratch });
                    return Ok(Server { port, args, env, password, socket, process });
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process that serves, or served last.
    pub fn pid(&self) -> u32 {
        self.process().child.id()
    }

    /// Its address, with the password if it asks for one.
    pub fn url(&self) -> String {
        let password = self.password.as_ref().map(|p| format!(":{p}@")).unwrap_or_default();
        format!("redis://{password}127.0.0.1:{}", self.port)
    }

    pub fn unix_url(&self) -> Option<String> {
        self.socket.as_ref().map(|path| format!("unix://{}", path.display()))
    }

    pub fn is_alive(&self) -> bool {
        let mut process = self.process();
        process.running && matches!(process.child.try_wait(), Ok(None))
    }

    /// SIGKILL; returns when the process and its connections are gone.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// The same address with nothing in it, and a new run id.
    pub fn restart_empty(&self) -> io::Result<()> {
        let mut process = self.process();
        process.kill();
        let written = process.scratch.path().join("appendonlydir");
        match fs::remove_dir_all(written) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => self.relaunch(&mut process),
        }
    }

    /// The same address and a new run id, with what it had written to its append-only file (`--appendonly yes`).
    pub fn restart(&self) -> io::Result<()> {
        let mut process = self.process();
        process.kill();
        self.relaunch(&mut process)
    }

    fn relaunch(&self, process: &mut Process) -> io::Result<()> {
        let start = Instant::now();
        loop {
            match launch(self.port, &self.args, &self.env, self.password.as_deref(), &mut process.scratch) {
                Ok(child) => {
                    process.child = child;
                    process.running = true;
                    return Ok(());
                }
                Err(error) if error.kind() != io::ErrorKind::AddrInUse || start.elapsed() > START_LIMIT => {
                    return Err(error);
                }
                Err(_) => {}
            }
        }
    }

    /// SIGSTOP; returns when it stands still. Connections stay open, and the kernel still accepts new ones.
    pub fn pause(&self) -> io::Result<()> {
        let process = self.process();
        let pid = Pid::from_child(&process.child);
        process.signal(Signal::STOP)?;
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let stopped = wait_until(REPLY_LIMIT, || !matches!(waitid(WaitId::Pid(pid), options), Ok(None)));
        if stopped { Ok(()) } else { Err(io::Error::new(io::ErrorKind::TimedOut, "redis-server did not stop")) }
    }

    pub fn resume(&self) -> io::Result<()> {
        self.process().signal(Signal::CONT)
    }

    /// Sends one command on a connection of its own.
    pub fn command(&self, words: &[&str]) -> io::Result<Reply> {
        ask(self.port, self.password.as_deref(), words)
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Process {
    fn signal(&self, signal: Signal) -> io::Result<()> {
        if self.running {
            kill_process(Pid::from_child(&self.child), signal)?;
        }
        Ok(())
    }

    fn kill(&mut self) {
        if self.running {
            // Before the wait frees the pid for somebody else.
            let _ = self.scratch.keep(0);
            let _ = self.child.kill();
            let _ = self.child.wait();
            self.running = false;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Several independent masters.
pub struct Cluster {
    servers: Vec<Server>,
}

impl Cluster {
    pub fn start(n: usize) -> io::Result<Cluster> {
        Cluster::start_with(n, &[])
    }

    pub fn start_with(n: usize, args: &[&str]) -> io::Result<Cluster> {
        let servers = (0..n).map(|_| Server::start_with(args)).collect::<io::Result<_>>()?;
        Ok(Cluster { servers })
    }

    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(Server::url).collect()
    }
}

impl Deref for Cluster {
    type Target = [Server];

    fn deref(&self) -> &[Server] {
        &self.servers
    }
}

/// A port that nothing listens on now, and that no outgoing connection gets.
pub fn free_port() -> io::Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..PORTS {
        // Test binaries that run side by side begin far from each other.
        let offset = std::process::id().wrapping_mul(7919).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = (FIRST_PORT + offset % PORTS) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "no free port"))
}

/// Starts redis-server and waits until it answers; `AddrInUse` if it ended at once.
fn launch(
    port: u16,
    args: &[String],
    env: &[(String, String)],
    password: Option<&str>,
    scratch: &mut Scratch,
) -> io::Result<Child> {
    let log = scratch.path().join("log");
    let out = File::create(&log)?;
    let mut child = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"])
        .arg(scratch.path())
        .args(args)
        .envs(env.iter().map(|(name, value)| (name, value)))
        .process_group(0) // Ctrl-C ends us, and then the keeper ends it
        .stdin(Stdio::null())
        .stderr(out.try_clone()?)
        .stdout(out)
        .spawn()?;
    let mut failure = scratch.keep(child.id()).err();
    let ready = failure.is_none()
        && wait_until(START_LIMIT, || match child.try_wait() {
            Ok(None) => answers(port, password, child.id()),
            Ok(Some(_)) => {
                let log = fs::read_to_string(&log).unwrap_or_default();
                let taken = log.contains("Address already in use");
                let kind = if taken { io::ErrorKind::AddrInUse } else { io::ErrorKind::Other };
                failure = Some(io::Error::new(kind, format!("redis-server ended at once:\n{log}")));
                true
            }
            Err(error) => {
                failure = Some(error);
                true
            }
        });
    if ready && failure.is_none() {
        return Ok(child);
    }
    let _ = scratch.keep(0);
    let _ = child.kill();
    let _ = child.wait();
    Err(failure.unwrap_or_else(|| io::Error::new(io::ErrorKind::TimedOut, "redis-server does not answer")))
}

/// Is it this process that answers at the port, and not a server that was there before?
fn answers(port: u16, password: Option<&str>, pid: u32) -> bool {
    match ask(port, password, &["INFO", "server"]) {
        Ok(Reply::Error(text)) => !text.starts_with("LOADING"), // INFO may be forbidden
        Ok(reply) => reply.text().is_some_and(|info| info.lines().any(|line| line == format!("process_id:{pid}"))),
        Err(_) => false,
    }
}

fn ask(port: u16, password: Option<&str>, words: &[&str]) -> io::Result<Reply> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(REPLY_LIMIT))?;
    stream.set_write_timeout(Some(REPLY_LIMIT))?;
    let mut stream = BufReader::new(stream);
    if let Some(password) = password {
        stream.get_mut().write_all(&encode(&["AUTH", password]))?;
        Reply::read(&mut stream)?;
    }
    stream.get_mut().write_all(&encode(words))?;
    Reply::read(&mut stream)
}

fn encode(words: &[&str]) -> Vec<u8> {
    let words = words.iter().map(|w| format!("${}\r\n{w}\r\n", w.len()));
    format!("*{}\r\n{}", words.len(), words.collect::<String>()).into_bytes()
}

/// A reply as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Nil,
    Int(i64),
    Status(String),
    Error(String),
    Bulk(Vec<u8>),
    Array(Vec<Reply>),
}

impl Reply {
    fn read(from: &mut impl BufRead) -> io::Result<Reply> {
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "not a reply");
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end_matches(['\r', '\n']);
        let (kind, rest) = line.split_at_checked(1).ok_or_else(bad)?;
        let number = || rest.parse::<i64>().map_err(|_| bad());
        Ok(match kind {
            "+" => Reply::Status(rest.into()),
            "-" => Reply::Error(rest.into()),
            ":" => Reply::Int(number()?),
            "$" | "*" if number()? < 0 => Reply::Nil,
            "$" => {
                let length = number()? as usize;
                let mut bytes = vec![0; length + 2];
                from.read_exact(&mut bytes)?;
                bytes.truncate(length);
                Reply::Bulk(bytes)
            }
            "*" => Reply::Array((0..number()?).map(|_| Reply::read(from)).collect::<io::Result<_>>()?),
            _ => return Err(bad()),
        })
    }

    pub fn is_nil(&self) -> bool {
        *self == Reply::Nil
    }

    pub fn is_ok(&self) -> bool {
        matches!(self, Reply::Status(text) if text == "OK")
    }

    pub fn int(&self) -> Option<i64> {
        match self {
            Reply::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// The text of a status, an error or a string.
    pub fn text(&self) -> Option<String> {
        match self {
            Reply::Status(text) | Reply::Error(text) => Some(text.clone()),
            Reply::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }

    /// The items of an array; none for anything else.
    pub fn items(&self) -> &[Reply] {
        match self {
            Reply::Array(items) => items,
            _ => &[],
        }
    }
}
