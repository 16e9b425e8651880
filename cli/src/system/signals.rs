//! Signals that redleash forwards to the command.

use redleash::crossbeam_channel::{Receiver, unbounded};
use rustix::process::Signal;
use signal_hook::consts::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGUSR1, SIGUSR2,
    SIGVTALRM, SIGWINCH,
};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The signals that are forwarded. Any other signal that ends redleash makes the supervisor end the command.
const FORWARDED: [i32; 12] =
    [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGWINCH, SIGCONT];

/// Whether the signal ends a process that does not handle it; asked about the signals that are forwarded.
pub(crate) fn ends(signal: i32) -> bool {
    signal != SIGWINCH && signal != SIGCONT
}

/// Those of `all` that were not ignored when this program was started. An ignored signal stays ignored, here and in the
/// command, because `nohup` and a shell's `&` rely on that; a handler here would become the default action in the
/// command.
fn not_ignored(all: &[i32]) -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    all.iter().copied().filter(|signal| ignored & (1 << (signal - 1)) == 0).collect()
}

/// The signals that come to this process from now on.
pub(crate) fn catch() -> io::Result<Receiver<i32>> {
    let mut signals = Signals::new(not_ignored(&FORWARDED))?;
    let (sender, receiver) = unbounded();
    let forward = move || {
        for signal in signals.forever() {
            if sender.send(signal).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("redleash-signals".into()).spawn(forward)?;
    Ok(receiver)
}

/// Keeps this process alive through signals that were meant for all of redleash: `run` forwards them, once.
pub(crate) fn swallow() -> io::Result<()> {
    let seen = Arc::new(AtomicBool::new(false));
    for signal in not_ignored(&[&FORWARDED[..], &[SIGTSTP, SIGTTIN]].concat()) {
        signal_hook::flag::register(signal, seen.clone())?;
    }
    Ok(())
}

/// Lets this process wait for its children even if its caller ignored SIGCHLD, in which case the kernel would collect
/// them unseen. A handler that does nothing is enough, and programs that are started from here have the default action
/// again.
pub(crate) fn hear_of_children() -> io::Result<()> {
    signal_hook::flag::register(SIGCHLD, Arc::new(AtomicBool::new(false))).map(drop)
}

/// The signal of this number, if it has a name.
pub(crate) fn named(signal: i32) -> Option<Signal> {
    Signal::from_named_raw(signal)
}

/// `SIGTERM` for 15.
pub(crate) fn name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_string)
}
