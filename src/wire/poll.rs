//! Waiting until one of several connections has something to say.

use super::conn::Conn;
use crate::sys::wake::Wake;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::time::Duration;

/// Waits for at most `limit` until one of `conns` has something to read, takes bytes again (asked for those with
/// `true`), or `wake` is signalled. A mask of those that have something to read, and whether any takes bytes.
pub(super) fn poll<'a>(conns: impl Iterator<Item = (&'a Conn, bool)>, wake: &Wake, limit: Duration) -> (u64, bool) {
    let mut fds = Vec::with_capacity(conns.size_hint().0 + 1);
    for (conn, backlog) in conns {
        let flags = if backlog { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        fds.push(PollFd::new(conn, flags));
    }
    let woken = fds.len();
    fds.push(PollFd::from_borrowed_fd(wake.fd(), PollFlags::IN));
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    if !matches!(rustix::event::poll(&mut fds, Some(&limit)), Ok(n) if n > 0) {
        return (0, false);
    }
    let (mut ready, mut writable) = (0, false);
    for (k, fd) in fds.iter().enumerate() {
        let events = fd.revents();
        if k == woken {
            if !events.is_empty() {
                wake.drain();
            }
        } else {
            writable |= events.contains(PollFlags::OUT);
            ready |= u64::from(events.intersects(!PollFlags::OUT)) << k;
        }
    }
    (ready, writable)
}
