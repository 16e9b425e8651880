//! The one line that shows what redleash is doing while it waits or measures on a terminal.

use super::say;
use crate::system::terminal::{Terminal, columns};
use rustix::termios::isatty;
use std::io::{self, Write};

/// Written over at each update, and wiped out when dropped. Shows nothing if standard error is no terminal, or if
/// another job has the terminal.
pub(crate) struct ProgressLine {
    shown: bool,
    enabled: bool,
}

impl ProgressLine {
    pub(crate) fn new(terminal: Option<&Terminal>) -> ProgressLine {
        ProgressLine { shown: false, enabled: isatty(io::stderr()) && terminal.is_none_or(Terminal::is_ours) }
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    pub(crate) fn show(&mut self, text: &str) {
        if self.enabled {
            self.shown = true;
            let room = columns(io::stderr()).saturating_sub(1);
            // A line that wraps could not be written over.
            let text: String = say::shown(text).chars().take(room).collect();
            write(&format!("\r\x1b[K{text}"));
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.shown {
            write("\r\x1b[K");
        }
    }
}

fn write(text: &str) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}
