//! One connection: a non-blocking stream, and what is known of the server behind it.
//!
//! The seam for TLS is `send` and `receive`: both take plain bytes and neither blocks; a sealed stream keeps its
//! cipher state behind a short mutex with no I/O inside and answers `wants_write` after a handshake message.

use crate::protocol::generation::Found;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A TCP or Unix socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(s) => s.set_nonblocking(true),
            Stream::Unix(s) => s.set_nonblocking(true),
        }
    }

    pub(crate) fn set_timeout(&self, limit: Duration) -> io::Result<()> {
        let limit = Some(limit.max(Duration::from_millis(1)));
        match self {
            Stream::Tcp(s) => s.set_read_timeout(limit).and_then(|()| s.set_write_timeout(limit)),
            Stream::Unix(s) => s.set_read_timeout(limit).and_then(|()| s.set_write_timeout(limit)),
        }
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => (&mut &*s).write(bytes),
            Stream::Unix(s) => (&mut &*s).write(bytes),
        }
    }

    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => (&mut &*s).read(buffer),
            Stream::Unix(s) => (&mut &*s).read(buffer),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(s) => s.as_fd(),
            Stream::Unix(s) => s.as_fd(),
        }
    }
}

/// Who a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// 24 digits of its run id and 24 of its replication id.
    pub(crate) text: String,
    /// It has or had replicas: its history may change while the process lives, and come back with old data.
    pub(crate) watched: bool,
    /// Its generation.
    pub(crate) found: Found,
}

/// A connection that has passed the handshake. Shared by the writer and the reader of a lane.
#[derive(Debug)]
pub(crate) struct Conn {
    stream: Stream,
    id: u64,
    server: Identity,
    broken: AtomicBool,
}

impl Conn {
    /// Wraps a stream to this server.
    pub(crate) fn new(stream: Stream, server: Identity) -> Conn {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Conn { stream, id: NEXT.fetch_add(1, Ordering::Relaxed), server, broken: AtomicBool::new(false) }
    }

    /// A number that no other connection of this process has.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Who the server was at the handshake. The process stays: a connection ends with it. Its history may not.
    pub(crate) fn identity(&self) -> &str {
        &self.server.text
    }

    /// What stood for the generation of the server at the handshake.
    pub(crate) fn found(&self) -> Found {
        self.server.found
    }

    /// Whether the server's history is to be asked for in every vote.
    pub(crate) fn is_watched(&self) -> bool {
        self.server.watched
    }

    /// Writes what the socket takes now.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.send(bytes)
    }

    /// Reads what the socket has now.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.receive(buffer)
    }

    /// Whether there is something to read, or the other end has closed. On a connection that owes nothing either means
    /// that it is of no use any more.
    pub(crate) fn has_news(&self) -> bool {
        let mut fds = [PollFd::new(&self.stream, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(n) if n > 0)
    }

    /// Marks the connection unusable. A connection with an unknown number of replies under way is not used again: it
    /// could answer a grant for a key that somebody else holds (`docs/SAFETY.md#unread-replies`).
    pub(crate) fn break_off(&self) {
        self.broken.store(true, Ordering::Release);
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }
}

impl AsFd for Conn {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
