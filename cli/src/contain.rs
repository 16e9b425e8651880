//! `--contain`: the command in a pid namespace of its own. The supervisor is the first process in there, and the kernel kills
//! all others with it: nothing escapes by forking, by setsid, or because nobody is left to look for it.
//!
//! One more process, the warden, is between redleash and the supervisor. It makes the namespace and stays outside. A timer of the
//! kernel kills it shortly before the lease ends, also if it is stopped, and the supervisor dies with it. So the command is
//! dead before the lease ends, though every process of redleash were stopped or killed.
//!
//! Each step refuses with a reason, and `probe` takes them all before the lock is waited for.

use crate::alarm::{self, Alarm};
use crate::args::OnLost;
use crate::clock::Moment;
use crate::exit::{Failure, SYSTEM, USAGE};
use crate::link::{self, Order, Report};
use crate::say;
use crate::signals;
use crate::supervised;
use crate::supervisor;
use imp::Fuse;
use rustix::fd::{AsFd, OwnedFd};
use signal_hook::consts::SIGCHLD;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub(crate) use imp::{pid_outside, settle};

/// The word that starts the warden: `redleash contain ON_LOST MARGIN_NS` and the arguments of the supervisor.
pub(crate) const STAGE: &str = "contain";
/// The words that start the two stages of a trial.
pub(crate) const PROBE: &str = "contain-probe";
pub(crate) const PROBE_INSIDE: &str = "contain-probe-inside";

/// How much of the margin is left when the timer kills the warden: the supervisor had the other three quarters of it.
const LAST: u32 = 4;

/// Whether the command can be contained on this machine, by this user. The reason of a refusal otherwise.
pub(crate) fn probe(name: &str) -> Result<(), Failure> {
    let refused =
        |why: &str| Failure::new(SYSTEM, format!("lock {name:?}: --contain: {}; nothing was started", why.trim_end()));
    let trial = supervised::myself().and_then(|myself| {
        Command::new(myself).arg0("redleash").arg(PROBE).stdin(Stdio::null()).stderr(Stdio::null()).output()
    });
    match trial {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => Err(refused(&String::from_utf8_lossy(&done.stdout))),
        Err(e) => Err(refused(&e.to_string())),
    }
}

/// The stages of `probe`; the reason of a refusal goes to the standard output.
pub(crate) fn probe_main(inside: bool) -> u8 {
    let inner = || -> io::Result<()> {
        signals::hear_of_children()?;
        imp::enter()?;
        Fuse::new()?;
        let status = Command::new(supervised::myself()?).arg0("redleash").arg(PROBE_INSIDE).status()?;
        // It has given its reason.
        if status.success() { Ok(()) } else { Err(io::Error::other("")) }
    };
    match if inside { settle() } else { inner() } {
        Ok(()) => 0,
        Err(e) => {
            say::result(&e.to_string());
            SYSTEM
        }
    }
}

/// The warden.
pub(crate) fn main(args: &[OsString]) -> u8 {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(c"redleash");
    let stdin_is_a_socket = rustix::net::sockopt::socket_type(io::stdin()).is_ok();
    let word = |i: usize| args.get(i)?.to_str();
    let on_lost = word(0).and_then(|word| <OnLost as clap::ValueEnum>::from_str(word, false).ok());
    let margin = word(1).and_then(|word| word.parse().ok()).map(Duration::from_nanos);
    let (Some(on_lost), Some(margin), true) = (on_lost, margin, stdin_is_a_socket) else {
        say::sentence("this stage is started by `redleash run` only");
        return USAGE;
    };
    guard(on_lost, margin, &args[2..]).map_or(SYSTEM, |()| 0)
}

fn guard(on_lost: OnLost, margin: Duration, supervisor: &[OsString]) -> io::Result<()> {
    signals::swallow()?;
    let (mut ended, waker) = UnixStream::pair()?;
    ended.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(SIGCHLD, waker)?;
    let mut orders = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let Some((link, mut unread)) = link::receive_first(&orders)? else { return Ok(()) };
    orders.set_nonblocking(true)?;
    let mut alarm = Alarm::new()?;
    // The other policies let the command run beyond its lease.
    let mut fuse = (on_lost == OnLost::Kill).then(Fuse::new).transpose()?;
    let mut burn = |unread: &mut Vec<u8>| -> io::Result<()> {
        while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = unread.drain(..=end).collect();
            if let (Some(Order::Until(until)), Some(fuse)) =
                (Order::parse(String::from_utf8_lossy(&line).trim_end()), &mut fuse)
            {
                fuse.set(until.minus(margin / LAST))?;
            }
        }
        Ok(())
    };
    burn(&mut unread)?;
    let mut child = match start(&link, supervisor) {
        Ok(child) => child,
        Err(e) => return UnixStream::from(link).write_all(Report::Failed(e.to_string()).line().as_bytes()),
    };
    drop(link);
    supervised::let_go_of_output();
    let mut listening = true;
    while child.try_wait()?.is_none() {
        let both = [ended.as_fd(), orders.as_fd()];
        let readers = if listening { &both[..] } else { &both[..1] };
        alarm::wait(&mut alarm, readers, Moment::NEVER, None)?;
        while matches!(ended.read(&mut [0; 64]), Ok(n) if n > 0) {}
        let mut bytes = [0; 1024];
        while listening {
            match orders.read(&mut bytes) {
                // redleash is gone. The supervisor knows it too, and the timer stays as it is.
                Ok(0) => listening = false,
                Ok(n) => unread.extend_from_slice(&bytes[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => listening = false,
            }
        }
        burn(&mut unread)?;
    }
    Ok(())
}

/// The supervisor, as the first process of a new namespace.
fn start(link: &OwnedFd, supervisor: &[OsString]) -> io::Result<Child> {
    imp::enter()?;
    let stdin = Stdio::from(link.try_clone()?);
    Command::new(supervised::myself()?).arg0("redleash").arg(supervisor::STAGE).args(supervisor).stdin(stdin).spawn()
}

#[cfg(target_os = "linux")]
mod imp {
    use super::{Duration, Moment, io};
    use nix::sched::{CloneFlags, unshare};
    use nix::sys::signal::{SigEvent, SigevNotify, Signal as NixSignal};
    use nix::sys::time::TimeSpec;
    use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
    use nix::time::ClockId;
    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
    use rustix::process::{Pid, Signal, getegid, geteuid, getpid, set_parent_process_death_signal};
    use rustix::thread::{CapabilitySet, CapabilitySets};
    use rustix::thread::{capabilities, configure_capability_in_ambient_set, set_capabilities};
    use std::fs;

    fn because(what: &str, e: impl Into<io::Error>) -> io::Error {
        let e = e.into();
        io::Error::new(e.kind(), format!("{what}: {e}"))
    }

    /// The next child of this process is the first one of a new pid namespace. The process must have one thread.
    pub(crate) fn enter() -> io::Result<()> {
        let flags = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS;
        let (uid, gid) = (geteuid(), getegid());
        match unshare(flags) {
            Ok(()) => {}
            // Without the right: in a user namespace, where it has the right, as the same user.
            Err(nix::errno::Errno::EPERM) => {
                unshare(flags | CloneFlags::CLONE_NEWUSER).map_err(|e| {
                    let where_to_look = "user.max_user_namespaces, kernel.unprivileged_userns_clone, AppArmor, the \
                                         container's seccomp";
                    because(&format!("the kernel refuses this user a user and a pid namespace ({where_to_look})"), e)
                })?;
                let map = |file: &str, text: String| {
                    let refused = |e| because(&format!("the kernel refuses a user namespace ({file}; AppArmor?)"), e);
                    fs::write(format!("/proc/self/{file}"), text).map_err(refused)
                };
                map("setgroups", "deny".into())?;
                map("uid_map", format!("{uid} {uid} 1"))?;
                map("gid_map", format!("{gid} {gid} 1"))?;
                keep_the_right().map_err(|e| because("cannot hand the right to mount /proc on", e))?;
            }
            Err(e) => return Err(because("the kernel refuses a pid namespace", e)),
        }
        // What is mounted inside is not seen outside.
        mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)
            .map_err(|e| because("the kernel refuses mounts in a namespace of its own (AppArmor?)", e))
    }

    /// Through the exec of the next stage, which would lose it: the user is not root.
    fn keep_the_right() -> io::Result<()> {
        let mut sets: CapabilitySets = capabilities(None)?;
        sets.inheritable |= CapabilitySet::SYS_ADMIN;
        set_capabilities(None, sets)?;
        Ok(configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)?)
    }

    /// In the first process of the namespace: it dies with the warden, and /proc shows the namespace. The right that this took is
    /// given up.
    pub(crate) fn settle() -> io::Result<()> {
        if getpid() != Pid::INIT {
            return Err(io::Error::other("this is not the first process of a pid namespace"));
        }
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("proc", "/proc", "proc", flags, None).map_err(|e| {
            because("the kernel refuses a /proc of the namespace (in a container: parts of its /proc are hidden)", e)
        })?;
        if !geteuid().is_root() {
            let none = CapabilitySet::empty();
            // Ambient ones go with the inheritable ones.
            set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
        }
        Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
    }

    /// The number, outside, of the process that has the number `inside` in the namespace below `warden`.
    pub(crate) fn pid_outside(warden: Pid, inside: i32) -> Option<Pid> {
        let number = inside.to_string();
        let is_it = |pid: i32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
            line.split_whitespace().last() == Some(&number)
        };
        let found = crate::tree::Tree::below(&[warden]).look().ok()?;
        // Deeper namespaces have their own numbers; the one above all of them comes first.
        found.bound.iter().map(|process| process.pid).find(|pid| is_it(*pid)).and_then(Pid::from_raw)
    }

    /// A timer of the kernel that kills this process.
    pub(crate) struct Fuse(Timer);

    impl Fuse {
        pub(crate) fn new() -> io::Result<Fuse> {
            let kill = SigEvent::new(SigevNotify::SigevSignal { signal: NixSignal::SIGKILL, si_value: 0 });
            Timer::new(ClockId::CLOCK_BOOTTIME, kill).map(Fuse).map_err(|e| because("the kernel refuses a timer", e))
        }

        pub(crate) fn set(&mut self, at: Moment) -> io::Result<()> {
            // Zero would switch it off.
            let at = TimeSpec::from_duration(Duration::from_nanos(at.0.max(1)));
            Ok(self.0.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)?)
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use super::{Moment, io};
    use rustix::process::Pid;

    fn unsupported() -> io::Error {
        io::Error::new(io::ErrorKind::Unsupported, "this operating system has no pid namespaces")
    }

    pub(crate) fn enter() -> io::Result<()> {
        Err(unsupported())
    }

    pub(crate) fn settle() -> io::Result<()> {
        Err(unsupported())
    }

    pub(crate) fn pid_outside(_: Pid, _: i32) -> Option<Pid> {
        None
    }

    pub(crate) struct Fuse;

    impl Fuse {
        pub(crate) fn new() -> io::Result<Fuse> {
            Err(unsupported())
        }

        pub(crate) fn set(&mut self, _: Moment) -> io::Result<()> {
            Err(unsupported())
        }
    }
}
