//! The standard streams of a process that has started the command: from then on they are the command's alone.

use rustix::fs::{Mode, OFlags, open};
use rustix::stdio::{dup2_stdin, dup2_stdout};

/// A reader of the standard output sees its end when the command closes it.
pub(crate) fn let_go_of_output() {
    if let Ok(null) = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        let _ = dup2_stdout(&null);
    }
}

/// A writer to the standard input sees that the command has closed it.
pub(crate) fn let_go_of_input() {
    if let Ok(null) = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        let _ = dup2_stdin(&null);
    }
}
