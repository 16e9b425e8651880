//! A terminal and somebody who types.

use super::{DEADLINE, REDLEASH};
use redleash_testkit::wait_until;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetpgrp, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// Dropping it closes the terminal and kills what leads its session.
pub struct Terminal {
    master: Option<Arc<File>>,
    reader: Option<JoinHandle<()>>,
    closing: Arc<AtomicBool>,
    screen: Arc<Mutex<String>>,
    pub leader: Child,
}

impl Terminal {
    /// Runs `sh -c SCRIPT` or the like as the leader of a new session on a new terminal; `redleash` is in its PATH.
    pub fn start(masters: &str, args: &[&str]) -> Terminal {
        super::hear_signals();
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        tcsetwinsize(&master, Winsize { ws_row: 40, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = || -> OwnedFd {
            open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap()
        };
        let directory = std::path::Path::new(REDLEASH).parent().unwrap();
        let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
        let leader = Command::new("setsid")
            .arg("--ctty")
            .args(args)
            .env("PATH", path)
            .env("REDLEASH_NODES", masters)
            .env("PS1", "$ ")
            .env("TERM", "dumb")
            .stdin(slave())
            .stdout(slave())
            .stderr(slave())
            .spawn()
            .unwrap();
        let master = Arc::new(File::from(master));
        let screen = Arc::new(Mutex::new(String::new()));
        let closing = Arc::new(AtomicBool::new(false));
        let (shared, shown, stop) = (master.clone(), screen.clone(), closing.clone());
        let reader = thread::spawn(move || read(&shared, &shown, &stop));
        Terminal { master: Some(master), reader: Some(reader), closing, screen, leader }
    }

    /// A shell with job control.
    pub fn bash(masters: &str) -> Terminal {
        let terminal = Terminal::start(masters, &["bash", "--norc", "--noprofile", "--noediting", "-i"]);
        terminal.expect("$ ");
        terminal
    }

    pub fn typed(&self, text: &str) {
        self.master.as_deref().unwrap().write_all(text.as_bytes()).unwrap();
    }

    pub fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    /// Waits until this was printed. What is typed is shown too, so look for what is not typed.
    #[track_caller]
    pub fn expect(&self, text: &str) {
        // As long as for the end of a program: what is waited for may be its last line.
        let shown = wait_until(3 * DEADLINE, || self.screen().contains(text));
        assert!(shown, "{text:?} did not appear on the terminal:\n{}", self.screen());
    }

    /// The group that has the foreground.
    pub fn foreground(&self) -> Option<u32> {
        let group = tcgetpgrp(self.master.as_deref().unwrap()).ok()?;
        u32::try_from(group.as_raw_nonzero().get()).ok()
    }

    /// The window is closed, or the connection has ended.
    pub fn close(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        self.master = None;
    }

    /// Waits for the end of the leader.
    #[track_caller]
    pub fn end(&mut self) -> ExitStatus {
        let mut status = None;
        let ended = wait_until(3 * DEADLINE, || {
            status = self.leader.try_wait().unwrap();
            status.is_some()
        });
        assert!(ended, "the session goes on:\n{}", self.screen());
        // What it printed last is still to be read; then the terminal has nobody left.
        wait_until(DEADLINE, || self.reader.as_ref().is_none_or(JoinHandle::is_finished));
        status.unwrap()
    }
}

/// Shows what is printed, until the terminal is closed; a read that blocks would keep it open.
fn read(mut master: &File, screen: &Mutex<String>, closing: &AtomicBool) {
    let mut bytes = [0; 4096];
    let look = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    while !closing.load(Ordering::SeqCst) {
        match poll(&mut [PollFd::new(master, PollFlags::IN)], Some(&look)) {
            Ok(0) | Err(_) => continue,
            Ok(_) => {}
        }
        match master.read(&mut bytes) {
            Ok(n @ 1..) => screen.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..n])),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.leader.kill();
        let _ = self.leader.wait();
        self.close();
    }
}
