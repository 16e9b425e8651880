//! One redis-server: how it is started, disturbed and ended.

use crate::reply::{REPLY_TIMEOUT, Reply, ask};
use crate::scratch::Scratch;
use crate::wait_until;
use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const START_TIMEOUT: Duration = Duration::from_secs(10);
const PORTS_TRIED: usize = 50;
/// Below the ports that outgoing connections get, so that nothing takes the port of a server that is down.
const FIRST_PORT: u32 = 20_000;
const PORTS: u32 = 12_000;

/// One redis-server: on loopback only, with a port and a directory of its own, and nothing on disk unless its arguments
/// say so. Dropping it ends it.
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
    /// Starts one, empty; returns when it answers.
    ///
    /// # Errors
    ///
    /// If redis-server cannot be started, finds no free port, or does not answer within ten seconds.
    pub fn start() -> io::Result<Server> {
        Server::start_with(&[])
    }

    /// The same with further arguments of redis-server, such as `["--requirepass", "secret"]` or
    /// `["--appendonly", "yes"]`.
    ///
    /// # Errors
    ///
    /// As [`start`](Server::start).
    pub fn start_with(args: &[&str]) -> io::Result<Server> {
        Server::open(args, &[], false)
    }

    /// The same with further arguments, and more in its environment.
    ///
    /// # Errors
    ///
    /// As [`start`](Server::start).
    pub fn start_under(args: &[&str], env: &[(String, String)]) -> io::Result<Server> {
        Server::open(args, env, false)
    }

    /// One that listens on a Unix socket too: [`unix_url`](Server::unix_url).
    ///
    /// # Errors
    ///
    /// As [`start`](Server::start).
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

    /// Its port on loopback, also while it is down.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id of the server, or of the one that served last.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process().child.id()
    }

    /// Its address, as a client names it, with the password if it asks for one.
    #[must_use]
    pub fn url(&self) -> String {
        let password = self.password.as_ref().map(|p| format!(":{p}@")).unwrap_or_default();
        format!("redis://{password}127.0.0.1:{}", self.port)
    }

    /// Its address by its Unix socket; `None` unless it was started with one.
    #[must_use]
    pub fn unix_url(&self) -> Option<String> {
        self.socket.as_ref().map(|path| format!("unix://{}", path.display()))
    }

    /// Whether its process runs; a paused one does.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let mut process = self.process();
        process.running && matches!(process.child.try_wait(), Ok(None))
    }

    /// SIGKILL; returns when the process and its connections have ended.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Kills it, and starts it again at the same address with nothing in it and a new run id: a crash without
    /// persistence.
    ///
    /// # Errors
    ///
    /// If it does not come back within ten seconds.
    pub fn restart_empty(&self) -> io::Result<()> {
        let mut process = self.process();
        process.kill();
        let written = process.scratch.path().join("appendonlydir");
        match fs::remove_dir_all(written) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => self.relaunch(&mut process),
        }
    }

    /// Kills it, and starts it again at the same address with a new run id and what its append-only file has (start it
    /// with `["--appendonly", "yes"]`).
    ///
    /// # Errors
    ///
    /// If it does not come back within ten seconds.
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
                Err(error) if error.kind() != io::ErrorKind::AddrInUse || start.elapsed() > START_TIMEOUT => {
                    return Err(error);
                }
                Err(_) => {}
            }
        }
    }

    /// Stops its process with SIGSTOP and returns when it stands still: a hung master. Connections stay open, and the
    /// kernel still accepts new ones.
    ///
    /// # Errors
    ///
    /// If the signal cannot be sent or the process goes on.
    pub fn pause(&self) -> io::Result<()> {
        let process = self.process();
        let pid = Pid::from_child(&process.child);
        process.signal(Signal::STOP)?;
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let stopped = wait_until(REPLY_TIMEOUT, || !matches!(waitid(WaitId::Pid(pid), options), Ok(None)));
        if stopped { Ok(()) } else { Err(io::Error::new(io::ErrorKind::TimedOut, "redis-server did not stop")) }
    }

    /// Lets a paused one go on.
    ///
    /// # Errors
    ///
    /// If the signal cannot be sent.
    pub fn resume(&self) -> io::Result<()> {
        self.process().signal(Signal::CONT)
    }

    /// `FLUSHALL`: it forgets everything, and goes on with the same run id.
    ///
    /// # Errors
    ///
    /// If it does not answer, or refuses.
    pub fn flush(&self) -> io::Result<()> {
        self.command(&["FLUSHALL"])?.done()
    }

    /// `ACL SETUSER name on >password rights...`: creates a user or changes one. Its rights are those of
    /// `ACL SETUSER`, such as `["~rl:*", "&rl:*", "+@all", "-info"]`.
    ///
    /// # Errors
    ///
    /// If it does not answer, or refuses a right.
    pub fn set_user(&self, name: &str, password: &str, rights: &[&str]) -> io::Result<()> {
        let password = format!(">{password}");
        self.command(&[&["ACL", "SETUSER", name, "on", &password], rights].concat())?.done()
    }

    /// Sends one command on a connection of its own, and waits up to five seconds for its reply.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached or does not answer. An error that it answers is a [`Reply::Error`].
    pub fn command(&self, words: &[&str]) -> io::Result<Reply> {
        ask(self.port, self.password.as_deref(), words)
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock()
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
            // Before the wait frees the pid for another process.
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

/// A port that nothing listens on now, and that no outgoing connection gets.
///
/// # Errors
///
/// If all 12 000 that are tried are taken.
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
        && wait_until(START_TIMEOUT, || match child.try_wait() {
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

/// Whether this process answers at the port, and not a server that was there before, and has read its append-only file.
fn answers(port: u16, password: Option<&str>, pid: u32) -> bool {
    match ask(port, password, &["INFO"]) {
        Ok(Reply::Error(text)) => !text.starts_with("LOADING"), // INFO may be forbidden
        Ok(reply) => reply.text().is_some_and(|info| {
            let has = |wanted: &str| info.lines().any(|line| line == wanted);
            has(&format!("process_id:{pid}")) && has("loading:0")
        }),
        Err(_) => false,
    }
}
