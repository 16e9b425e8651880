//! The last stage before the command: this process becomes it. It does what `pre_exec` would do, without unsafe code.

use super::stage;
use super::task::parse_foreground;
use crate::command;
use crate::exit::SYSTEM;
use crate::system::terminal::{self, Terminal};
use crate::text::say;
use rustix::process::getppid;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Ends only if the command cannot be executed; the exit code.
pub(super) fn main(args: &[OsString]) -> u8 {
    let [name, supervisor, foreground, program, rest @ ..] = args else { return stage::refuse() };
    let (Some(name), Some(supervisor), Some(foreground)) =
        (name.to_str(), supervisor.to_str(), parse_foreground(foreground))
    else {
        return stage::refuse();
    };
    die_with_the_supervisor();
    // It may have died before the line above.
    if getppid().map(|pid| pid.as_raw_nonzero().to_string()).as_deref() != Some(supervisor) {
        return SYSTEM;
    }
    if foreground && let Some(terminal) = Terminal::open() {
        terminal.take();
    }
    terminal::unblock_stops();
    let error = Command::new(program).args(rest).exec();
    let failure = command::failed(name, program, &error);
    say::sentence(&failure.sentence);
    failure.code
}

/// For the case that both redleash and its supervisor get SIGKILL (`pkill -9 redleash`).
fn die_with_the_supervisor() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}
