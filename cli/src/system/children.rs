//! The children of this process: that one has ended or stopped, and that orphans come here.

use rustix::fd::{AsFd, BorrowedFd};
use signal_hook::consts::SIGCHLD;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;

/// Becomes readable when a child has ended or stopped.
pub(crate) struct Children(UnixStream);

impl Children {
    pub(crate) fn new() -> io::Result<Children> {
        let (children, waker) = UnixStream::pair()?;
        children.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(SIGCHLD, waker)?;
        Ok(Children(children))
    }

    /// Takes note of what has come so far, so that a poll waits for more.
    pub(crate) fn drain(&mut self) {
        while matches!(self.0.read(&mut [0; 64]), Ok(n) if n > 0) {}
    }
}

impl AsFd for Children {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Processes whose parent has ended become children of this process: so they stay below it, and are collected also
/// where nobody else does that, as in a container without an init.
///
/// False if the operating system has no such thing.
pub(crate) fn adopt_orphans() -> bool {
    #[cfg(target_os = "linux")]
    let adopted = rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_ok();
    #[cfg(not(target_os = "linux"))]
    let adopted = false;
    adopted
}
