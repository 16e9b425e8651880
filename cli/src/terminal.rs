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
    /// As they were before the command changed them.
    modes: Option<Termios>,
}

/// From here on this thread, and those that it starts, may hand the foreground around and write from the background.
/// Whoever does so with SIGTTOU neither blocked nor ignored is stopped.
pub(crate) fn block_stops() {
    let _ = ttou().thread_block();
}

/// The command gets SIGTTOU as usual.
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

    /// Whether the command should have the foreground from its beginning: it talks to the terminal in both directions. In a
    /// pipeline it is another one who does (`redleash run x -- make | less`), and taking the foreground from that one would
    /// stop it. A command that reads the terminal nevertheless gets the foreground when it does.
    pub(crate) fn is_for_the_command(&self) -> bool {
        self.is_ours() && isatty(std::io::stdin()) && isatty(std::io::stdout())
    }

    /// Gives the foreground to a group.
    pub(crate) fn give(&self, group: Pid) {
        let _ = tcsetpgrp(&self.tty, group);
    }

    /// Gives the foreground to the group of the calling process; in the command's process, before the command.
    pub(crate) fn take(&self) {
        self.give(self.own);
    }

    /// Takes the foreground back from a group that has it.
    pub(crate) fn take_back(&self, group: Pid) {
        if self.has(group) {
            self.take();
        }
    }

    /// Undoes what a command that was killed did to the terminal: an editor leaves it raw.
    pub(crate) fn restore_modes(&self) {
        if let Some(modes) = self.modes.as_ref().filter(|_| self.is_ours()) {
            let _ = tcsetattr(&self.tty, OptionalActions::Drain, modes);
        }
    }
}

/// The columns of a terminal.
pub(crate) fn columns(terminal: impl AsFd) -> usize {
    tcgetwinsize(terminal).map_or(80, |size| usize::from(size.ws_col).max(20))
}
