//! What the tests of the command line share: real masters, the real binary, and ways to wait for a state.
#![allow(dead_code, unreachable_pub, reason = "every test binary includes this and uses a part")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may stop at the first surprise, and reads the clock that its user reads"
)]

pub mod pty;

use redleash::{Client, Lock, LockGuard, Options, Retry};
use redleash_testkit::{Masters, Scratch, wait_until};
use signal_hook::consts::SIGPIPE;
use signal_hook::flag::register_conditional_default;
use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The program under test.
pub const REDLEASH: &str = env!("CARGO_BIN_EXE_redleash");

/// How long a test waits for a state at most. States come at once; this is for a machine that is small and busy.
pub const DEADLINE: Duration = Duration::from_secs(20);

pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Waits for a state; fails the test if it does not come.
#[track_caller]
pub fn eventually(what: &str, state: impl FnMut() -> bool) {
    assert!(wait_until(DEADLINE, state), "it did not come to this within {DEADLINE:?}: {what}");
}

/// Now, in nanoseconds since 1970: what `date +%s%N` prints in a command.
pub fn wall() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

/// Settled masters, a client of them, and a directory for what commands write.
pub struct Bench {
    pub masters: Masters,
    pub client: Client,
    pub scratch: Scratch,
}

/// `None`, and said loudly, where there is no redis-server.
pub fn bench(n: usize) -> Option<Bench> {
    bench_with(n, &[])
}

pub fn bench_with(n: usize, args: &[&str]) -> Option<Bench> {
    if redleash_testkit::skipped() {
        return None;
    }
    let masters = Masters::start_with(n, args).unwrap();
    let client = Client::builder().nodes(masters.urls()).connect_timeout(ms(2000)).build().unwrap();
    client.init().unwrap();
    Some(Bench { masters, client, scratch: Scratch::new().unwrap() })
}

impl Bench {
    /// A file that a command may write to.
    pub fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub fn nodes(&self) -> String {
        self.masters.urls().join(",")
    }

    /// `redleash ARGS...` with these masters.
    pub fn redleash(&self, args: &[&str]) -> Command {
        let mut command = redleash(args);
        command.env("REDLEASH_NODES", self.nodes());
        command
    }

    /// `redleash OPTIONS run NAME -- sh -c SCRIPT`, where `$F` is a file.
    pub fn script(&self, options: &[&str], name: &str, script: &str) -> Command {
        let args = [&["run"], options, &[name, "--", "sh", "-c", script]].concat();
        let mut command = self.redleash(&args);
        command.env("F", self.file("out"));
        command
    }

    /// What the commands of `script` wrote.
    pub fn written(&self) -> String {
        fs::read_to_string(self.file("out")).unwrap_or_default()
    }

    #[track_caller]
    pub fn eventually_written(&self, text: &str) {
        eventually(&format!("a command writes {text:?}"), || self.written().contains(text));
    }

    /// A handle whose waiting callers ask every 20 ms.
    pub fn lock(&self, name: &str) -> Lock {
        let pause = Retry::Fixed(ms(20));
        self.client.lock(name).options(Options::new().retry(pause).label("test bench"))
    }

    #[track_caller]
    pub fn hold(&self, name: &str) -> LockGuard {
        self.lock(name).try_acquire().unwrap().expect("the lock is free")
    }

    /// Waits for the lock on a thread; the moment at which it was granted.
    pub fn next_holder(&self, name: &str) -> JoinHandle<u128> {
        let lock = self.lock(name);
        thread::spawn(move || {
            let guard = lock.try_acquire_for(ms(60_000)).unwrap();
            let at = wall();
            drop(guard.expect("the lock was never free"));
            at
        })
    }

    /// Whether nobody holds the lock at this moment.
    pub fn is_free(&self, name: &str) -> bool {
        self.lock(name).try_acquire().unwrap().is_some()
    }

    /// The last moment at which a command of `WORK` was at work.
    pub fn last_sign_of_life(&self) -> u128 {
        let text = self.written();
        // A line is whole only if it ends.
        let whole = &text[..text.rfind('\n').map_or(0, |i| i + 1)];
        whole.lines().rev().find_map(|line| line.parse().ok()).expect("a moment was written")
    }
}

/// A command that cannot be asked to end, and writes the time all the while.
pub const WORK: &str = r#"trap "" TERM; while :; do date +%s%N >> "$F"; sleep 0.01; done"#;

/// Gives ignored signals their default effect, in this process and in those that it starts: a shell script (`&`) or
/// nohup may have started the tests with signals ignored, and every program started here would inherit that.
pub fn hear_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0").trim();
        let ignored = u64::from_str_radix(ignored, 16).unwrap();
        // The standard library ignores SIGPIPE, but not in the programs that it starts.
        for signal in (1..32).filter(|signal| ignored & (1 << (signal - 1)) != 0 && *signal != SIGPIPE) {
            // A handler does not survive the start of another program; this one does what no handler would do.
            let _ = register_conditional_default(signal, Arc::new(AtomicBool::new(true)));
        }
    });
}

pub fn redleash(args: &[&str]) -> Command {
    hear_signals();
    let mut command = Command::new(REDLEASH);
    command.args(args).stdin(Stdio::null());
    for name in ["NODES", "NAMESPACE", "DEPLOYMENT", "MAX_LEASE", "FAULT_MARGIN", "NAME", "FENCE"] {
        command.env_remove(format!("REDLEASH_{name}"));
    }
    command
}

/// A running redleash. Dropping it kills it.
pub struct Running {
    process: Child,
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
}

/// What became of it.
#[derive(Debug)]
pub struct Done {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl Done {
    #[track_caller]
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("redleash itself was killed: {self:?}"))
    }

    /// The code, and every one of these words on standard error.
    #[track_caller]
    pub fn expect(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code(), code, "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not in {self:?}");
        }
    }
}

/// Starts it with its output captured.
pub fn start(command: &mut Command) -> Running {
    hear_signals();
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let out = process.stdout.take().map(collect);
    let err = process.stderr.take().map(collect);
    Running { process, out, err }
}

/// Runs it to its end.
#[track_caller]
pub fn done(command: &mut Command) -> Done {
    start(command).end()
}

fn collect(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    pub fn stdin(&mut self) -> &mut std::process::ChildStdin {
        self.process.stdin.as_mut().unwrap()
    }

    /// Closes it when dropped.
    pub fn take_stdin(&mut self) -> Option<std::process::ChildStdin> {
        self.process.stdin.take()
    }

    pub fn tell(&mut self, text: &str) {
        self.stdin().write_all(text.as_bytes()).unwrap();
    }

    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    pub fn is_running(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn end(mut self) -> Done {
        let mut status = None;
        let ended = wait_until(3 * DEADLINE, || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        assert!(ended, "redleash did not end");
        let text = |handle: Option<JoinHandle<String>>| {
            let handle = handle.expect("its output is read");
            assert!(
                wait_until(DEADLINE, || handle.is_finished()),
                "something that redleash left behind holds its output open"
            );
            handle.join().unwrap()
        };
        Done { status: status.unwrap(), out: text(self.out.take()), err: text(self.err.take()) }
    }

    /// The supervisor that it started.
    pub fn supervisor(&self) -> u32 {
        child_of(self.pid())
    }

    /// The command that its supervisor started.
    pub fn command(&self) -> u32 {
        child_of(self.supervisor())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The only child of a process, as soon as it has one.
#[track_caller]
pub fn child_of(pid: u32) -> u32 {
    let mut child = None;
    eventually("a child process", || {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let children = fs::read_to_string(path).unwrap_or_default();
        child = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
        child.is_some()
    });
    child.unwrap()
}

pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap();
    assert!(status.success(), "kill -s {name} {pid}");
}

/// The state letter of a process in /proc; `None` if it has ended.
pub fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether it is there, and not merely uncollected.
pub fn is_alive(pid: u32) -> bool {
    !matches!(state(pid), None | Some('Z' | 'X'))
}
