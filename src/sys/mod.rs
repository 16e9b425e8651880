//! The operating system, in one place: clocks, randomness, threads, the log, and file descriptors that wake a poll.
//!
//! Linux is the home. Every other Unix gets portable stand-ins; `--cfg redleash_portable` forces them on Linux, so that
//! the tests run with them too.

pub(crate) mod channel;
pub(crate) mod clock;
pub(crate) mod entropy;
pub(crate) mod journal;
mod panics;
mod rank;
pub(crate) mod sync;
pub(crate) mod thread;
pub(crate) mod timer;
pub(crate) mod wake;

/// The id of this process. A fork is noticed by comparing it; it is asked for anew each time, because nothing cached
/// survives a fork truthfully without unsafe code.
pub(crate) fn pid() -> u32 {
    std::process::id()
}

/// What identifies this boot of this machine, where the system tells: moments of the monotonic clock mean the same
/// only within one boot.
pub(crate) fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|s| s.trim().to_string()).unwrap_or_default()
}

/// The host's name, for the label of an owner.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
