//! What a review found about processes that fork or stand still, kept.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may stop at the first surprise, and reads the clock that its user reads"
)]

mod support;

use fork::{Fork, fork};
use redleash::{Error, Lease, Lost, Options, Reason, State};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;
use support::child::{Child, hear, say, task};
use support::{SOON, alone, builder, lock_keys, masters, ms, secs, settled};

/// Runs `child` in a fork and gives its answer: 0 for what was expected, -2 if it hung. The child must not print nor fail
/// an assertion: another thread of the parent may have held any lock when the fork took its picture.
fn in_fork(child: impl FnOnce() -> u8) -> i32 {
    match fork() {
        Ok(Fork::Child) => {
            let code = catch_unwind(AssertUnwindSafe(child)).unwrap_or(100);
            // Without `exit`: it runs code that may want a lock of the parent's, too.
            let _ = kill_process(rustix::process::getpid(), if code == 0 { Signal::TERM } else { Signal::INT });
            std::process::exit(i32::from(code));
        }
        Ok(Fork::Parent(pid)) => {
            let pid = Pid::from_raw(pid).unwrap();
            let start = Instant::now();
            loop {
                if let Some((_, status)) = waitpid(Some(pid), WaitOptions::NOHANG).unwrap() {
                    let by = status.terminating_signal();
                    return if by == Some(Signal::TERM.as_raw()) { 0 } else { status.exit_status().unwrap_or(1) };
                }
                if start.elapsed() > secs(10) {
                    let _ = kill_process(pid, Signal::KILL);
                    let _ = waitpid(Some(pid), WaitOptions::empty());
                    return -2;
                }
                support::let_pass(ms(2));
            }
        }
        Err(e) => panic!("fork: {e}"),
    }
}
