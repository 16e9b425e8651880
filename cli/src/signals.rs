//! Signals that redleash hands on to the command.

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

/// What a command may be sent. Any other signal that ends redleash ends the command through the supervisor.
const FORWARDED: [i32; 12] =
    [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGWINCH, SIGCONT];

/// Whether the signal ends a process that does nothing about it.
pub(crate) fn ends(signal: i32) -> bool {
    signal != SIGWINCH && signal != SIGCONT
}

/// Those of `all` that were not ignored when this program was started. What is ignored stays so, here and in the command:
/// that is what `nohup` and a shell's `&` rely on, and a handler would become the default action in the command.
fn wanted(all: &[i32]) -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    all.iter().copied().filter(|signal| ignored & (1 << (signal - 1)) == 0).collect()
}

/// Signals of this process, from now on.
pub(crate) fn catch() -> io::Result<Receiver<i32>> {
    let mut signals = Signals::new(wanted(&FORWARDED))?;
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

/// Lives on through signals that were meant for all of redleash: `run` hands them on, once.
pub(crate) fn swallow() -> io::Result<()> {
    let seen = Arc::new(AtomicBool::new(false));
    for signal in wanted(&[&FORWARDED[..], &[SIGTSTP, SIGTTIN]].concat()) {
        signal_hook::flag::register(signal, seen.clone())?;
    }
    Ok(())
}

/// Lets this process wait for its children, though its caller ignored SIGCHLD: the kernel would collect them unseen. A
/// handler that does nothing is enough, and what is started from here has the default action again.
pub(crate) fn hear_of_children() -> io::Result<()> {
    signal_hook::flag::register(SIGCHLD, Arc::new(AtomicBool::new(false))).map(drop)
}

/// A signal by its number, if it has a name.
pub(crate) fn named(signal: i32) -> Option<Signal> {
    Signal::from_named_raw(signal)
}

/// `SIGTERM` for 15.
pub(crate) fn name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_string)
}
