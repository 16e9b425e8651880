//! The last stage before the command: this process becomes it. What `pre_exec` would do, without unsafe code.

use crate::command;
use crate::exit::{SYSTEM, USAGE};
use crate::say;
use crate::terminal::{self, Terminal};
use rustix::process::getppid;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The word that starts this stage: `redleash exec-command NAME SUPERVISOR FOREGROUND CMD ARGS...`.
pub(crate) const STAGE: &str = "exec-command";

pub(crate) fn main(args: &[OsString]) -> u8 {
    let (Some(name), Some(supervisor), Some(foreground), [program, rest @ ..]) =
        (word(args, 0), word(args, 1), word(args, 2), args.get(3..).unwrap_or_default())
    else {
        say::sentence("this stage is started by `redleash run` only");
        return USAGE;
    };
    die_with_the_supervisor();
    if getppid().map(|pid| pid.as_raw_nonzero().to_string()).as_deref() != Some(supervisor) {
        return SYSTEM;
    }
    if foreground == "foreground"
        && let Some(terminal) = Terminal::open()
    {
        terminal.take();
    }
    terminal::unblock_stops();
    let error = Command::new(program).args(rest).exec();
    let failure = command::failed(name, program, &error);
    say::sentence(&failure.sentence);
    failure.code
}

fn word(args: &[OsString], i: usize) -> Option<&str> {
    args.get(i)?.to_str()
}

/// For the case that both, redleash and its supervisor, get SIGKILL (`pkill -9 redleash`).
fn die_with_the_supervisor() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}
