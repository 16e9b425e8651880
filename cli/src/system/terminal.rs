//! The terminal that redleash was started on, if there is one, and who has its foreground.

use nix::sys::signal::{SigSet, Signal as NixSignal};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, getpgrp};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr, tcsetpgrp};

/// See the module.
pub(crate) struct Terminal {
    tty: OwnedFd,
    own: Pid,
    /// The modes before the command could change them.
    modes: Option<Termios>,
}

/// Lets this thread, and those that it starts from now on, hand the foreground to others and write from the background.
/// The kernel stops a process that does so while SIGTTOU is neither blocked nor ignored.
pub(crate) fn block_stops() {
    let _ = ttou().thread_block();
}

/// Undoes [`block_stops`] in the command's process: the command gets SIGTTOU as usual.
pub(crate) fn unblock_stops() {
    let _ = ttou().thread_unblock();
}

fn ttou() -> SigSet {
    SigSet::from(NixSignal::SIGTTOU)
}

impl Terminal {
    /// The controlling terminal; `None` if there is none, as under cron.
    pub(crate) fn open() -> Option<Terminal> {
        let tty = open("/dev/tty", OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty()).ok()?;
        let modes = tcgetattr(&tty).ok();
        Some(Terminal { tty, own: getpgrp(), modes })
    }

    /// Whether the foreground is ours.
    pub(crate) fn is_ours(&self) -> bool {
        self.has(self.own)
    }

    /// Whether the foreground is this group's.
    pub(crate) fn has(&self, group: Pid) -> bool {
        tcgetpgrp(&self.tty).is_ok_and(|foreground| foreground == group)
    }

    /// Whether the command should have the foreground from its beginning: it reads from and writes to the terminal. In
    /// a pipeline (`redleash run x -- make | less`) another program reads the terminal, and would be stopped if it lost
    /// the foreground. A command that reads the terminal nevertheless gets the foreground when it does.
    pub(crate) fn is_for_the_command(&self) -> bool {
        self.is_ours() && isatty(std::io::stdin()) && isatty(std::io::stdout())
    }

    /// Gives the foreground to a group.
    pub(crate) fn give(&self, group: Pid) {
        let _ = tcsetpgrp(&self.tty, group);
    }

    /// Gives the foreground to the group of this process.
    pub(crate) fn take(&self) {
        self.give(self.own);
    }

    /// Takes the foreground back from a group that has it.
    pub(crate) fn take_back(&self, group: Pid) {
        if self.has(group) {
            self.take();
        }
    }

    /// Restores the modes after a command was killed, since an editor leaves the terminal raw.
    pub(crate) fn restore_modes(&self) {
        if let Some(modes) = self.modes.as_ref().filter(|_| self.is_ours()) {
            let _ = tcsetattr(&self.tty, OptionalActions::Drain, modes);
        }
    }
}

/// The number of columns of a terminal.
pub(crate) fn columns(terminal: impl AsFd) -> usize {
    tcgetwinsize(terminal).map_or(80, |size| usize::from(size.ws_col).max(20))
}
